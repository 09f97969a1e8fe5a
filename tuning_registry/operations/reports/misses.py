"""The entries that pinned launches did not find: what to record next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import Row
from tuning_registry.db.store import Store
from tuning_registry.errors import printable
from tuning_registry.model.records import parse_miss
from tuning_registry.model.results import Result
from tuning_registry.model.selection import Selection
from tuning_registry.wording import count_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MissedEntry(Result):
    """An entry that pinned launches missed for one reason, and by which recorded key they were decided.

    Attributes:
        arch: Architecture.
        kernel: Kernel name.
        key: Shape key; the smallest of the spellings that Triton cannot tell apart.
        reason: `no table`, `no kernel`, `no key`, `unusable entry`, `banned`, `not a candidate` or `pruned away`.
        nearest: The recorded key that was nearest, if `on_miss="nearest"` decided by it; else empty.
        ranks: How many ranks missed it; a rank counts once per run.
        runs: How many runs these ranks belong to.
        recorded: Whether the entry has a vote by now, of any run and version.
    """

    arch: str
    kernel: str
    key: str
    reason: str
    nearest: str = ""
    ranks: int
    runs: int
    recorded: bool

    def to_dict(self) -> dict[str, Any]:
        """The miss as JSON holds it."""
        return asdict(self)

    def __str__(self) -> str:
        """One readable line."""
        recorded = "recorded since" if self.recorded else "not recorded"
        nearest = f" (nearest {self.nearest})" if self.nearest else ""
        return printable(
            f"{self.arch} {self.kernel} {self.key}: {self.reason}{nearest}, missed by {count_of(self.ranks, 'rank')}, "
            f"{recorded}"
        )


def find_misses(store: Store, selection: Selection, *, unrecorded: bool = False) -> tuple[list[MissedEntry], bool]:
    """The misses that pinned runs recorded, sorted by arch, kernel, key, reason and nearest key.

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
    found = [_missed(row) for row in rows]
    return [miss for miss in found if not (unrecorded and miss.recorded)], matched


def _missed(row: Row) -> MissedEntry:
    reason, nearest = parse_miss(row["reason"])
    return MissedEntry(
        arch=row["arch"],
        kernel=row["kernel"],
        key=row["key"],
        reason=reason,
        nearest=nearest,
        ranks=int(row["ranks"]),
        runs=int(row["runs"]),
        recorded=bool(row["recorded"]),
    )
