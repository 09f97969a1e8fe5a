"""How a table was made, as its header states it: what a comparison with the votes repeats."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuning_registry.errors import TableError, printable
from tuning_registry.formats.table import TunedTable
from tuning_registry.formats.table_header import EXTRA
from tuning_registry.rules.evidence import Policy, Ties


@dataclass(frozen=True, slots=True)
class HowMade:
    """How a table was made from its votes: the options of its export that it states."""

    policy: str
    ties: str
    evidence: bool
    generalize_percent: float | None
    same_bits: bool  # whether its configs were held to the bits of another table


def how_made(table: TunedTable) -> HowMade:
    """How a table was made.

    Raises:
        TableError: The header holds what no export writes.
    """
    ours: Mapping[str, Any] = table.provenance.get(EXTRA) or {}
    policy, ties = ours.get("policy", Policy.MAJORITY), ours.get("ties", Ties.TEXT)
    generalized = ours.get("generalized")
    percent: Any = generalized.get("percent") if isinstance(generalized, dict) else None
    if policy not in list(Policy):
        raise TableError(f"the table states the policy {policy!r}; expected one of {', '.join(Policy)}")
    if ties not in list(Ties):
        raise TableError(f"the table states {ties!r} for ties; expected one of {', '.join(Ties)}")
    is_number = isinstance(percent, int | float) and not isinstance(percent, bool)
    if generalized is not None and not (is_number and 0 <= percent <= sys.float_info.max):  # excludes NaN
        raise TableError("the table's generalized/percent is not a percentage of at least 0")
    is_held = "same_bits_as" in ours and policy != Policy.MAJORITY and percent is None
    return HowMade(policy, ties, "evidence" in ours, percent, is_held)


def table_held_to(table: TunedTable, stated: TunedTable | None) -> TunedTable:
    """The table whose bits a table was held to; the table itself if that is not known, since its configs give those bits.

    Raises:
        TableError: It was not held to the bits of the stated table.
    """
    if stated is None:
        return table
    digest = (table.provenance.get(EXTRA) or {}).get("same_bits_as")
    if digest is None:
        raise TableError("the table to check was not exported with --same-bits-as")
    if digest != stated.digest:
        raise TableError(
            f"the table to check was held to the bits of the table with the digest {printable(str(digest)[:16])}, but "
            f"--same-bits-as has the digest {stated.digest[:16]}"
        )
    return stated
