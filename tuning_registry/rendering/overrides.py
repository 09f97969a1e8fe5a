"""Overrides and exports, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import parse_config
from tuning_registry.rendering.base import Format, render_columns, render_csv, render_json

if TYPE_CHECKING:  # importing them for real would load SQLAlchemy
    from tuning_registry.operations.export_log import ExportRecord
    from tuning_registry.operations.overrides import Override

_OVERRIDE = ("id", "action", "arch", "kernel", "key", "config", "reason", "author", "until", "created_at", "lifts")
_EXPORT = (
    "digest",
    "arch",
    "policy",
    "entries",
    "recordings",
    "runs",
    "filters",
    "output",
    "exported_by",
    "exported_at",
)
_SECONDS = len("2026-11-30T12:00:00")  # people need no microseconds


def render_overrides(overrides: Sequence[Override], style: Format) -> str:
    """Overrides with who decided them and until when."""
    rows = [asdict(override) for override in overrides]
    if style is Format.json:
        return render_json([{**row, "config": parse_config(row["config"])} for row in rows])
    if style is Format.csv:
        return render_csv(rows, _OVERRIDE)
    shown = [{**row, "config": short_config(row["config"]), "created_at": row["created_at"][:_SECONDS]} for row in rows]
    return render_columns(shown, _used(shown, _OVERRIDE))


def render_exports(exports: Sequence[ExportRecord], style: Format) -> str:
    """Exported tables, one a line; in JSON with every filter."""
    rows = [asdict(record) for record in exports]
    if style is Format.json:
        return render_json(rows)
    flat = [{**row, "filters": [f"{name}={value}" for name, value in row["filters"].items()]} for row in rows]
    if style is Format.csv:
        return render_csv(flat, _EXPORT)
    shown = [{**row, "digest": row["digest"][:16], "exported_at": row["exported_at"][:_SECONDS]} for row in flat]
    return render_columns(shown, _used(shown, _EXPORT))


def _used(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[str]:
    """Columns that say anything."""
    return [name for name in columns if any(row[name] not in (None, [], "") for row in rows)] or list(columns[:3])
