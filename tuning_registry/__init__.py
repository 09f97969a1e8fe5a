"""Shared database of Triton autotune results: record, vote, export, pin.

The public API is what `__all__` lists here and in `tuning_registry.runtime`, the errors in `tuning_registry.errors`, and
the methods of `Registry` with the values they return. Everything else may change in any release.

Importing this package needs the standard library only. `Registry` loads SQLAlchemy when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tuning_registry.errors import RegistryError

if TYPE_CHECKING:
    from tuning_registry.formats.loader import load
    from tuning_registry.formats.table import TunedTable, read_table
    from tuning_registry.registry import Registry
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
    "Registry",
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
    "Registry": "registry",
    "load": "formats.loader",
    **dict.fromkeys(("TunedTable", "read_table"), "formats.table"),
    **dict.fromkeys(
        ("count_votes", "disagreement_report", "disagreements", "merge_records", "merge_votes", "write"), "seed"
    ),
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use (PEP 562).

    Every import of a submodule runs this file. Training jobs import `tuning_registry.runtime` and must not pay for the
    database, the vote rule and the file formats.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
