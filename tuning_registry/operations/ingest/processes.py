"""Recordings of one process in several states or under several names: each process counts once."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from tuning_registry.db import queries
from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.ingestion.pending import KINDS, Pending
from tuning_registry.db.ingestion.plan import Growth
from tuning_registry.db.reading import Reading, Row, in_chunks
from tuning_registry.db.schema import NO_RANK
from tuning_registry.operations.ingest.growth import StoredIds, StoredState

# Run and rank (NO_RANK for a recording of unknown rank).
Identity = tuple[str, int]
_RANKS: Final = 250  # of a statement that also names up to 500 runs


class State(NamedTuple):
    """How a file relates to the recording that the database has of its process.

    Attributes:
        recording_id: That recording.
        growth: What the file adds; None if the recording has everything.
    """

    recording_id: int
    growth: Growth | None


class Processes:
    """Recordings of processes that the batch or the database holds in several states, or under several names.

    A process writes its file again and again, and may be ingested at any moment. It may also learn its run and rank
    late, and writes a file of another name from then on.

    Attributes:
        earlier: Positions of files that another file of the batch contains.
    """

    def __init__(self, transaction: Reading, batch: Batch, current: Mapping[Identity, Row], *, moves: bool) -> None:
        self._transaction = transaction
        self._batch = batch
        self._current = current
        by_id: dict[str, list[int]] = {}
        for position, record in enumerate(batch.pending):
            if record.header.id is not None:
                by_id.setdefault(record.header.id, []).append(position)
        rows = transaction.chunked(queries.recordings.current_of_processes, sorted(by_id)) if moves else ()
        self._elsewhere: dict[str, list[Row]] = {}
        for row in rows:
            self._elsewhere.setdefault(row["process_id"], []).append(row)
        several = [positions for positions in by_id.values() if len(positions) > 1]
        known = {p for positions in by_id.values() for p in positions if self._row_to_compare(p) is not None}
        self._contents = batch.contents({*known, *(p for positions in several for p in positions)})
        self._ids = StoredIds(transaction, batch)
        self.earlier = {position for positions in several for position in self._earlier_of(positions)}

    def state_of(self, position: int) -> State | None:
        """How a file relates to the recording of its process; None if it is to be placed as any other file."""
        record = self._batch.pending[position]
        if position in self.earlier:
            return State(0, None)
        old = self._row_to_compare(position)
        if old is None:
            return None
        stored = StoredState(self._transaction, self._batch, position, self._contents[position], old, self._ids)
        growth = stored.growth()
        is_same_place = (old["run"], old["rank"]) == record.identity
        if growth is not None and is_same_place:
            return State(old["id"], growth)
        gains_place = record.header.world_size is not None and old["world_size"] is None
        if stored.has_everything() and (growth is None or not gains_place) and states_nothing_else(record, old):
            return State(old["id"], None)
        return None

    def moved_from(self, record: Pending) -> list[int]:
        """Ids of the recordings of this process under another run or rank, which the new one takes the place of."""
        found = self._elsewhere.get(record.header.id or "", ())
        return [row["id"] for row in found if (row["run"], row["rank"]) != record.identity and not row["withdrawn_at"]]

    def _row_to_compare(self, position: int) -> Row | None:
        """The recording of the same process in the database, if a file states something else or something more."""
        record = self._batch.pending[position]
        if record.header.id is None:
            return None
        old = self._current.get(record.identity)
        if old is None:
            elsewhere = [row for row in self._elsewhere.get(record.header.id, ()) if not row["withdrawn_at"]]
            return elsewhere[0] if elsewhere else None
        if old["process_id"] != record.header.id or not (record.digests.keys() & set(KINDS)):
            return None
        same = all(held_by(old).get(kind) == digest for kind, digest in record.digests.items())
        return None if same and states_nothing_else(record, old) else old

    def _earlier_of(self, positions: Sequence[int]) -> list[int]:
        """Of the files of one process, those that the largest one contains."""
        contents = [self._contents[position] for position in positions]
        sizes = [(len(c.votes), len(c.timings), len(c.observations)) for c in contents]
        stated = [self._batch.pending[p].header.world_size is not None for p in positions]
        latest = max(range(len(positions)), key=lambda place: (sizes[place], stated[place]))
        return [
            position
            for place, position in enumerate(positions)
            if place != latest and contents[latest].contains(contents[place])
        ]


def current_recordings(transaction: Reading, identities: AbstractSet[Identity]) -> dict[Identity, Row]:
    """The recordings that the database has of these runs and ranks, and those of unknown rank of these runs.

    The other ranks of a large run are not read: a fleet arrives in many batches.
    """
    runs, ranks = sorted({run for run, _ in identities}), sorted({rank for _, rank in identities} | {NO_RANK})
    return {
        (row["run"], row["rank"]): row
        for part in in_chunks(ranks, _RANKS)
        for row in transaction.chunked(functools.partial(queries.recordings.current, part), runs)
    }


def held_by(row: Row) -> dict[str, str]:
    """Digests of the content that a recording in the database holds, by kind."""
    return {kind: row[f"{kind}_digest"] for kind in KINDS if row[f"{kind}_digest"]}


def states_nothing_else(record: Pending, old: Row) -> bool:
    """Whether versions and source are as in the database. A missing field never differs; a stated one can."""
    stated, packages, modules = record.header, json.loads(old["packages"]), json.loads(old["modules"])
    return (
        (stated.triton is None or stated.triton == old["triton"])
        and (stated.source is None or stated.source == old["source"])
        and all(packages.get(name) == version for name, version in stated.packages.items())
        and all(modules.get(name) == owner for name, owner in stated.modules.items())
    )
