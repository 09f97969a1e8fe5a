"""Ranks beside their fleet, as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tuning_registry.rendering.base import Format, render_columns, render_csv, render_json

if TYPE_CHECKING:  # importing them for real would load SQLAlchemy
    from tuning_registry.operations.ranks import Rank

_COLUMNS = ("run", "rank", "host", "device", "votes", "dissenting", "timings", "factor", "outlier", "reasons")


def render_ranks(ranks: Sequence[Rank], style: Format) -> str:
    """Every rank with its votes, its factor, and what sets it apart."""
    rows = [_row(rank) for rank in ranks]
    if style is Format.json:
        return render_json(rows)
    if style is Format.csv:
        return render_csv(rows, _COLUMNS)
    if not rows:
        return ""
    columns = ["run", "rank", "host", "device", "votes", "dissent", "timings", "factor", "outlier"]
    devices = {rank.device for rank in ranks}
    silent = {
        "host": not any(rank.host for rank in ranks),
        "device": len(devices) < 2,  # one device for all tells nothing apart
        "outlier": not any(rank.outlier for rank in ranks),
    }
    return render_columns([_shown(rank) for rank in ranks], [name for name in columns if not silent.get(name)])


def _row(rank: Rank) -> dict[str, Any]:
    factor = rank.factor
    return {name: getattr(rank, name) for name in _COLUMNS} | {
        "factor": None if factor is None or not math.isfinite(factor) else round(factor, 4),
        "outlier": list(rank.outlier),
        "reasons": list(rank.reasons),
    }


def _shown(rank: Rank) -> dict[str, Any]:
    share = rank.dissent
    return {
        **_row(rank),
        "dissent": None if share is None else f"{100 * share:.1f} %",
        "factor": None if rank.factor is None else f"{rank.factor:.3f}",
        "outlier": "; ".join(f"{what}: {why}" for what, why in zip(rank.outlier, rank.reasons, strict=True)),
    }
