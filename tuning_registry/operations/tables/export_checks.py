"""Reasons not to write a table: banned configs that it would serve, and entries that it would slow down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tuning_registry.errors import SelectionError
from tuning_registry.formats.table import TunedTable
from tuning_registry.model.names import ANY_KEY, bare_name
from tuning_registry.operations.election.shares import SharedEntry
from tuning_registry.operations.election.tally import EntryVotes
from tuning_registry.operations.election.winners import Election
from tuning_registry.operations.tables.change_evidence import with_evidence
from tuning_registry.rules.evidence import Policy
from tuning_registry.rules.overrides import BAN, Overrides
from tuning_registry.rules.table_diff import diff_tables
from tuning_registry.wording import count_of, list_some, slower_text


def refuse_banned(table: TunedTable, entries: Sequence[EntryVotes], overrides: Overrides) -> None:
    """Refuse a table in which a wider entry (`*`, a bare name) serves a key with a config that is banned there.

    This happens to an entry of which every config is banned: the table lacks it, so a wider entry decides.

    Raises:
        SelectionError: Names the keys.
    """
    places = {(entry.kernel, entry.key) for entry in entries if entry.arch == table.arch}
    places |= {
        (one.kernel, one.key)
        for one in overrides.in_force
        if one.action == BAN and one.key != ANY_KEY and one.arch == table.arch
    }
    wrong = sorted(place for place in places if _serves_banned(table, *place, overrides))
    if wrong:
        shown = list_some([f"{kernel} {key}" for kernel, key in wrong], shown=1)
        raise SelectionError(
            f"a wider entry of the table would serve {len(wrong)} of its keys with a config that is banned there: {shown}. "
            "Nothing was written. Pin another config for each key, or ban that config for *"
        )


def _serves_banned(table: TunedTable, kernel: str, key: str, overrides: Overrides) -> bool:
    text = table.text_for(kernel, key)
    pin = overrides.pin(table.arch, kernel, key)
    is_pinned = pin is not None and pin.config == text
    return text in overrides.banned(table.arch, kernel, key) and not is_pinned


def refuse_regressions(
    old: TunedTable, new: TunedTable, entries: Iterable[EntryVotes], election: Election, allowed_percent: float
) -> None:
    """Refuse a table that slows entries of the one it replaces down by more than what is allowed.

    Raises:
        SelectionError: Names the worst of them.
    """
    changes = diff_tables(old, new, [(entry.kernel, entry.key) for entry in entries])
    changed = [change for change in changes if not change.is_served_alike]
    slower = [
        change
        for change in with_evidence(changed, election, new.arch)
        if (change.slower_percent or 0.0) > allowed_percent
    ]
    if slower:
        slower.sort(key=lambda change: -(change.slower_percent or 0.0))
        kernel, slowdown = bare_name(slower[0].kernel), slower_text(slower[0].slower_percent or 0.0)
        raise SelectionError(
            f"the new table would be more than {allowed_percent:g} % slower for {count_of(len(slower), 'entry')} "
            f"(worst: {kernel}, {slowdown}). Nothing was written. To see them, export to another file and run registry diff"
        )


def refuse_gaps(election: Election) -> None:
    """Refuse to elect by time an entry that ranks timed in shares, while no rank has timed some of its candidates.

    Raises:
        SelectionError: Counts entries and candidates.
    """
    timed = (Policy.FASTEST, Policy.MINIMAX)
    entries = [entry for entry in election.entries if entry.decided_by in timed and entry.shape in election.shares]
    shared = [election.shares.entry(entry.shape) for entry in entries]
    gaps = [(gap, left) for gap in shared if (left := _untimed(gap, election.overrides))]
    if gaps:
        untimed = sum(left for _, left in gaps)
        raise SelectionError(
            f"split runs have not timed {count_of(untimed, 'candidate')} of {count_of(len(gaps), 'entry')}, listed by registry "
            "status. Nothing was written. Run the job again with the same --split and --record-path, or pin the entries"
        )


def _untimed(entry: SharedEntry, overrides: Overrides) -> int:
    """How many candidates that are not banned no rank has timed."""
    banned = overrides.banned(entry.arch, entry.kernel, entry.key)
    return sum(text not in banned for text in entry.untimed)


def unvoted_in_shares(election: Election) -> int:
    """How many entries were timed in shares and have neither votes nor a config in this election."""
    there = {entry.shape for entry in election.every_entry}
    return sum(shape not in there for shape, _ in election.shares)
