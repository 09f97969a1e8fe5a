"""What changed between two tables, or between a table and the votes, with the evidence for each change."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tuning_registry.db.store import Store
from tuning_registry.errors import TableError
from tuning_registry.formats.table import EXTRA, TunedTable
from tuning_registry.model.names import ANY_KEY, lookup_key
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.election import Election, elect_entries
from tuning_registry.operations.election.tally import Entry
from tuning_registry.operations.export import ExportOptions, export_table
from tuning_registry.operations.export_log import list_exports
from tuning_registry.operations.overrides import BAN, Override, Overrides
from tuning_registry.operations.regressions import slower_percent
from tuning_registry.rules.evidence import MAJORITY, POLICIES
from tuning_registry.rules.table_diff import TableChange, diff_tables

_DIGEST = re.compile(r"[0-9a-f]{64}")
NEVER: Final = "0001-01-01"  # a day on which no override has expired: comparing is no exporting


@dataclass(frozen=True, slots=True)
class Difference:
    """A change and what the database says about it; without one, nothing.

    Attributes:
        change: The entry and its two configs.
        old_votes, new_votes: Votes for either config.
        votes: Votes on the entry; None where the database has none on it.
        slower_percent: By how much the new config is slower, by the timings; None when not both were timed.
        override: The pin of the new config, or the ban of the old one.
    """

    change: TableChange
    old_votes: int = 0
    new_votes: int = 0
    votes: int | None = None
    slower_percent: float | None = None
    override: Override | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table beside the one that the votes give now.

    Attributes:
        differences: What the table would become.
        entries: Entries of the one that would be exported.
        selection: The votes that were asked, normalised.
        logged_at: When the table was exported with these filters, as the log says; None: not from the log.
        new: The table that would be exported.
    """

    differences: list[Difference]
    entries: int
    selection: Selection
    logged_at: str | None
    new: TunedTable


def compare_tables(old: TunedTable, new: TunedTable, store: Store | None, selection: Selection) -> list[Difference]:
    """What sets two tables apart; with a database, what its votes and timings say of each change.

    Args:
        old: The table that was.
        new: The table that is.
        store: Where evidence comes from; None: there is none.
        selection: Which votes are evidence.

    Raises:
        TableError: The tables are of two architectures.
        DatabaseError: The database cannot be read.
    """
    if old.arch != new.arch:
        raise TableError(f"the tables are of two architectures: {old.arch} and {new.arch}")
    changes = diff_tables(old, new)
    if store is None or not changes:
        return [Difference(change) for change in changes]
    return _with_evidence(store, replace(selection, arch=old.arch), changes, new.provenance.get("triton"))


def compare_with_votes(store: Store, table: TunedTable, selection: Selection) -> Comparison:
    """What a table would become if it were exported again now.

    Policy and `*` entries are as the table says of itself. Which votes and thresholds: those of `selection` where it has
    any filter, else those that the log of exports knows for the table's digest, else all. Expired overrides count.

    Raises:
        TableError: The table says of itself what no export writes.
        SelectionError: Nothing can be exported, or only after choosing a version.
        DatabaseError: The database cannot be read.
    """
    policy, generalize = _how_made(table)
    filters, logged_at = _filters_of(store, table, selection)
    chosen = filters.pop("selection")
    options = ExportOptions(policy=policy, generalize_percent=generalize, today=NEVER, **filters)
    made = export_table(store, chosen, options)
    new = TunedTable(made.payload["arch"], made.payload["kernels"])
    changes = diff_tables(table, new)
    found = _with_evidence(store, chosen, changes, None, policy) if changes else []
    return Comparison(found, made.entries, chosen, logged_at, new)


def stated_digest(table: TunedTable) -> str | None:
    """The digest that a table states of itself; None when it states none."""
    ours = table.provenance.get(EXTRA)
    digest = ours.get("digest") if isinstance(ours, dict) else None
    return digest if isinstance(digest, str) else None


def _how_made(table: TunedTable) -> tuple[str, float | None]:
    """The policy of a table, and the slowdown that its `*` entries accept."""
    ours: Mapping[str, Any] = table.provenance.get(EXTRA) or {}
    policy = ours.get("policy", MAJORITY)
    generalized = ours.get("generalized")
    percent: Any = generalized.get("percent") if isinstance(generalized, dict) else None
    if policy not in POLICIES:
        raise TableError(f"the table states the policy {policy!r}; expected one of {', '.join(POLICIES)}")
    is_number = isinstance(percent, int | float) and not isinstance(percent, bool)
    if generalized is not None and not (is_number and 0 <= percent <= sys.float_info.max):  # NaN is not, either
        raise TableError("the table's generalized/percent is no percentage of at least 0")
    return policy, percent


def _filters_of(store: Store, table: TunedTable, asked: Selection) -> tuple[dict[str, Any], str | None]:
    given = replace(asked, arch=table.arch)
    if given != Selection(arch=table.arch):
        return {"selection": given}, None
    digest = (stated_digest(table) or "").strip() or table.digest
    # The log takes the beginning of a digest for it, too; a table states a whole one, or none that is known.
    logged = list_exports(store, digest, table.arch) if _DIGEST.fullmatch(digest) else []
    if not logged:
        return {"selection": given}, None
    said = dict(logged[0].filters)
    selection = Selection(
        arch=table.arch,
        runs=tuple(said.get("run", ())),
        source=said.get("source"),
        triton=said.get("triton"),
        packages=said.get("package", {}),
    )
    limits: dict[str, Any] = {name: said[name] for name in ("min_votes", "min_agreement") if name in said}
    return {"selection": selection, **limits}, logged[0].exported_at


def _with_evidence(
    store: Store, selection: Selection, changes: Iterable[TableChange], triton: str | None, policy: str = MAJORITY
) -> list[Difference]:
    with store.reading() as reading:
        election = elect_entries(reading, selection, policy, needs_evidence=True)
        entries = _by_key([*election.entries, *election.left_out])
        return [_difference(change, str(selection.arch), entries, triton, election) for change in changes]


def _by_key(entries: Iterable[Entry]) -> dict[tuple[str, str], list[Entry]]:
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.shape[1:3], []).append(entry)
    return found


def _difference(
    change: TableChange,
    arch: str,
    entries: Mapping[tuple[str, str], Sequence[Entry]],
    triton: str | None,
    election: Election,
) -> Difference:
    override = _cause(change, arch, election.overrides)
    groups = entries.get((change.kernel, lookup_key(change.key)), [])
    if not groups:
        return Difference(change, override=override)
    # Of several version groups the one that the table was recorded with, else the one with most votes.
    entry = max(groups, key=lambda e: (e.triton == triton, e.votes))
    votes = {choice.config: choice.count for choice in entry.choices}
    slower = slower_percent(change.old, change.new, entry, election.evidence) if election.evidence is not None else None
    return Difference(
        change, votes.get(change.old or "", 0), votes.get(change.new or "", 0), entry.votes, slower, override
    )


def _cause(change: TableChange, arch: str, overrides: Overrides) -> Override | None:
    """The override that made the new table differ: a pin of what it has, or a ban of what it has no more."""
    pin = overrides.pin(arch, change.kernel, change.key)
    if pin is not None and pin.config == change.new:
        return pin
    keys = {lookup_key(change.key), ANY_KEY}
    bans = [o for o in overrides.standing
            if (o.action, o.arch, o.kernel, o.config) == (BAN, arch, change.kernel, change.old)
            and lookup_key(o.key) in keys]  # fmt: skip
    return bans[0] if bans else None
