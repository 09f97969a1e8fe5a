"""The entries of a selection with their votes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tuning_registry.db import queries
from tuning_registry.db.reading import Row
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError, printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import load_config
from tuning_registry.model.names import lookup_key
from tuning_registry.model.packages import GROUP
from tuning_registry.model.results import Result
from tuning_registry.model.selection import MISSING, Selection
from tuning_registry.operations.election.voters import Voters
from tuning_registry.operations.election.votes_by_shape import Shape, VotesByShape, shape_of
from tuning_registry.operations.mixed_code import Sources
from tuning_registry.rules.audits import Bits, bits_of
from tuning_registry.rules.evidence import Policy
from tuning_registry.wording import count_of, list_some

# In `Winner.decided_by`, next to the policies.
PINNED: Final = "pin"
SAME_BITS: Final = "same bits"  # the table in use: no timed config is known to give the same results
TIE_BY_TIME: Final = "majority, tie by time"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigVotes:
    """One config of an entry with its votes.

    Attributes:
        config: Canonical text.
        count: Votes for it.
        config_id: Its id in the database; None if it was pinned and never chosen.
        voters: Ranks that chose it, by run; None if they were not read. The name of a project whose curated choices
            count has no ranks.
        recordings: Ids of their recordings.
    """

    config: str
    count: int = 0
    config_id: int | None = None
    voters: Mapping[str, Sequence[int]] | None = None
    recordings: Sequence[int] = ()

    @property
    def ranks(self) -> list[int]:
        """The ranks that chose it, of any run, in order."""
        return sorted(set(itertools.chain.from_iterable((self.voters or {}).values())))

    def to_dict(self) -> dict[str, Any]:
        """The config with its votes as JSON holds it."""
        return {
            "config": load_config(self.config),
            "votes": self.count,
            "ranks": self.ranks,
            "runs": {run: list(ranks) for run, ranks in (self.voters or {}).items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EntryVotes(Result):
    """An entry within one version group, with its configs, the one with most votes first.

    Attributes:
        arch: Architecture.
        kernel: Kernel name.
        key: Shape key; the smallest of the spellings that Triton cannot tell apart.
        triton: Triton version of these votes; empty if unknown.
        package: Distribution that owns the kernel; empty if unknown.
        version: Version of that distribution; empty if unknown.
        device: The device that these votes are for; empty unless their source is per device.
        choices: Its configs.
        votes: Votes on the entry.
        config_count: Number of configs that have votes.
        is_tie: Whether the winner has no more votes than the next config and was decided by its text.
        sources: Number of different sources of the kernel's function that the recordings of its votes state; 0 if they
            state none or were not read. If there are several, the votes compare different code.
        bits: Whether audits found that its configs give equal bits; unknown if they were not audited or not read.
    """

    arch: str
    kernel: str
    key: str
    triton: str = ""
    package: str = ""
    version: str = ""
    device: str = ""
    choices: tuple[ConfigVotes, ...] = ()
    votes: int = 0
    config_count: int = 0
    is_tie: bool = False
    sources: int = 0
    bits: Bits = Bits.UNKNOWN

    @property
    def shape(self) -> Shape:
        """The key under which its votes and timings are grouped."""
        return (self.arch, self.kernel, lookup_key(self.key), *self.group)

    @property
    def group(self) -> tuple[str, str, str, str]:
        """The version group: votes of two groups never mix."""
        return self.triton, self.package, self.version, self.device

    def head(self) -> dict[str, Any]:
        """The fields that name the entry."""
        return {"arch": self.arch, "kernel": self.kernel, "key": self.key}

    def versions(self) -> dict[str, str]:
        """The fields of the version group."""
        return dict(zip(GROUP, self.group, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON holds it, with every config."""
        choices = [choice.to_dict() for choice in self.choices]
        return {
            **self.head(),
            "choices": choices,
            "total_votes": self.votes,
            "tie": self.is_tie,
            "sources": self.sources,
            "bits": str(self.bits),
            **self.versions(),
        }

    def __str__(self) -> str:
        """One readable line."""
        shown = ", ".join(
            f"{count_of(choice.count, 'vote')} for {short_config(choice.config)}" for choice in self.choices
        )
        return printable(f"{self.arch} {self.kernel} {self.key}: {shown or 'no votes'}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Winner(EntryVotes):
    """An entry with the config that it gets: the first of its choices.

    Attributes:
        decided_by: The policy; `majority, tie by time`; `pin`; or `same bits`.
        banned: Number of chosen configs that a ban keeps from being elected.
        stale: Number of recordings that chose from other candidates than the newest one (`VotesByShape.stale`).
    """

    decided_by: str = Policy.MAJORITY
    banned: int = 0
    stale: int = 0

    @property
    def config(self) -> str:
        """Canonical text of the config that the entry gets."""
        return self.choices[0].config

    def row(self) -> dict[str, Any]:
        """The winner as a flat row, its config as canonical text."""
        return {
            **self.head(),
            "config": self.config,
            "votes": self.choices[0].count,
            "total_votes": self.votes,
            "tie": self.is_tie,
            "decided_by": str(self.decided_by),
            "banned_configs": self.banned,
            "stale_recordings": self.stale,
            **self.versions(),
        }

    def to_dict(self) -> dict[str, Any]:
        """The winner as JSON holds it."""
        return {**self.row(), "config": load_config(self.config)}

    def __str__(self) -> str:
        """One readable line."""
        support = f"{self.choices[0].count} of {count_of(self.votes, 'vote')}"
        return printable(f"{self.arch} {self.kernel} {self.key}: {short_config(self.config)} ({support})")


def find_disagreements(store: Store, selection: Selection) -> tuple[list[EntryVotes], int]:
    """Entries for which ranks of one version group chose more than one config, with the ranks behind each.

    A rank that never ran a key does not vote on it, so its absence is not a disagreement.

    Returns:
        The entries, and the number of all entries that have votes.

    Raises:
        SelectionError, DatabaseError: As for `winners.find_winners`.
    """
    with store.reading() as reading:
        return split_entries(VotesByShape(reading, selection))


def split_entries(votes: VotesByShape) -> tuple[list[EntryVotes], int]:
    """The entries with more than one config, and the number of all entries that have votes."""
    check_packages(votes)
    split = [row for row in votes.choices if row["choices"] > 1]
    total = len({shape_of(row) for row in votes.choices})
    if not split:
        return [], total
    voters = Voters(votes, {shape_of(row) for row in split})
    sources = Sources(votes.reading, votes.selection)
    found = [_with_sources(with_voters(entry, voters), sources) for entry in entries_of(split)]
    return [_with_bits(entry, votes) for entry in found], total


def entries_of(rows: Iterable[Row]) -> list[EntryVotes]:
    """Entries from rows of `queries.votes.choices`, in their order."""
    return [EntryVotes(**fields) for fields in _by_entry(rows)]


def winners_of(rows: Iterable[Row]) -> list[Winner]:
    """Winners by votes alone, from rows of `queries.votes.winners`, in their order."""
    return [Winner(**fields) for fields in _by_entry(rows)]


def with_voters(entry: EntryVotes, voters: Voters) -> EntryVotes:
    """An entry with the ranks that chose each config."""
    choices = (
        replace(
            choice,
            voters=voters.ranks_by_run(entry.shape, choice.config_id),
            recordings=voters.recordings(entry.shape, choice.config_id),
        )
        for choice in entry.choices
    )
    return replace(entry, choices=tuple(choices))


def _with_bits(entry: EntryVotes, votes: VotesByShape) -> EntryVotes:
    """An entry with what audits say about the configs that ranks chose."""
    audits = votes.audits.get(entry.shape, {})
    return replace(entry, bits=bits_of(audits, [choice.config for choice in entry.choices]))


def _with_sources(entry: EntryVotes, sources: Sources) -> EntryVotes:
    """An entry with the number of sources behind its votes."""
    recordings = itertools.chain.from_iterable(choice.recordings for choice in entry.choices)
    return replace(entry, sources=sources.count(entry.kernel, recordings))


def check_packages(votes: VotesByShape) -> None:
    """Refuse a package filter that would filter nothing.

    Raises:
        SelectionError: Names the packages that own kernels.
    """
    if not votes.selection.packages:
        return
    known = votes.reading.scalars(queries.environments.packages())
    for name, version in votes.selection.packages.items():
        if name not in known and version != MISSING:
            raise SelectionError(
                f"--package {name}: no recorded kernel belongs to this package; packages with kernels: {list_some(known)}"
            )


def _by_entry(rows: Iterable[Row]) -> Iterable[dict[str, Any]]:
    """The fields of each entry."""
    grouped: dict[Shape, list[Row]] = {}
    for row in rows:
        grouped.setdefault(shape_of(row), []).append(row)
    for members in grouped.values():
        first = members[0]
        votes = int(first["votes"])
        yield {
            **{name: first[name] for name in ("arch", "kernel", "key", *GROUP)},
            "choices": tuple(
                ConfigVotes(config=row["config"], count=int(row["votes"]), config_id=row["config_id"])
                for row in members
            ),
            "votes": int(first["total"]),
            "config_count": int(first["choices"]),
            "is_tie": first["runner_up"] is not None and int(first["runner_up"]) == votes,
        }
