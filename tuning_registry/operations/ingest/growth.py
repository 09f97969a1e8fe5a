"""Telling a later state of a recording from an earlier one, and from another recording of the same process."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import Any, Final

import sqlalchemy as sa

from tuning_registry.db import queries, schema
from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.ingestion.pending import Content, Pending
from tuning_registry.db.ingestion.plan import Growth
from tuning_registry.db.reading import Reading, Row, in_chunks
from tuning_registry.db.timing_blocks import StoredBlock
from tuning_registry.model.canonical import text_digest
from tuning_registry.model.packed_times import places_of, unpack_ids
from tuning_registry.model.records import TWO_SOURCES, Times, unpack_times

_PAIRS: Final = 250  # of one statement


class StoredIds:
    """Ids in the database of a batch's entries and configs, by number in the batch, asked once for all recordings.

    Args:
        transaction: Holds the write lock, so that no other process adds any.
        batch: The batch.
    """

    def __init__(self, transaction: Reading, batch: Batch) -> None:
        self._transaction = transaction
        self._batch = batch
        self._entries: dict[int, int | None] = {}
        self._configs: dict[int, int | None] = {}

    def of_entries(self, numbers: AbstractSet[int]) -> dict[int, int]:
        """The ids of those of these entries that are in the database."""
        return self._ids(schema.entries, self._entries, numbers, self._batch.entry_digest)

    def of_configs(self, numbers: AbstractSet[int]) -> dict[int, int]:
        """The ids of those of these configs that are in the database."""
        texts = self._batch.configs
        return self._ids(schema.configs, self._configs, numbers, lambda number: text_digest(texts[number]))

    def _ids(
        self, table: sa.Table, known: dict[int, int | None], numbers: AbstractSet[int], digest: Callable[[int], str]
    ) -> dict[int, int]:
        asked = {digest(number): number for number in numbers - known.keys()}
        build = functools.partial(queries.tables.ids_by_digest, table)
        found = {row["digest"]: row["id"] for row in self._transaction.chunked(build, sorted(asked))}
        known.update((number, found.get(one)) for one, number in asked.items())
        return {number: identity for number in numbers if (identity := known[number]) is not None}


class StoredState:
    """What the database holds of a recording, compared with a file of the same process.

    Votes and timings are looked up by their keys: the rows of one recording are spread over its entries. What is found
    is all that is stored if it has the stored digest.

    Args:
        transaction: Holds the write lock.
        batch: The batch of the file.
        position: Position of the file in `Batch.pending`.
        content: The content of the file.
        old: The row of the recording.
        ids: Of the batch.
    """

    def __init__(
        self, transaction: Reading, batch: Batch, position: int, content: Content, old: Row, ids: StoredIds
    ) -> None:
        self._transaction = transaction
        self._batch = batch
        self._position = position
        self._content = content
        self._old = old
        self._record: Pending = batch.pending[position]
        self._entry_ids = ids.of_entries(
            {*content.votes, *content.observations, *content.timings, *(entry for entry, _ in content.candidate_sets)}
        )
        self._numbers = {identity: number for number, identity in self._entry_ids.items()}
        configs = {
            *content.votes.values(),
            *(config for timed, _ in content.timings.values() for config in timed.configs),
        }
        configs |= {config for config, _ in content.observations.values() if config is not None}
        self._config_ids = ids.of_configs(configs)
        self._observed = transaction.rows(queries.contents.observations_of(old["id"]))
        # Winners that may have been votes before: a second function of the kernel's name has come since.
        self._doubted = {
            entry: config
            for entry, (config, reason) in content.observations.items()
            if reason == TWO_SOURCES and config is not None
        }
        held = self._held(queries.contents.votes_held, [*content.votes.items(), *self._doubted.items()])
        self._votes = held - self._doubted.keys()
        self._retracted = held & self._doubted.keys()
        firsts = [(entry, timed.configs[0]) for entry, (timed, _) in content.timings.items() if timed.configs]
        self._timings = self._held(queries.contents.timings_held, firsts) | self._timed_in_blocks(firsts)
        self._sets = self._held_sets()

    def growth(self) -> Growth | None:
        """What of the file is stored already, if everything that is stored is in the file."""
        held = {entry: (self._content.votes | self._doubted)[entry] for entry in self._votes | self._retracted}
        if not (self._batch.votes_digest(held) == self._old["votes_digest"] or not (held or self._holds_votes())):
            return None
        if not self._observations_are_kept() or not _facts_grew(self._old, self._record):
            return None
        timed = self._batch.timings_digest(self._content, self._timings, self._sets)
        if timed == (self._old["timings_digest"] or ""):
            return self._growth(self._timings, self._sets)
        # Entries that were observed and are timed now, maybe for a second time.
        return self._growth(frozenset(), frozenset(), replaces=True) if self._settled() else None

    def _growth(
        self, timings: AbstractSet[int], sets: AbstractSet[tuple[int, str]], *, replaces: bool = False
    ) -> Growth:
        content, observed = self._content, {self._numbers.get(row["entry_id"]) for row in self._observed}
        return Growth(
            position=self._position,
            votes=self._votes,
            timings=timings,
            candidate_sets=sets,
            replaces_timings=replaces,
            retracted=sorted(self._entry_ids[entry] for entry in self._retracted),
            new_votes=len(content.votes) - len(self._votes),
            new_timings=sum(len(one.configs) for entry, (one, _) in content.timings.items() if entry not in timings),
            new_observations=len(content.observations.keys() - observed),
        )

    def has_everything(self) -> bool:
        """Whether the file is an earlier state: all that it holds is stored, or was settled by a vote since."""
        seen = {(row["entry_id"], row["config_id"], row["reason"]) for row in self._observed}
        unseen = [
            entry
            for entry, (config, reason) in self._content.observations.items()
            if (self._entry_ids.get(entry), None if config is None else self._config_ids.get(config), reason)
            not in seen
        ]
        settled = self._voted_on(unseen)
        doubted = {self._numbers.get(row["entry_id"]) for row in self._observed if row["reason"] == TWO_SOURCES}
        return (
            self._content.votes.keys() <= self._votes | doubted
            and settled.issuperset(unseen)
            and self._holds_times(self._content.timings.keys() - settled)
            and all(stated in self._sets or stated[0] in settled for stated in self._content.candidate_sets)
        )

    def _holds_times(self, entries: AbstractSet[int]) -> bool:
        """Whether every candidate of these entries is stored with the times of the file."""
        stated = {
            (entry, config): times
            for entry in entries
            for timed, packed in [self._content.timings[entry]]
            for config, times in zip(timed.configs, unpack_times(packed), strict=True)
        }
        rows = [*self._rows(queries.contents.timings_held, stated), *self._rows_in_blocks(entries)]
        numbers = {identity: number for number, identity in self._config_ids.items()}
        found = {(self._numbers[entry], numbers.get(config)): times for entry, config, *times in rows}
        return found.keys() == stated.keys() and all(
            _are_same(tuple(found[place]), times) for place, times in stated.items()
        )

    def _timed_in_blocks(self, firsts: Iterable[tuple[int, int]]) -> AbstractSet[int]:
        """Entries of those pairs, of entry and config, whose timings by the recording are in a block."""
        configs = {self._entry_ids[e]: self._config_ids.get(c) for e, c in firsts if e in self._entry_ids}
        blocks = self._blocks(configs.keys())
        return {self._numbers[one.entry_id] for one in blocks if configs[one.entry_id] in one.configs}

    def _rows_in_blocks(self, entries: AbstractSet[int]) -> Iterator[tuple[Any, ...]]:
        """The timings of these entries by the recording that are in blocks, as rows of `timings`."""
        ids = {self._entry_ids[entry] for entry in entries if entry in self._entry_ids}
        for block in self._blocks(ids, "medians", "percentiles"):
            place = places_of([block.recordings.index(self._old["id"])])
            for number, config in enumerate(block.configs):
                (times,) = block.times(number, place)
                yield (block.entry_id, config, *(times or (None,) * 3))

    def _blocks(self, entry_ids: AbstractSet[int], *columns: str) -> Iterator[StoredBlock]:
        """The blocks on these entries that hold timings of the recording."""
        for part in in_chunks(sorted(entry_ids)):
            for row in self._transaction.bulk(queries.timings.blocks_of(self._old["id"], part, *columns)):
                block = StoredBlock(row)
                if self._old["id"] in block.recordings:
                    yield block

    def _sets_in_blocks(self) -> AbstractSet[tuple[int, str]]:
        stated = self._content.candidate_sets
        return {
            (self._numbers[entry], fingerprint)
            for part in in_chunks(sorted({self._entry_ids[e] for e, _ in stated if e in self._entry_ids}))
            for entry, fingerprint, *packed in self._transaction.bulk(
                queries.timings.set_blocks_of(self._old["id"], part)
            )
            if (self._numbers[entry], fingerprint) in stated and self._old["id"] in unpack_ids(*packed)
        }

    def _observations_are_kept(self) -> bool:
        """Whether each stored observation is in the file, or has become a vote."""
        for row in self._observed:
            entry = self._numbers.get(row["entry_id"])
            if entry is None:
                return False
            if entry in self._content.votes and row["reason"] != TWO_SOURCES:
                continue
            config, reason = self._content.observations.get(entry, (None, None))
            if (row["config_id"], row["reason"]) != (None if config is None else self._config_ids.get(config), reason):
                return False
        return True

    def _settled(self) -> bool:
        return any(self._numbers.get(row["entry_id"]) in self._content.votes for row in self._observed)

    def _holds_votes(self) -> bool:
        return self._old["votes_digest"] is not None

    def _held(self, query: Any, pairs: Iterable[tuple[int, int]]) -> AbstractSet[int]:
        """Entries of those pairs, of entry and config, that the recording has."""
        return {self._numbers[row[0]] for row in self._rows(query, pairs)}

    def _rows(self, query: Any, pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[Any, ...]]:
        """The recording's rows for these pairs. Rows begin with the ids of entry and config."""
        ids = [
            (self._entry_ids[entry], self._config_ids[config])
            for entry, config in pairs
            if entry in self._entry_ids and config in self._config_ids
        ]
        asked = set(ids)
        for part in in_chunks(sorted(ids, key=itemgetter(1, 0)), _PAIRS):  # by config: few distinct ones in each part
            yield from (row for row in self._transaction.bulk(query(self._old["id"], part)) if row[:2] in asked)

    def _held_sets(self) -> AbstractSet[tuple[int, str]]:
        stated = self._content.candidate_sets
        entries = sorted({self._entry_ids[entry] for entry, _ in stated if entry in self._entry_ids})
        build = functools.partial(queries.contents.sets_held, self._old["id"])
        rows = self._transaction.chunked(build, entries)
        found = {(self._numbers[row["entry_id"]], row["fingerprint"]) for row in rows}
        return found & stated | self._sets_in_blocks()

    def _voted_on(self, entries: Sequence[int]) -> set[int]:
        ids = [self._entry_ids[entry] for entry in entries if entry in self._entry_ids]
        build = functools.partial(queries.contents.votes_on, self._old["id"])
        return {self._numbers[row["entry_id"]] for row in self._transaction.chunked(build, ids)}


def _are_same(stored: tuple[float | None, float | None, float | None], times: Times | None) -> bool:
    """Whether stored times are those of a file; percentiles that a compaction dropped are NaN and may be any."""
    median, p20, _ = stored
    return stored == (times or (None,) * 3) or (
        times is not None and median == times[0] and p20 is not None and math.isnan(p20)
    )


def _facts_grew(old: Row, record: Pending) -> bool:
    """Whether versions and source of the recording in the database are also in a file; it may state more."""
    header = record.header
    packages, modules = json.loads(old["packages"]), json.loads(old["modules"])
    return (
        old["triton"] in {"", header.triton}
        and old["source"] in {"", header.source}
        and packages.items() <= dict(header.packages).items()
        and modules.items() <= dict(header.modules).items()
    )
