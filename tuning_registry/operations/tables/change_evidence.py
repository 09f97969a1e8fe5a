"""The votes, timings and overrides behind the changes between two tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tuning_registry.model.names import lookup_key
from tuning_registry.operations.election.tally import EntryVotes
from tuning_registry.operations.election.votes_by_shape import VotesByShape
from tuning_registry.operations.election.winners import Election
from tuning_registry.rules.table_diff import EntryChange


def with_evidence(
    changes: Iterable[EntryChange], election: Election, arch: str, triton: str | None = None
) -> list[EntryChange]:
    """The changes, each with the evidence in a database.

    Args:
        changes: The changes.
        election: The entries of the votes that are evidence.
        arch: Architecture of the tables.
        triton: Of several version groups, the Triton version to prefer.
    """
    entries: dict[tuple[str, str], list[EntryVotes]] = {}
    for entry in election.every_entry:
        entries.setdefault((entry.kernel, lookup_key(entry.key)), []).append(entry)
    return [
        _one(change, entries.get((change.kernel, lookup_key(change.key)), ()), election, arch, triton)
        for change in changes
    ]


def _one(
    change: EntryChange, groups: Sequence[EntryVotes], election: Election, arch: str, triton: str | None
) -> EntryChange:
    override = election.overrides.cause_of(arch, change.kernel, change.key, change.old, change.new)
    if not groups:
        return replace(change, override=override)
    # Of several version groups, the one that the table was recorded with, or else the one with most votes.
    entry = max(groups, key=lambda e: (e.triton == triton, e.votes))
    counts = {choice.config: choice.count for choice in entry.choices}
    return replace(
        change,
        old_votes=counts.get(change.old or "", 0),
        new_votes=counts.get(change.new or "", 0),
        votes=entry.votes,
        slower_percent=_slower_percent(change, entry, election.votes),
        override=override,
    )


def _slower_percent(change: EntryChange, entry: EntryVotes, votes: VotesByShape) -> float | None:
    """By how much a change of config slows an entry down; None if not both configs were timed."""
    if change.old is None or change.new is None:
        return None
    medians = votes.medians(entry.shape)
    if change.old not in medians or change.new not in medians:
        return None
    before, after = medians[change.old], medians[change.new]
    if math.isinf(before):
        return None
    return 100 * (after / before - 1) if before > 0 else 0.0
