"""The results of the vote: the config that each entry gets, and the entries on which ranks disagree."""

from __future__ import annotations

from dataclasses import replace

from tuning_registry.db.store import Store
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.tally import EntryVotes, Winner, check_packages, split_entries
from tuning_registry.operations.election.votes_by_shape import VotesByShape
from tuning_registry.operations.election.winners import elect_entries
from tuning_registry.rules.evidence import Policy


def find_winners(store: Store, selection: Selection, policy: str = Policy.MAJORITY) -> list[Winner]:
    """The config that each entry gets, per version group, sorted by arch, kernel and key.

    Bans and pins apply (`rules.overrides`).

    Raises:
        SelectionError: A package filter names a distribution that owns no recorded kernel.
        DatabaseError: The database cannot be read.
    """
    with store.reading() as reading:
        election = elect_entries(reading, selection, policy)
        check_packages(election.votes)
        stale = election.votes.stale
    return [replace(entry, stale=stale[entry.shape]) if entry.shape in stale else entry for entry in election.entries]


def find_disagreements(store: Store, selection: Selection) -> tuple[list[EntryVotes], int]:
    """Entries for which ranks of one version group chose more than one config, with the ranks behind each.

    A rank that never ran a key does not vote on it, so its absence is not a disagreement.

    Returns:
        The entries, and the number of all entries that have votes.

    Raises:
        SelectionError, DatabaseError: As for `find_winners`.
    """
    with store.reading() as reading:
        return split_entries(VotesByShape(reading, selection))
