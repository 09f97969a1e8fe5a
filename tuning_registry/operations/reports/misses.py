"""The entries that pinned launches did not find: what to record next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.store import Store
from tuning_registry.errors import printable
from tuning_registry.model.records import MISS_REASON
from tuning_registry.model.results import Result
from tuning_registry.model.selection import Selection
from tuning_registry.wording import count_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MissedEntry(Result):
    """An entry that pinned launches missed for one reason.

    Attributes:
        arch: Architecture.
        kernel: Kernel name.
        key: Shape key; the smallest of the spellings that Triton cannot tell apart.
        reason: `no table`, `no kernel`, `no key`, `unusable entry`, `banned`, `not a candidate` or `pruned away`.
        ranks: How many ranks missed it; a rank counts once per run.
        runs: How many runs these ranks belong to.
        recorded: Whether the entry has a vote by now, of any run and version.
    """

    arch: str
    kernel: str
    key: str
    reason: str
    ranks: int
    runs: int
    recorded: bool

    def to_dict(self) -> dict[str, Any]:
        """The miss as JSON holds it."""
        return asdict(self)

    def __str__(self) -> str:
        """One readable line."""
        recorded = "recorded since" if self.recorded else "not recorded"
        return printable(
            f"{self.arch} {self.kernel} {self.key}: {self.reason}, missed by {count_of(self.ranks, 'rank')}, {recorded}"
        )


def find_misses(store: Store, selection: Selection, *, unrecorded: bool = False) -> tuple[list[MissedEntry], bool]:
    """The misses that pinned runs recorded, sorted by arch, kernel, key and reason.

    Withdrawn runs and superseded recordings do not count.

    Args:
        store: The database.
        selection: Which runs, architecture and kernel.
        unrecorded: Only entries that have no vote.

    Returns:
        The misses, and whether the filters match any recording that counts and, if they name an architecture or
        kernel, any entry.

    Raises:
        DatabaseError: The database cannot be read.
    """
    with store.reading() as reading:
        rows = reading.rows(queries.observations.misses(selection))
        is_narrowed = selection.arch is not None or selection.kernel is not None
        matched = bool(reading.environments_that_count(selection)) and (
            not is_narrowed or bool(reading.once(queries.entries.shapes(selection)))
        )
    found = [
        MissedEntry(
            arch=row["arch"],
            kernel=row["kernel"],
            key=row["key"],
            reason=row["reason"].removeprefix(MISS_REASON),
            ranks=int(row["ranks"]),
            runs=int(row["runs"]),
            recorded=bool(row["recorded"]),
        )
        for row in rows
    ]
    return [miss for miss in found if not (unrecorded and miss.recorded)], matched
