"""Compiled kernels as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tuning_registry.rendering.base import Format, columns_in_use, render_columns, render_results
from tuning_registry.rendering.screen import Paint

if TYPE_CHECKING:  # importing it for real would load SQLAlchemy
    from tuning_registry.operations.tables.warming import WarmedKernel

_COLUMNS: Final = ("arch", "kernel", "keys", "outcome", "is_expected", "reason")
_SHOWN: Final = ("kernel", "keys", "outcome", "reason")


def render_warmed(kernels: Sequence[WarmedKernel], style: Format) -> str:
    """Every kernel, one line each."""

    def table(found: Sequence[WarmedKernel]) -> str:
        rows = [
            {**one.to_dict(), "keys": len(one.keys), "paint": {"outcome": Paint.BAD} if one.reason else {}}
            for one in found
        ]
        return render_columns(rows, columns_in_use(rows, _SHOWN, 3))

    return render_results(kernels, style, _COLUMNS, table)
