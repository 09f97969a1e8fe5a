"""Refused hand-ins as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tuning_registry.rendering.base import SECONDS, Format, render_columns, render_results

if TYPE_CHECKING:  # importing it for real would load SQLAlchemy
    from tuning_registry.operations.ingest.hand_ins import RefusedHandIn

_COLUMNS: Final = ("id", "received_at", "reason")


def render_refused(refused: Sequence[RefusedHandIn], style: Format) -> str:
    """Every refused hand-in with its reason; times are UTC."""
    return render_results(refused, style, _COLUMNS, _text)


def _text(refused: Sequence[RefusedHandIn]) -> str:
    rows = [{**one.to_dict(), "received_at": one.received_at[:SECONDS]} for one in refused]
    return render_columns(rows, ("received_at", "reason")) if rows else ""
