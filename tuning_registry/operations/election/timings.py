"""Reading the timings of entries, from rows and from blocks; of large fleets, those of a stated sample of recordings."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading
from tuning_registry.db.timing_blocks import StoredBlock
from tuning_registry.model.packed_times import Places, places_of
from tuning_registry.model.records import Times
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.medians import Medians, join_medians, medians_of_block, medians_of_rows
from tuning_registry.wording import count_of

# {config id: {recording id: (median, p20, p80) in ms, None if the candidate failed}}
Measured = dict[int, dict[int, Times | None]]
_NOBODY: Final[AbstractSet[int]] = frozenset()
MOST_RECORDINGS: Final = 1024  # of which all timings of an entry are read
MOST_OF_GROUP: Final = 256  # of ranks that chose the same config, besides those in the sample
_DRAWN: Final = 2.0**64  # exclusive limit of what is drawn for a recording


@dataclass(frozen=True, slots=True)
class Sample:
    """Which part of the timings an answer rests on.

    Attributes:
        used: Number of recordings whose timings of an entry were read, for the entry with most recordings.
        total: Number of recordings that timed this entry.
    """

    used: int
    total: int

    def to_dict(self) -> dict[str, int]:
        """The numbers as JSON and tables state them."""
        return {"sampled_recordings": self.used, "timed_recordings": self.total}

    def __str__(self) -> str:
        """One readable line."""
        return (
            f"times are those of a sample of {self.used:,} of {count_of(self.total, 'recording')}: an entry that more than "
            f"{MOST_RECORDINGS:,} recordings timed is judged by about {MOST_RECORDINGS:,} of them"
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """Some recordings of a block, and their places in it; None if they are all of it."""

    recordings: Sequence[int]
    places: Places | None


def _part_of(block: StoredBlock, positions: Sequence[int]) -> _Part:
    if len(positions) == len(block.recordings):
        return _Part(block.recordings, None)
    return _Part([block.recordings[place] for place in positions], places_of(positions))


class Timings:
    """The timings of some entries at a time.

    If more than `MOST_RECORDINGS` recordings have timed an entry, those of a sample are read. It is drawn by run and rank,
    so it is the same for all entries and in every database.

    Args:
        reading: The transaction.
        selection: Which recordings count.
    """

    def __init__(self, reading: Reading, selection: Selection) -> None:
        self._reading = reading
        self._selection = selection
        self._parts: dict[object, _Part] = {}
        self.sample: Sample | None = None
        self.compacted = False  # whether times without percentiles have been read

    def measured(self, counts: Mapping[int, AbstractSet[int]], *, percentiles: bool = True) -> Measured:
        """The times of each config.

        Args:
            counts: Ids of entries, which are spellings of one shape, with the recordings that count.
            percentiles: Whether the percentiles are needed; they may be NaN otherwise.
        """
        return self._read(counts, percentiles=percentiles)[0]

    def measured_with(
        self,
        counts: Mapping[int, AbstractSet[int]],
        groups: Mapping[int, Sequence[int]],
        config_ids: Collection[int] | None = None,
    ) -> tuple[Measured, Measured, Sample | None]:
        """The times of each config; the same with those of further recordings; and the sample, if it is one.

        Args:
            counts: As for `measured`.
            groups: Recordings by config. If the others are a sample, the times of these configs are also read for them: up
                to `MOST_OF_GROUP` of each group.
            config_ids: Read only these configs; by default all that were timed.
        """
        if max(map(len, counts.values()), default=0) <= MOST_RECORDINGS:
            found, _ = self._read(counts, config_ids=config_ids)
            return found, found, None
        drawn = self._drawn
        also = {
            one for group in groups.values() for one in heapq.nsmallest(MOST_OF_GROUP, group, key=drawn.__getitem__)
        }
        more, limit = self._read(counts, also, groups, config_ids=config_ids)
        if limit is None:
            return more, more, None
        found = {
            config: {one: times for one, times in by_rank.items() if drawn[one] < limit}
            for config, by_rank in more.items()
        }
        return found, more, self.sample

    def _read(
        self,
        counts: Mapping[int, AbstractSet[int]],
        also: AbstractSet[int] = _NOBODY,
        also_of: Collection[int] = (),
        *,
        config_ids: Collection[int] | None = None,
        percentiles: bool = True,
    ) -> tuple[Measured, float | None]:
        """The times, for some configs also of some recordings; and what recordings in the sample draw less than."""
        found: Measured = {}
        for entry, config, recording, median, p20, p80 in self._reading.bulk(queries.timings.of_entries(counts)):
            if recording in counts[entry]:
                times = None if median is None or p20 is None or p80 is None else (median, p20, p80)
                found.setdefault(config, {})[recording] = times
        blocks = self._blocks(counts, "medians", *(["percentiles"] if percentiles else []))
        limit = self._limit(found, blocks, counts)
        if limit is not None:
            drawn = self._drawn
            found = {
                config: {one: times for one, times in by_rank.items() if drawn[one] < limit or one in also}
                for config, by_rank in found.items()
            }
        if config_ids is not None:
            found = {config: by_rank for config, by_rank in found.items() if config in config_ids}
        for block in blocks:
            few = self._read_of(block, counts[block.entry_id], limit)
            more = self._with(few, block, counts[block.entry_id], also) if limit is not None and also else few
            self.compacted |= percentiles and bool(more.recordings) and not block.has_percentiles
            for number, config in enumerate(block.configs if more.recordings else ()):
                if config_ids is None or config in config_ids:
                    part = more if config in also_of else few
                    found.setdefault(config, {}).update(
                        zip(part.recordings, block.times(number, part.places), strict=True)
                    )
        return found, limit

    def every(self, counts: Mapping[int, AbstractSet[int]]) -> Iterator[tuple[int, int, Times | None]]:
        """Config, recording and times of each timing, None if it failed; one block in memory at a time, never a sample.

        Args:
            counts: As for `measured`.
        """
        for entry, config, recording, median, p20, p80 in list(self._reading.bulk(queries.timings.of_entries(counts))):
            if recording in counts[entry]:
                yield config, recording, None if median is None or p20 is None or p80 is None else (median, p20, p80)
        for block in self._blocks(counts, "medians", "percentiles"):
            part = self._read_of(block, counts[block.entry_id], None)
            for number, config in enumerate(block.configs if part.recordings else ()):
                for recording, times in zip(part.recordings, block.times(number, part.places), strict=True):
                    yield config, recording, times

    def medians(self, counts: Mapping[int, AbstractSet[int]]) -> Medians:
        """The medians of each config, without the percentiles.

        Args:
            counts: As for `measured`.
        """
        rows = {
            entry: [
                row for row in self._reading.bulk(queries.timings.every_median_on(entry)) if row[1] in counts[entry]
            ]
            for entry in counts
        }
        blocks = self._blocks(counts, "medians")
        limit = None
        if blocks or sum(map(len, rows.values())) > MOST_RECORDINGS:
            timed: dict[int, list[int]] = {}
            for config, recording, _ in itertools.chain.from_iterable(rows.values()):
                timed.setdefault(config, []).append(recording)
            limit = self._limit(timed, blocks, counts)
        if limit is not None:
            drawn = self._drawn
            rows = {entry: [row for row in its if drawn[row[1]] < limit] for entry, its in rows.items()}
        parts = [medians_of_rows(its) for its in rows.values() if its]
        for block in blocks:
            part = self._read_of(block, counts[block.entry_id], limit)
            if part.recordings:
                parts.append(medians_of_block(block, part.recordings, part.places))
        return join_medians(parts)

    def columns(
        self, entry_id: int, counts: AbstractSet[int], config_ids: Collection[int] | None = None
    ) -> Iterator[tuple[int, Sequence[int], Sequence[float]]]:
        """Config, recordings and their medians in ms, without those on which the config failed; never a sample.

        Args:
            entry_id: The entry.
            counts: Recordings that count.
            config_ids: Read only these configs; by default all that were timed.
        """
        rows: dict[int, tuple[list[int], list[float]]] = {}
        for config, recording, median in self._reading.bulk(queries.timings.medians_on(entry_id, config_ids)):
            if recording in counts:
                found = rows.setdefault(config, ([], []))
                found[0].append(recording)
                found[1].append(median)
        for config, (recordings, medians) in rows.items():
            yield config, recordings, medians
        for block in self._blocks([entry_id], "medians"):
            part = self._read_of(block, counts, None)
            whose = part.recordings
            for number, config in enumerate(block.configs if whose else ()):
                if config_ids is not None and config not in config_ids:
                    continue
                column = block.medians.column(number, part.places)
                if not math.isnan(sum(column)):
                    yield config, whose, column
                    continue
                worked = [(one, time) for one, time in zip(whose, column, strict=True) if not math.isnan(time)]
                yield config, [one for one, _ in worked], [time for _, time in worked]

    def numbers(self, counts: Mapping[int, AbstractSet[int]]) -> Counter[int]:
        """How many recordings have timed each config of these entries."""
        rows = self._reading.bulk(queries.timings.who_timed(counts))
        found = Counter(config for entry, config, recording in rows if recording in counts[entry])
        return self._add_blocks(found, self._blocks(counts), counts)

    def _blocks(self, entry_ids: Collection[int], *columns: str) -> list[StoredBlock]:
        return [StoredBlock(row) for row in self._reading.bulk(queries.timings.blocks_on(entry_ids, *columns))]

    def _add_blocks(
        self,
        found: Counter[int],
        blocks: Sequence[StoredBlock],
        counts: Mapping[int, AbstractSet[int]],
        limit: float | None = None,
    ) -> Counter[int]:
        for block in blocks:
            found.update(
                dict.fromkeys(block.configs, len(self._read_of(block, counts[block.entry_id], limit).recordings))
            )
        return found

    def _limit(
        self,
        rows: Mapping[int, Collection[int]],
        blocks: Sequence[StoredBlock],
        counts: Mapping[int, AbstractSet[int]],
    ) -> float | None:
        """Recordings that draw less are in the sample; None if all are. `rows` has the recordings of each config."""
        timed = Counter({config: len(recordings) for config, recordings in rows.items()})
        total = max(self._add_blocks(timed, blocks, counts).values(), default=0)
        if total <= MOST_RECORDINGS:
            return None
        limit = MOST_RECORDINGS / total
        if self.sample is None or self.sample.total < total:
            drawn = self._drawn
            used = Counter({config: sum(drawn[one] < limit for one in whose) for config, whose in rows.items()})
            self.sample = Sample(max(self._add_blocks(used, blocks, counts, limit).values()), total)
        return limit

    def _read_of(self, block: StoredBlock, counts: AbstractSet[int], limit: float | None) -> _Part:
        """The recordings of a block that count and are in the sample. Most blocks hold the same ones."""
        key = (block.key, id(counts), limit)  # the caller keeps `counts`
        found = self._parts.get(key)
        if found is None:
            drawn = None if limit is None else self._drawn
            found = self._parts[key] = _part_of(
                block,
                [
                    place
                    for place, one in enumerate(block.recordings)
                    if one in counts and (drawn is None or limit is None or drawn[one] < limit)
                ],
            )
        return found

    def _with(self, part: _Part, block: StoredBlock, counts: AbstractSet[int], also: AbstractSet[int]) -> _Part:
        """A part of a block, and further recordings of it."""
        wanted = {*part.recordings, *(also & counts)}
        return _part_of(block, [place for place, one in enumerate(block.recordings) if one in wanted])

    @cached_property
    def _drawn(self) -> dict[int, float]:
        """For each recording that counts, a number from 0 to 1 that depends on its run and rank."""
        rows = self._reading.bulk(queries.recordings.whose_recordings(self._selection))
        return {identity: draw(run, rank) for run, rank, identity, _ in rows}


def draw(run: str, rank: int) -> float:
    """A number from 0 to 1 that decides which samples a rank's recording is in."""
    return int.from_bytes(hashlib.sha256(f"{run}\0{rank}".encode()).digest()[:8], "big") / _DRAWN
