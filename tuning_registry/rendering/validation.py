"""The problems of table files as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tuning_registry.formats.table_problems import TableProblem
from tuning_registry.rendering.base import Format, join_lines, render_results

_COLUMNS: Final = ("file", "kernel", "key", "field", "problem", "expected")


def render_problems(problems: Sequence[TableProblem], style: Format) -> str:
    """Every problem, one line each."""
    return render_results(problems, style, _COLUMNS, lambda found: join_lines(map(str, found)))
