"""Writing the new part of a batch, according to its plan."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from tuning_registry.db import dialects, packing, schema
from tuning_registry.db.ingestion.audits import audits_to_write, insert_audits
from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.ingestion.headers import write_headers
from tuning_registry.db.ingestion.pending import KINDS, TimedEntry
from tuning_registry.db.ingestion.plan import Growth, IngestPlan
from tuning_registry.db.ingestion.specializations import compiled_to_write, insert_compiled
from tuning_registry.db.timing_blocks import TimingBlock
from tuning_registry.db.writing import Writing
from tuning_registry.model.names import lookup_key, top_module

V = TypeVar("V", int, str)
K = TypeVar("K", bound=Hashable)
# Recording ids by position in `Batch.pending`.
Ids = Mapping[int, int]

_GROUPS: Final = 100  # choices sent at a time, of up to all recordings each: a bound on memory
_TIMING_ROWS: Final = 50_000  # sent at a time: a bound on memory


def write_plan(
    transaction: Writing, batch: Batch, plan: IngestPlan, now: str, report: Callable[[int], None] | None = None
) -> int:
    """Carry out a plan.

    Args:
        transaction: The one that the plan was made in.
        batch: The recordings.
        plan: What to do with them.
        now: Time of the ingest, UTC, ISO 8601.
        report: Called with the number of votes or timings that were just inserted.

    Returns:
        The number of entries that were new.
    """
    transaction.supersede(plan.supersedes, now)
    if not plan.inserts and not plan.completes and not plan.grows:
        return 0
    ids = write_headers(transaction, batch, plan, now)
    return _Ingestion(transaction, batch, ids, list(plan.grows.values()), report).write()


def insert_entries(
    transaction: Writing, batch: Batch, numbers: AbstractSet[int], *, is_recorded: bool = True
) -> tuple[dict[int, int], int]:
    """Ids of entries by their number in the batch, and how many were inserted; `is_recorded` applies to these."""
    rows: dict[str, dict[str, Any]] = {}
    digests: dict[int, str] = {}
    for number in sorted(numbers):
        arch, kernel, key = batch.entries[number]
        digest = digests[number] = batch.entry_digest(number)
        rows[digest] = {"arch": arch, "kernel": kernel, "key": key, "device": batch.devices[number], "is_recorded": is_recorded,
                        "lookup_key": lookup_key(key), "module": top_module(kernel)}  # fmt: skip
    ids, new = transaction.insert_missing(schema.entries, rows)
    return {number: ids[digest] for number, digest in digests.items()}, new


def insert_configs(transaction: Writing, batch: Batch, numbers: AbstractSet[int]) -> dict[int, int]:
    """Ids of configs by their number in the batch; inserts those that are new."""
    ids = transaction.insert_configs([batch.configs[number] for number in numbers])
    return {number: ids[batch.configs[number]] for number in numbers}


class _Ingestion:
    """The content of recordings that have their ids.

    Args:
        transaction: Holds the write lock.
        batch: The content, under the batch's own numbers.
        ids: Recording ids of the files whose content is written, by kind.
        grown: Files of which a part is there already.
        report: See `write_plan`.
    """

    def __init__(
        self,
        transaction: Writing,
        batch: Batch,
        ids: Mapping[str, Ids],
        grown: Sequence[Growth] = (),
        report: Callable[[int], None] | None = None,
    ) -> None:
        voting, observing, timing = (ids[kind] for kind in KINDS)
        self._transaction = transaction
        self._batch = batch
        self._report = report or _ignore
        self._voting, self._observing, self._timing = voting, observing, timing
        self._choices = [choice for choice, positions in batch.votes.items() if _any_in(positions, voting)]
        self._sets = [stated for stated, positions in batch.candidate_sets.items() if _any_in(positions, timing)]
        self._timed = [(place[0], one) for place, one in batch.timings.items() if _any_in(one.positions, timing)]
        self._audited = audits_to_write(transaction, batch, ids, grown)
        self._compiled = compiled_to_write(batch, ids)
        self._observed = [row for row in batch.observations if row[0] in observing]
        self._entry_ids: dict[int, int] = {}
        self._config_ids: dict[int, int] = {}
        self._voted = _positions_by([(entry, one.position) for one in grown for entry in one.votes])
        self._has_timed = _positions_by([(entry, one.position) for one in grown for entry in one.timings])
        self._has_set = _positions_by([(stated, one.position) for one in grown for stated in one.candidate_sets])

    def write(self) -> int:
        """Insert everything; the number of entries that were new."""
        new_entries = self._insert_entries()
        self._insert_configs()
        self._insert_votes()
        self._insert_observations()
        self._insert_candidate_sets()
        self._insert_timings()
        insert_audits(self._transaction, self._audited, self._entry_ids)
        insert_compiled(self._transaction, self._compiled, self._entry_ids)
        if packing.is_due(self._timing.values()):
            packing.pack_entries(self._transaction, sorted({self._entry_ids[entry] for entry, _ in self._timed}))
        return new_entries

    def _insert_entries(self) -> int:
        numbers = {entry for entry, _ in [*self._choices, *self._sets, *self._timed]}
        numbers |= {entry for _, entry, _, _ in self._observed} | {entry for _, entry, _ in self._audited}
        numbers |= {entry for entry, _, _ in self._compiled}
        self._entry_ids, new = insert_entries(self._transaction, self._batch, numbers)
        self._transaction.mark_recorded(sorted(self._entry_ids.values()))
        return new

    def _insert_configs(self) -> None:
        numbers = {config for _, config in self._choices}
        numbers |= {config for _, timed in self._timed for config in timed.configs}
        numbers |= {config for _, _, config, _ in self._observed if config is not None}
        self._config_ids = insert_configs(self._transaction, self._batch, numbers)

    def _insert_votes(self) -> None:
        entries, configs, votes = self._entry_ids, self._config_ids, self._batch.votes
        groups = sorted(
            (entries[entry], configs[config], _without(votes[entry, config], self._voted.get(entry)))
            for entry, config in self._choices
        )
        self._insert_groups(schema.votes, ("entry_id", "config_id"), groups, self._voting, self._report)
        rows = [
            {"recording_id": identity, "arch": arch, "vote_count": count}
            for position, identity in self._voting.items()
            for arch, count in self._batch.pending[position].vote_counts.items()
        ]
        self._transaction.insert_many(schema.recording_archs, rows)

    def _insert_candidate_sets(self) -> None:
        entries, sets = self._entry_ids, self._batch.candidate_sets
        groups = sorted(
            (entries[entry], text, _without(sets[entry, text], self._has_set.get((entry, text))))
            for entry, text in self._sets
        )
        few = []
        for group in groups:
            entry, fingerprint, positions = group
            recordings = sorted(self._timing[position] for position in positions if position in self._timing)
            if len(recordings) < packing.LEAST:
                few.append(group)
            else:
                packing.insert_set_blocks(self._transaction, entry, fingerprint, recordings)
        self._insert_groups(schema.candidate_sets, ("entry_id", "fingerprint"), few, self._timing, _ignore)

    def _insert_observations(self) -> None:
        rows = [
            {"recording_id": self._observing[position], "entry_id": self._entry_ids[entry], "reason": reason,
             "config_id": None if config is None else self._config_ids[config]}
            for position, entry, config, reason in self._observed
        ]  # fmt: skip
        self._transaction.insert_many(schema.observations, rows)

    def _insert_groups(
        self,
        table: sa.Table,
        columns: tuple[str, str],
        groups: Sequence[tuple[int, V, array[int]]],
        ids: Ids,
        report: Callable[[int], None],
    ) -> None:
        """Insert one row for every position of a group that has a recording id, some groups at a time."""
        for start in range(0, len(groups), _GROUPS):
            part = groups[start : start + _GROUPS]
            rows = [(entry, value, [ids[p] for p in positions if p in ids]) for entry, value, positions in part]
            rows = [row for row in rows if row[2]]  # a group of held votes only
            dialects.insert_unrolled(self._transaction.connection, table, columns, rows)
            report(sum(len(row[2]) for row in rows))

    def _insert_timings(self) -> None:
        """Insert blocks of many recordings, and the others as rows in the order of their key; bounded in memory."""
        few: list[tuple[int, TimedEntry, list[int | None]]] = []
        for entry, one in self._timed:
            ids = self._recordings_of(entry, one)
            if len(ids) - ids.count(None) < packing.LEAST:
                few.append((entry, one, ids))
            else:
                packing.insert_timing_blocks(self._transaction, self._entry_ids[entry], self._blocks(one, ids))
                self._report((len(ids) - ids.count(None)) * len(one.configs))
        rows = self._timing_rows(few)
        while part := list(itertools.islice(rows, _TIMING_ROWS)):
            dialects.insert_timings(self._transaction.connection, part)
            self._report(len(part))

    def _recordings_of(self, entry: int, one: TimedEntry) -> list[int | None]:
        """The recording of each position of a timed entry; None if its timings are not written."""
        nobody: AbstractSet[int] = frozenset()
        held = self._has_timed.get(entry, nobody)
        return [None if position in held else self._timing.get(position) for position in one.positions]

    def _blocks(self, one: TimedEntry, ids: Sequence[int | None]) -> Iterator[TimingBlock]:
        """The timings of an entry as blocks of similar size."""
        kept = sorted((identity, place) for place, identity in enumerate(ids) if identity is not None)
        recordings, places = [identity for identity, _ in kept], [place for _, place in kept]
        configs = sorted((self._config_ids[config], place) for place, config in enumerate(one.configs))
        columns = [column for figures in zip(*(one.columns_of(place) for _, place in configs), strict=True)
                   for column in figures]  # fmt: skip
        if places != list(range(len(ids))):
            columns = [array("d", map(column.__getitem__, places)) for column in columns]
        for part in packing.even_parts(recordings):
            yield TimingBlock(
                tuple(config for config, _ in configs), recordings[part], [column[part] for column in columns]
            )

    def _timing_rows(self, timed: Sequence[tuple[int, TimedEntry, list[int | None]]]) -> Iterator[tuple[Any, ...]]:
        """Entry, config and recording id, median, 20th and 80th percentile in ms."""
        in_order = sorted(
            (self._entry_ids[entry], self._config_ids[config], number, place)
            for number, (entry, one, _) in enumerate(timed)
            for place, config in enumerate(one.configs)
        )
        rows = itertools.chain.from_iterable(
            zip(itertools.repeat(entry), itertools.repeat(config), ids, *one.columns_of(place))
            for entry, config, number, place in in_order
            for _, one, ids in [timed[number]]
        )
        return filter(_has_recording, rows) if any(None in ids for _, _, ids in timed) else rows


def _ignore(_: int) -> None:
    """Report nothing."""


def _has_recording(row: tuple[Any, ...]) -> bool:
    return row[2] is not None


def _positions_by(pairs: Iterable[tuple[K, int]]) -> dict[K, set[int]]:
    grouped: dict[K, set[int]] = {}
    for what, position in pairs:
        grouped.setdefault(what, set()).add(position)
    return grouped


def _without(positions: array[int], held: AbstractSet[int] | None) -> array[int]:
    return positions if not held else array("i", [position for position in positions if position not in held])


def _any_in(positions: array[int], ids: Ids) -> bool:
    return any(position in ids for position in positions)
