"""Shared database of Triton autotune results: record, vote, export, pin.

What is named here needs the standard library only; the database lives in `tuning_registry.operations`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tuning_registry.errors import RegistryError

if TYPE_CHECKING:
    from tuning_registry.formats.loader import load
    from tuning_registry.formats.table import TunedTable, read_table
    from tuning_registry.seed import (
        count_votes,
        disagreement_report,
        disagreements,
        merge_records,
        merge_votes,
        write,
    )

__version__ = "0.1.0"

__all__ = [
    "RegistryError",
    "TunedTable",
    "__version__",
    "count_votes",
    "disagreement_report",
    "disagreements",
    "load",
    "merge_records",
    "merge_votes",
    "read_table",
    "write",
]

_MODULES = {
    "load": "formats.loader",
    **dict.fromkeys(("TunedTable", "read_table"), "formats.table"),
    **dict.fromkeys(
        ("count_votes", "disagreement_report", "disagreements", "merge_records", "merge_votes", "write"), "seed"
    ),
}


def __getattr__(name: str) -> Any:
    """A public name, from its module when it is first asked for (PEP 562).

    Every import of a submodule runs this file, that of `tuning_registry.runtime` in training jobs, too, which
    would pay for the vote rule and the file formats without asking for them.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    """The public names, asked for or not."""
    return sorted({*globals(), *__all__})
