"""The entries in which two tables of one architecture differ. Pure functions, standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.formats.table import TunedTable
from tuning_registry.formats.table_header import EXTRA
from tuning_registry.model.canonical import load_config
from tuning_registry.model.names import is_positional, lookup_key, positional_key
from tuning_registry.model.results import Result, rounded
from tuning_registry.rules.overrides import Override
from tuning_registry.wording import change_text, count_of

ADDED: Final = "added"
DROPPED: Final = "dropped"
CHANGED: Final = "changed"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EntryChange(Result):
    """An entry that differs between two tables, with the evidence that a database has for the change.

    Attributes:
        kernel, key: The entry, as the table that has it spells it (the newer one if both do).
        change: `added`, `dropped` or `changed`.
        old, new: Canonical texts of the configs that a launch gets from either table; None if it gets none.
        is_inherited: Whether the table without the entry still serves it, by its `*` or a bare name.
        old_votes, new_votes: Votes for either config; None if the entry has no votes.
        votes: Votes on the entry; None if it has none.
        slower_percent: By how much the new config is slower than the old one; None if not both were timed,
            infinite if the new one failed.
        override: The pin of the new config, or the ban of the old one.
    """

    kernel: str
    key: str
    change: str
    old: str | None
    new: str | None
    is_inherited: bool = False
    old_votes: int | None = None
    new_votes: int | None = None
    votes: int | None = None
    slower_percent: float | None = None
    override: Override | None = None

    @property
    def is_served_alike(self) -> bool:
        """Whether a launch gets the same config from both tables."""
        return self.old == self.new

    def to_dict(self) -> dict[str, Any]:
        """The change as JSON holds it, configs as objects."""
        return {
            "kernel": self.kernel,
            "key": self.key,
            "change": self.change,
            "old_config": None if self.old is None else load_config(self.old),
            "new_config": None if self.new is None else load_config(self.new),
            "inherited": self.is_inherited,
            "old_votes": self.old_votes,
            "new_votes": self.new_votes,
            "total_votes": self.votes,
            "slower_than_old_percent": rounded(self.slower_percent),
            "override": None if self.override is None else self.override.to_dict(),
        }

    def __str__(self) -> str:
        """One readable line."""
        old, new = (short_config(text) if text else "nothing" for text in (self.old, self.new))
        parts = [f"{self.change}: {self.kernel} {self.key}: {old} -> {new}"]
        if self.votes is not None:
            parts.append(f"votes {self.old_votes} -> {self.new_votes} of {self.votes}")
        if self.slower_percent is not None:
            parts.append(change_text(self.slower_percent))
        if self.override is not None:
            parts.append(f"because of #{self.override.id} {self.override.action}: {self.override.reason}")
        return printable(", ".join(parts))


def diff_tables(old: TunedTable, new: TunedTable, places: Iterable[tuple[str, str]] = ()) -> list[EntryChange]:
    """The entries that were added, dropped or changed, sorted by kernel and key.

    Spellings of a key that Triton cannot tell apart are one key. A key without names equals a key with names if
    they agree by position.

    Args:
        old: The earlier table.
        new: The later table.
        places: Further kernels and keys. Each is a change if wider entries of the tables serve it differently.
    """
    further: dict[str, list[str]] = {}
    for kernel, key in places:
        further.setdefault(kernel, []).append(key)
    found: list[EntryChange] = []
    for kernel in {*old.texts, *new.texts, *further}:
        mine, theirs = old.texts.get(kernel, {}), new.texts.get(kernel, {})
        pairs = _pairs(mine, theirs)
        spelt = {lookup_key(key) for key in (*mine, *theirs)}
        found += [_change(old, new, kernel, key, pairs.get(key)) for key in mine]
        found += [_change(old, new, kernel, None, key) for key in theirs.keys() - pairs.values()]
        found += [_served(old, new, kernel, key) for key in further.get(kernel, ()) if lookup_key(key) not in spelt]
    differing = (one for one in found if one.change != CHANGED or not one.is_served_alike)
    return sorted(differing, key=lambda one: (one.kernel.encode(), one.key.encode(), one.change))


def other_changes(old: TunedTable, new: TunedTable) -> list[str]:
    """What can change launches without a change of an entry: bans, evidence and the selection rule; one line each."""
    if old.selection_digest == new.selection_digest:
        return []
    lines = [_bans_change(old, new), evidence_change(old, new)]
    before, after = (_ours(table).get("selection_rule", 1) for table in (old, new))
    if before != after and bool(old.evidence) == bool(new.evidence):  # evidence needs another rule
        lines.append(f"the selection rule changes from version {before} to version {after}")
    return [line for line in lines if line]


def evidence_change(old: TunedTable, new: TunedTable) -> str:
    """How the evidence of two tables differs, in a line; empty if it does not."""
    before, after = (_ours(table).get("evidence") for table in (old, new))
    if before == after:
        return ""
    effect = "so keys without an entry may get another config"
    if not before or not after:
        return f"only the {'old' if before else 'new'} table has evidence, {effect}"
    rows = [
        {(kernel, key): row for kernel, by_key in table.evidence.items() for key, row in by_key.items()}
        for table in (old, new)
    ]
    differing = sum(rows[0].get(place) != rows[1].get(place) for place in {*rows[0], *rows[1]})
    return f"the evidence differs for {count_of(differing, 'key')}, {effect}"


def _bans_change(old: TunedTable, new: TunedTable) -> str:
    before, after = (
        {(action, kernel, key, config) for action, kernel, key, configs in table.bans.to_list() for config in configs}
        for table in (old, new)
    )
    if before == after:
        return ""
    return (
        f"the bans differ: {len(before - after):,} only in the old table, {len(after - before):,} only in the new one"
    )


def _ours(table: TunedTable) -> Mapping[str, Any]:
    ours = table.provenance.get(EXTRA)
    return ours if isinstance(ours, Mapping) else {}


def _change(old: TunedTable, new: TunedTable, kernel: str, old_key: str | None, new_key: str | None) -> EntryChange:
    """The change of an entry that at least one of the tables has, under its key there."""
    key = str(old_key if new_key is None else new_key)
    before = old.text_for(kernel, key if old_key is None else old_key)
    after = new.text_for(kernel, key if new_key is None else new_key)
    return EntryChange(
        kernel=kernel,
        key=key,
        change=ADDED if old_key is None else DROPPED if new_key is None else CHANGED,
        old=before,
        new=after,
        is_inherited=(old_key is None and before is not None) or (new_key is None and after is not None),
    )


def _served(old: TunedTable, new: TunedTable, kernel: str, key: str) -> EntryChange:
    """The change of an entry that neither table has: wider entries decide."""
    before, after = old.text_for(kernel, key), new.text_for(kernel, key)
    return EntryChange(kernel=kernel, key=key, change=CHANGED, old=before, new=after, is_inherited=True)


def _pairs(mine: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """The keys that both tables have: spelling in one, spelling in the other."""
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
