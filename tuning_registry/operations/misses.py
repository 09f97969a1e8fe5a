"""What pinned launches looked for in vain: what to record next."""

from __future__ import annotations

from dataclasses import dataclass

from tuning_registry.db import queries
from tuning_registry.db.store import Store
from tuning_registry.model.records import MISS_REASON
from tuning_registry.model.selection import Selection


@dataclass(frozen=True, slots=True)
class MissedEntry:
    """An entry that pinned launches missed for one reason.

    Attributes:
        arch: Architecture.
        kernel: Kernel name.
        key: Shape key; of spellings that Triton cannot tell apart the smallest.
        reason: `no table`, `no kernel`, `ambiguous name`, `no key`, `not a candidate` or `pruned away`.
        ranks: How many ranks missed it; a rank counts once in each run.
        runs: How many runs these ranks belong to.
        recorded: Whether a vote counts on the entry by now, of whatever run and version.
    """

    arch: str
    kernel: str
    key: str
    reason: str
    ranks: int
    runs: int
    recorded: bool


def find_misses(store: Store, selection: Selection, *, unrecorded: bool = False) -> tuple[list[MissedEntry], bool]:
    """The misses that pinned runs have recorded, sorted by arch, kernel, key and reason.

    Withdrawn runs and superseded recordings do not count.

    Args:
        store: The database.
        selection: Which runs, architecture and kernel.
        unrecorded: Only entries on which no vote counts.

    Returns:
        The misses, and whether there was anything to find them in: a recording that counts and, where an
        architecture or kernel is asked for, an entry of it.

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
            row["arch"], row["kernel"], row["key"], row["reason"].removeprefix(MISS_REASON),
            int(row["ranks"]), int(row["runs"]), bool(row["recorded"]),
        )
        for row in rows
    ]  # fmt: skip
    return [miss for miss in found if not (unrecorded and miss.recorded)], matched
