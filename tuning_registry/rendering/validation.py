"""The problems of tables as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tuning_registry.formats.table_problems import TableProblem
from tuning_registry.rendering.base import Format, join_lines, render, render_results
from tuning_registry.rendering.markdown import markdown_page, markdown_table
from tuning_registry.rendering.screen import Paint, paint

if TYPE_CHECKING:  # importing it for real would load SQLAlchemy
    from tuning_registry.operations.tables.checking import TableCheck

_COLUMNS: Final = ("file", "kernel", "key", "field", "problem", "expected")
_CHECKED: Final = ("kind", "problem")


def render_problems(problems: Sequence[TableProblem], style: Format) -> str:
    """Every problem, one line each."""
    return render_results(problems, style, _COLUMNS, lambda found: join_lines(map(str, found)))


def render_check(found: TableCheck, style: Format, heading: str = "") -> str:
    """Every problem of a checked table, one line each. JSON is one object, which also has the notes.

    Args:
        found: The outcome.
        style: The format.
        heading: The first line of the Markdown; the notes are its last ones.
    """
    rows = [dict(zip(_CHECKED, problem.partition(": ")[::2], strict=True)) for problem in found.problems]

    def markdown() -> str:
        return markdown_page(heading, markdown_table(rows, _CHECKED, sentences=("problem",)), found.notes)

    return render(
        style,
        data=found.to_dict,
        columns=_CHECKED,
        rows=lambda: rows,
        text=lambda: join_lines(paint(row["kind"], Paint.BAD) + f": {row['problem']}" for row in rows),
        markdown=markdown,
    )
