"""What sets two tables of one architecture apart, entry by entry. Pure functions, standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tuning_registry.formats.table import TunedTable
from tuning_registry.model.names import is_positional, lookup_key, positional_key

ADDED: Final = "added"
DROPPED: Final = "dropped"
CHANGED: Final = "changed"


@dataclass(frozen=True, slots=True)
class TableChange:
    """An entry that two tables do not have in common.

    Attributes:
        kernel, key: The entry, as the table spells it that has it (the newer one where both do).
        change: `added`, `dropped` or `changed`.
        old, new: Canonical texts of what a launch gets from either table; None: nothing.
        is_inherited: Whether the table without the entry serves it all the same, by its `*` or a bare name.
    """

    kernel: str
    key: str
    change: str
    old: str | None
    new: str | None
    is_inherited: bool = False

    @property
    def is_served_alike(self) -> bool:
        """Whether a launch gets the same config from both tables."""
        return self.old == self.new


def diff_tables(old: TunedTable, new: TunedTable) -> list[TableChange]:
    """The entries that were added, dropped or changed, sorted by kernel and key.

    Spellings of a key that Triton cannot tell apart are one key, and a key without names is one with its equal by
    position.
    """
    found: list[TableChange] = []
    before, after = old.texts, new.texts
    for kernel in {*before, *after}:
        mine, theirs = before.get(kernel, {}), after.get(kernel, {})
        pairs = _pairs(mine, theirs)
        for key, text in mine.items():
            if key not in pairs:
                served = new.text_for(kernel, key)
                found.append(TableChange(kernel, key, DROPPED, text, served, served is not None))
            elif text != theirs[pairs[key]]:
                found.append(TableChange(kernel, pairs[key], CHANGED, text, theirs[pairs[key]]))
        for key in theirs.keys() - pairs.values():
            served = old.text_for(kernel, key)
            found.append(TableChange(kernel, key, ADDED, served, theirs[key], served is not None))
    return sorted(found, key=lambda change: (change.kernel.encode(), change.key.encode(), change.change))


def _pairs(mine: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Which key of one table is which key of the other."""
    equal = {lookup_key(key): key for key in sorted(theirs, reverse=True)}
    by_place = {positional_key(key): key for key in sorted(theirs, reverse=True)}
    pairs: dict[str, str] = {}
    for key in mine:
        other = key if key in theirs else equal.get(lookup_key(key))
        if other is None:
            placed = by_place.get(positional_key(key))
            other = placed if placed is not None and (is_positional(key) or is_positional(placed)) else None
        if other is not None:
            pairs[key] = other
    return pairs
