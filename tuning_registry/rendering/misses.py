"""Missed entries as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tuning_registry.rendering.base import Format, columns_in_use, render_columns, render_results

if TYPE_CHECKING:  # importing it for real would load SQLAlchemy
    from tuning_registry.operations.reports.misses import MissedEntry

_COLUMNS: Final = ("arch", "kernel", "key", "reason", "nearest", "ranks", "runs", "recorded")
# Kernel and key come last, since they can be long.
_SHOWN: Final = ("ranks", "runs", "recorded", "reason", "arch", "kernel", "key", "nearest")


def render_misses(misses: Sequence[MissedEntry], style: Format) -> str:
    """Every missed entry: how many ranks missed it, why, and whether it has votes by now."""
    return render_results(misses, style, _COLUMNS, _text)


def _text(misses: Sequence[MissedEntry]) -> str:
    rows = [{**miss.to_dict(), "recorded": "yes" if miss.recorded else "no"} for miss in misses]
    return render_columns(rows, columns_in_use(rows, _SHOWN, always=len(_SHOWN) - 1)) if rows else ""
