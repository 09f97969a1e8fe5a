"""Runs and the state of a database as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tuning_registry.errors import printable
from tuning_registry.model.names import rank_ranges
from tuning_registry.rendering.base import (
    SECONDS,
    Format,
    columns_in_use,
    join_lines,
    plain,
    render,
    render_columns,
    render_results,
)
from tuning_registry.rendering.prometheus import render_metrics
from tuning_registry.rendering.screen import Paint

if TYPE_CHECKING:  # importing them for real would load SQLAlchemy
    from tuning_registry.operations.runs import Run

_COLUMNS: Final = ("run", "ranks", "world_size", "recordings", "votes", "archs", "triton", "packages", "devices", "hosts",
                   "sources", "ingested_at", "withdrawn_at", "withdrawn_ranks")  # fmt: skip


def render_runs(runs: Sequence[Run], style: Format) -> str:
    """Every run with what it holds; times are UTC."""
    return render_results(runs, style, _COLUMNS, _runs_text, lambda run: [_row(run)])


def _row(run: Run) -> dict[str, object]:
    return run.to_dict() | {
        "ranks": rank_ranges(run.ranks),
        "withdrawn_ranks": rank_ranges(run.withdrawn_ranks) or None,
    }


def _runs_text(runs: Sequence[Run]) -> str:
    rows = [
        {
            **_row(run),
            "ingested_at": run.ingested_at[:SECONDS],
            "withdrawn_at": run.withdrawn_at and run.withdrawn_at[:SECONDS],
            "paint": dict.fromkeys(("withdrawn_at", "withdrawn_ranks"), Paint.CAUTION),
        }
        for run in runs
    ]
    columns = [name for name in _COLUMNS if name != "recordings"]
    return render_columns(rows, columns_in_use(rows, columns, always=2))


class StatusFormat(StrEnum):
    """Output formats of `status`: those of any rows, and metrics."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"
    prometheus = "prometheus"


def render_status(status: Mapping[str, object], style: StatusFormat) -> str:
    """The state of the database, one line per fact, and one per entry that ranks have not timed completely."""
    if style is StatusFormat.prometheus:
        return render_metrics(status)

    def text() -> str:
        facts = dict(status)
        untimed: Sequence[str] = facts.pop("untimed", ())  # type: ignore[assignment]
        width = max(map(len, facts))
        lines = [f"{_label(name).ljust(width)}  {printable(plain(value))}" for name, value in facts.items()]
        return join_lines([*lines, *(printable(f"untimed: {entry}") for entry in untimed)])

    return render(
        Format(style),
        data=lambda: status,
        columns=("what", "value"),
        rows=lambda: [{"what": name, "value": value} for name, value in status.items()],
        text=text,
    )


def _label(name: str) -> str:
    return name.replace("_", " ").replace("hand in", "hand-in")
