"""Which shape an entry is a spelling of in which version group: what votes and timings are grouped by."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading, Row
from tuning_registry.model.selection import Selection

# Arch, kernel, lookup key, and the version group: Triton, package, its version.
Shape = tuple[str, str, str, str, str, str]


def shape_of(row: Row) -> Shape:
    """The shape of a row of `queries.votes.choices`."""
    return (row["arch"], row["kernel"], row["lookup_key"], row["triton"], row["package"], row["version"])


class Shapes:
    """The shapes of a selection's entries.

    Args:
        reading: The database.
        selection: Which entries.
        wanted: Only spellings of these shapes; by default all.
    """

    def __init__(self, reading: Reading, selection: Selection, wanted: Collection[Shape] | None = None) -> None:
        keys = None if wanted is None else {shape[:3] for shape in wanted}
        self._entries: dict[int, tuple[str, str, str, str]] = {}
        self.spellings: dict[tuple[str, str, str], list[int]] = {}
        for entry, arch, kernel, lookup_key, module in reading.once(queries.entries.shapes(selection)):
            key = (arch, kernel, lookup_key)
            if keys is None or key in keys:
                self._entries[entry] = (*key, module)
                self.spellings.setdefault(key, []).append(entry)
        self._triton: dict[int, str] = {}
        self._owners: dict[tuple[int, Any], tuple[str, str]] = {}
        for environment, triton, module, package, version in reading.once(queries.environments.version_groups()):
            self._triton[environment] = triton
            self._owners[environment, module] = (package, version)

    @property
    def entry_ids(self) -> list[int]:
        """Ids of the entries, sorted."""
        return sorted(self._entries)

    def of(self, entry_id: int, environment_id: int) -> Shape:
        """The shape of an entry as recorded in an environment."""
        arch, kernel, key, module = self._entries[entry_id]
        package, version = self._owners.get((environment_id, module), ("", ""))
        return (arch, kernel, key, self._triton[environment_id], package, version)
