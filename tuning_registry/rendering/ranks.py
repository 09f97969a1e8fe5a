"""Ranks compared with their fleet, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tuning_registry.rendering.base import Format, Record, render_columns, render_results
from tuning_registry.rendering.screen import Paint

if TYPE_CHECKING:  # importing it for real would load SQLAlchemy
    from tuning_registry.operations.reports.ranks import Rank

_COLUMNS: Final = ("run", "rank", "host", "device", "votes", "dissenting_votes", "timings", "slowdown_percent",
                   "other_code", "audited_results", "other_results", "outlier", "reasons")  # fmt: skip
_SHOWN: Final = ("run", "rank", "host", "device", "votes", "dissenting_votes", "timings", "slowdown", "outlier")


def render_ranks(ranks: Sequence[Rank], style: Format) -> str:
    """Every rank: its votes, how much slower than the fleet it is, and why it is an outlier."""
    return render_results(ranks, style, _COLUMNS, _text)


def _text(ranks: Sequence[Rank]) -> str:
    if not ranks:
        return ""
    hidden = {
        "host": not any(rank.host for rank in ranks),
        "device": len({rank.device for rank in ranks}) < 2,  # one device for all distinguishes nothing
        "outlier": not any(rank.outlier for rank in ranks),
    }
    return render_columns([_row(rank) for rank in ranks], [name for name in _SHOWN if not hidden.get(name)])


def _row(rank: Rank) -> Record:
    share = rank.dissent
    slowdown = rank.slowdown_percent
    return {
        **rank.to_dict(),
        "dissenting_votes": None if share is None else f"{rank.dissenting} ({100 * share:.1f} %)",
        "slowdown": None if slowdown is None else f"{slowdown:+.1f} %",
        "outlier": "; ".join(f"{what}: {why}" for what, why in zip(rank.outlier, rank.reasons, strict=True)),
        "paint": dict.fromkeys(("rank", "outlier"), Paint.CAUTION) if rank.outlier else {},
    }
