"""Blocks of timings as they are stored, and as they are made."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tuning_registry.model.packed_times import (
    PackedColumns,
    Places,
    pack_ids,
    pack_numbers,
    pack_times,
    unpack_ids,
    unpack_numbers,
)
from tuning_registry.model.records import Times


class StoredBlock:
    """A row of `packed_timings`. Nothing is unpacked before it is needed.

    Args:
        row: Entry id, first recording, number of recordings, their ids, config ids, and optionally medians and
            percentiles, as they are stored.
    """

    def __init__(self, row: Sequence[Any]) -> None:
        entry, first, count, recordings, configs, *packed = row
        self.entry_id: int = entry
        self.key = (first, count, recordings)  # equal for blocks of the same recordings
        self._configs: bytes = configs
        self._packed: Sequence[bytes] = packed

    @cached_property
    def configs(self) -> tuple[int, ...]:
        """Ids of the candidates."""
        return unpack_numbers(self._configs)

    @cached_property
    def recordings(self) -> Sequence[int]:
        """Ids of the recordings, ascending."""
        return unpack_ids(*self.key)

    @cached_property
    def medians(self) -> PackedColumns:
        """The medians of each candidate."""
        return PackedColumns(self._packed[0], self.key[1])

    @cached_property
    def percentiles(self) -> PackedColumns:
        """The 20th percentiles of each candidate, then the 80th ones."""
        return PackedColumns(self._packed[1], self.key[1], self.medians)

    def place_of(self, recording: int) -> int | None:
        """Position of a recording; None if it is not among them."""
        return self.recordings.index(recording) if recording in self.recordings else None

    @property
    def has_percentiles(self) -> bool:
        """Whether the percentiles were kept, and read."""
        return len(self._packed) > 1 and bool(self._packed[1])

    def times(self, candidate: int, places: Places | None = None) -> Iterator[Times | None]:
        """The times of one candidate in ms, None if it failed; the percentiles are NaN if they were not kept.

        Args:
            candidate: Its position.
            places: Positions of the recordings; by default all.
        """
        median = self.medians.column(candidate, places)
        p20: Iterable[float] = itertools.repeat(math.nan, len(median))
        p80: Iterable[float] = itertools.repeat(math.nan, len(median))
        if self.has_percentiles:
            p20 = self.percentiles.column(candidate, places)
            p80 = self.percentiles.column(candidate + len(self.medians), places)
        times = zip(median, p20, p80, strict=True)
        if not math.isnan(sum(median)):
            return times
        return (None if math.isnan(three[0]) else three for three in times)

    def load(self) -> TimingBlock:
        """The whole block."""
        kept = (self.medians, self.percentiles) if self.has_percentiles else (self.medians,)
        columns = [array("d", packed.column(number)) for packed in kept for number in range(len(packed))]
        return TimingBlock(self.configs, self.recordings, columns)


@dataclass(frozen=True, slots=True)
class TimingBlock:
    """The timings of one entry by recordings that timed the same candidates.

    Attributes:
        configs: Ids of the candidates.
        recordings: Ids of the recordings, ascending.
        columns: In the order of the recordings: the medians of each candidate in ms, then the 20th percentiles, then the
            80th; NaN if it failed. The medians alone if the percentiles were not kept.
    """

    configs: tuple[int, ...]
    recordings: Sequence[int]
    columns: Sequence[array[float]]

    def row(self, entry_id: int) -> Mapping[str, Any]:
        """The block as a row of `packed_timings`."""
        width = len(self.configs)
        medians, percentiles = pack_times(self.columns[:width], self.columns[width:])
        return {
            "entry_id": entry_id,
            "first_recording": self.recordings[0],
            "last_recording": self.recordings[-1],
            "recording_count": len(self.recordings),
            "timing_count": width * len(self.recordings),
            "recordings": pack_ids(self.recordings),
            "configs": pack_numbers(self.configs),
            "medians": medians,
            "percentiles": percentiles if len(self.columns) > width else b"",
        }

    def medians_of(self, recordings: Collection[int]) -> TimingBlock:
        """The medians of these recordings, without percentiles."""
        kept = [place for place, recording in enumerate(self.recordings) if recording in recordings]
        return TimingBlock(self.configs, self.recordings, self.columns[: len(self.configs)]).picked(kept)

    def without(self, recordings: Collection[int]) -> TimingBlock | None:
        """The block without these recordings; None if no other is left."""
        kept = [place for place, recording in enumerate(self.recordings) if recording not in recordings]
        return self.picked(kept) if kept else None

    def picked(self, places: Sequence[int]) -> TimingBlock:
        """The recordings at these positions, in this order."""
        columns = [array("d", map(column.__getitem__, places)) for column in self.columns]
        return TimingBlock(self.configs, [self.recordings[place] for place in places], columns)


def join_blocks(blocks: Sequence[TimingBlock]) -> TimingBlock:
    """One block of the recordings of several, which timed the same candidates."""
    recordings = [recording for block in blocks for recording in block.recordings]
    columns = [array("d") for _ in blocks[0].columns]
    for block in blocks:
        for whole, part in zip(columns, block.columns, strict=True):
            whole.extend(part)
    order = sorted(range(len(recordings)), key=recordings.__getitem__)
    return TimingBlock(blocks[0].configs, recordings, columns).picked(order)
