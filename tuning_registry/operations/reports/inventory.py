"""What is recorded, at a glance: kernels, and the keys of a kernel."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.store import Store
from tuning_registry.errors import printable
from tuning_registry.model.results import Result
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.tally import EntryVotes, check_packages, entries_of
from tuning_registry.operations.election.votes_by_shape import VotesByShape
from tuning_registry.wording import count_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RecordedKernel(Result):
    """A kernel on one architecture.

    Attributes:
        arch: Architecture.
        kernel: Qualified name.
        entries: Entries with votes; a key counts once per version group.
        ranks: Ranks that voted on any of them; a rank counts once per run.
        votes: Votes on all of them.
        disagreements: Entries for which ranks chose different configs.
    """

    arch: str
    kernel: str
    entries: int
    ranks: int
    votes: int
    disagreements: int

    def to_dict(self) -> dict[str, Any]:
        """The kernel as JSON holds it."""
        return asdict(self)

    def __str__(self) -> str:
        """One readable line."""
        return printable(
            f"{self.arch} {self.kernel}: {count_of(self.entries, 'entry')}, {count_of(self.ranks, 'rank')}, "
            f"{count_of(self.disagreements, 'disagreement')}"
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RecordedKey(Result):
    """A key of a kernel, in one version group.

    Attributes:
        arch, kernel, key: The entry.
        votes: Votes on it, one for each rank that recorded it.
        winner_votes: Votes for the config with most votes.
        configs: How many configs were chosen; more than one is a disagreement.
        triton, package, version, device: The version group; empty if not known.
    """

    arch: str
    kernel: str
    key: str
    votes: int
    winner_votes: int
    configs: int
    triton: str
    package: str
    version: str
    device: str

    def to_dict(self) -> dict[str, Any]:
        """The key as JSON holds it."""
        return asdict(self)

    def __str__(self) -> str:
        """One readable line."""
        return printable(
            f"{self.arch} {self.kernel} {self.key}: {count_of(self.votes, 'vote')} for {count_of(self.configs, 'config')}"
        )


def list_kernels(store: Store, selection: Selection) -> list[RecordedKernel]:
    """The kernels that have votes, sorted by architecture and name.

    Raises:
        SelectionError: A package filter names a distribution that owns no recorded kernel.
        DatabaseError: The database cannot be read.
    """
    with store.reading() as reading:
        votes = VotesByShape(reading, selection)
        check_packages(votes)
        found = entries_of(votes.choices)
        rows = reading.rows(queries.votes.voters_by_kernel(selection))
    ranks = {(row["arch"], row["kernel"]): int(row["ranks"]) for row in rows}
    entries, split, cast = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for entry in found:
        place = entry.arch, entry.kernel
        entries[place] += 1
        split[place] += entry.config_count > 1
        cast[place] += entry.votes
    return [
        RecordedKernel(
            arch=place[0],
            kernel=place[1],
            entries=number,
            ranks=ranks[place],
            votes=cast[place],
            disagreements=split[place],
        )
        for place, number in entries.items()
    ]


def list_keys(store: Store, selection: Selection) -> list[RecordedKey]:
    """The keys that have votes, sorted by architecture, kernel, key and version group.

    Raises:
        SelectionError, DatabaseError: As for `list_kernels`.
    """
    with store.reading() as reading:
        votes = VotesByShape(reading, selection)
        check_packages(votes)
        return [_key(entry) for entry in entries_of(votes.choices)]


def _key(entry: EntryVotes) -> RecordedKey:
    return RecordedKey(
        **entry.head(),
        votes=entry.votes,
        winner_votes=entry.choices[0].count,
        configs=entry.config_count,
        **entry.versions(),
    )
