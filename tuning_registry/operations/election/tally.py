"""The votes of a selection as entries and choices, ready to be shown or elected from."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading, Row, in_chunks
from tuning_registry.errors import SelectionError
from tuning_registry.model.names import lookup_key
from tuning_registry.model.selection import MISSING, Selection
from tuning_registry.operations.election.shapes import Shape, Shapes, shape_of
from tuning_registry.rules.evidence import MAJORITY

PINNED: Final = "pin"  # in `Entry.decided_by`, beside the policies


@dataclass(frozen=True, slots=True)
class Choice:
    """One config of an entry.

    Attributes:
        config: Canonical text.
        count: Votes for it.
        config_id: Its id in the database; None for one that was pinned and never chosen.
        voters: Ranks that chose it, by run; None when they were not asked for.
        recordings: Ids of their recordings.
    """

    config: str
    count: int
    config_id: int | None
    voters: Mapping[str, Sequence[int]] | None = None
    recordings: Sequence[int] = ()

    @property
    def ranks(self) -> list[int]:
        """The ranks that chose it, of whatever run, in order."""
        return sorted({rank for ranks in (self.voters or {}).values() for rank in ranks})


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry within one version group, with its configs, the winner first.

    Attributes:
        arch: Architecture.
        kernel: Kernel name.
        key: Shape key; of spellings that Triton cannot tell apart the smallest.
        triton: Triton version of these votes; empty when unknown.
        package: Distribution that owns the kernel; empty when unknown.
        version: Its version.
        choices: For `winners` the winner alone, for `disagreements` every config.
        votes: Votes on the entry.
        config_count: Number of configs that have votes.
        is_tie: Whether the winner has no more votes than the next and was decided by its text.
        decided_by: The policy, or `pin`.
        banned: Number of chosen configs that a ban keeps from being elected.
        stale: Number of recordings that chose from other candidates than the newest one (`operations.staleness`).
    """

    arch: str
    kernel: str
    key: str
    triton: str
    package: str
    version: str
    choices: tuple[Choice, ...]
    votes: int
    config_count: int
    is_tie: bool = False
    decided_by: str = MAJORITY
    banned: int = 0
    stale: int = 0

    @property
    def shape(self) -> Shape:
        """What its votes and timings are grouped by."""
        return (self.arch, self.kernel, lookup_key(self.key), *self.group)

    @property
    def group(self) -> tuple[str, str, str]:
        """The version group: votes of two groups never mix."""
        return self.triton, self.package, self.version


def split_entries(reading: Reading, selection: Selection) -> tuple[list[Entry], int]:
    """`find_disagreements` on an open database."""
    check_packages(reading, selection)
    rows = reading.rows(queries.votes.choices(selection, reading.environments_that_count(selection)))
    split = [row for row in rows if row["choices"] > 1]
    voters = Voters(reading, selection, split) if split else None
    return entries_of(split, voters), len({shape_of(row) for row in rows})


def entries_of(rows: Sequence[Row], voters: Voters | None = None) -> list[Entry]:
    """Entries from rows of `queries.votes.choices`, in their order."""
    grouped: dict[Shape, list[Row]] = {}
    for row in rows:
        grouped.setdefault(shape_of(row), []).append(row)
    return [_entry(group, voters) for group in grouped.values()]


def check_packages(reading: Reading, selection: Selection) -> None:
    """Refuse a package filter that would filter nothing."""
    known = reading.scalars(queries.environments.packages()) if selection.packages else []
    for name, version in selection.packages.items():
        if name not in known and version != MISSING:
            shown = ", ".join(known) or "none"
            raise SelectionError(f"no recorded kernel belongs to a package {name!r}; packages with kernels: {shown}")


def _entry(rows: Sequence[Row], voters: Voters | None = None) -> Entry:
    first = rows[0]
    choices = tuple(_choice(row, voters) for row in rows)
    return Entry(
        first["arch"],
        first["kernel"],
        first["key"],
        first["triton"],
        first["package"],
        first["version"],
        choices,
        int(first["total"]),
        int(first["choices"]),
        first["runner_up"] is not None and int(first["runner_up"]) == choices[0].count,
    )


def _choice(row: Row, voters: Voters | None) -> Choice:
    chosen = Choice(row["config"], int(row["votes"]), row["config_id"])
    if voters is None:
        return chosen
    shape, config = shape_of(row), row["config_id"]
    return replace(chosen, voters=voters.ranks_by_run(shape, config), recordings=voters.recordings(shape, config))


class Voters:
    """Who chose what. A fleet's votes are millions: each is a number of eight bytes here.

    Args:
        reading: The database.
        selection: Which votes.
        rows: Of `queries.votes.choices`: the entries.
    """

    def __init__(self, reading: Reading, selection: Selection, rows: Sequence[Row]) -> None:
        shapes = Shapes(reading, selection, {shape_of(row) for row in rows})
        counting = list(reading.bulk(queries.recordings.whose_recordings(selection)))
        self._whose = {recording: (run, rank) for run, rank, recording, _ in counting}
        self._order = {recording: place for place, recording in enumerate(self._whose)}  # by run and rank
        self._chosen: dict[tuple[Any, ...], array[int]] = {}
        environments = {recording: environment for _, _, recording, environment in counting}
        for part in in_chunks(shapes.entry_ids):
            for entry, config, text in reading.bulk(queries.votes.who_voted(part)):
                ids = array("q", map(int, text.split(",")))
                for environment, these in _by_environment(ids, environments).items():
                    self._chosen.setdefault((*shapes.of(entry, environment), config), array("q")).extend(these)

    def recordings(self, shape: Shape, config_id: int | None) -> Sequence[int]:
        """Ids of the recordings that chose a config; none where it was never chosen."""
        return self._chosen.get((*shape, config_id), ())

    def ranks_by_run(self, shape: Shape, config_id: int | None) -> dict[str, list[int]]:
        """Their ranks by run, both sorted."""
        runs: dict[str, list[int]] = {}
        for recording in sorted(self.recordings(shape, config_id), key=self._order.__getitem__):
            run, rank = self._whose[recording]
            runs.setdefault(run, []).append(rank)
        return runs


def _by_environment(ids: array[int], environments: Mapping[int, int]) -> dict[int, array[int]]:
    """The recordings that count, by environment; mostly all are of one."""
    of_each = list(map(environments.get, ids))
    kinds = set(of_each)
    if len(kinds) == 1:
        return {environment: ids for environment in kinds if environment is not None}
    return {
        environment: array("q", [r for r, other in zip(ids, of_each, strict=True) if other == environment])
        for environment in kinds
        if environment is not None
    }
