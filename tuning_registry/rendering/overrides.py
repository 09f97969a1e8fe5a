"""Overrides and exports as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tuning_registry.formats.short_configs import short_config
from tuning_registry.rendering.base import SECONDS, Format, Record, columns_in_use, render_columns, render_results

if TYPE_CHECKING:  # importing it for real would load SQLAlchemy
    from tuning_registry.operations.tables.export_log import ExportRecord
    from tuning_registry.rules.overrides import Override

_OVERRIDE: Final = (
    "id",
    "action",
    "arch",
    "kernel",
    "key",
    "config",
    "reason",
    "author",
    "until",
    "created_at",
    "lifts",
)
_DIGITS: Final = 16  # of a digest, in a table
_EXPORT: Final = ("digest", "selection_digest", "arch", "policy", "entries", "recordings", "runs", "filters", "output", "exported_by",
                  "exported_at")  # fmt: skip


def render_overrides(overrides: Sequence[Override], style: Format) -> str:
    """Overrides with who decided them and until when they apply."""
    return render_results(overrides, style, _OVERRIDE, _overrides_text)


def _overrides_text(overrides: Sequence[Override]) -> str:
    rows = [
        {**one.to_dict(), "config": short_config(one.config), "created_at": one.created_at[:SECONDS]}
        for one in overrides
    ]
    return render_columns(rows, columns_in_use(rows, _OVERRIDE, always=3))


def render_exports(exports: Sequence[ExportRecord], style: Format) -> str:
    """Exported tables, one per line; JSON has every filter."""
    return render_results(exports, style, _EXPORT, _exports_text, _export_rows)


def _export_rows(record: ExportRecord) -> Iterable[Record]:
    filters = [f"{name}={_filter_text(value)}" for name, value in record.filters.items()]
    yield {**record.to_dict(), "filters": filters}


def _filter_text(value: object) -> str:
    """The value of a filter as an option takes it: `july` rather than `['july']`."""
    if isinstance(value, dict):
        value = [f"{name}={version}" for name, version in value.items()]
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _shortened(record: ExportRecord) -> Record:
    return {"digest": record.digest[:_DIGITS], "selection_digest": (record.selection_digest or "")[:_DIGITS]}


def _exports_text(exports: Sequence[ExportRecord]) -> str:
    rows = [
        {**row, **_shortened(record), "exported_at": row["exported_at"][:SECONDS]}
        for record in exports
        for row in _export_rows(record)
    ]
    return render_columns(rows, columns_in_use(rows, _EXPORT, always=3))
