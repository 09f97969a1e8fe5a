"""Shared database of Triton autotune results: record, vote, export, pin.

What is imported here needs the standard library only; the database lives in `tuning_registry.operations`.
"""

from tuning_registry.errors import RegistryError
from tuning_registry.loader import load
from tuning_registry.table import TunedTable, read_table, write
from tuning_registry.voting import (
    count_votes,
    disagreement_report,
    disagreements,
    merge_records,
    merge_votes,
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
