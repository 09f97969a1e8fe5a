"""The medians of configs over recordings in columns, which compare configs without an object per timing."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from tuning_registry.db.timing_blocks import StoredBlock
from tuning_registry.model.packed_times import Places


@dataclass(frozen=True, slots=True)
class Medians:
    """What some recordings measured for each config of a shape.

    Attributes:
        recordings: The recording at each position of the columns.
        columns: Medians in ms by config id; infinite if the config failed, and if it was not timed.
        timed: How many values of each column were timed, failures included.
    """

    recordings: Sequence[int]
    columns: Mapping[int, Sequence[float]]
    timed: Mapping[int, int]

    @property
    def is_by_recording(self) -> bool:
        """Whether each recording has a single position, so that values at one position can be compared.

        A recording has several if it has timed several spellings of a key.
        """
        return len(set(self.recordings)) == len(self.recordings)


def medians_of_rows(rows: Sequence[tuple[int, int, float | None]]) -> Medians:
    """The medians of rows of one entry: config, recording and median, None if the config failed."""
    places = {recording: place for place, recording in enumerate(dict.fromkeys(map(itemgetter(1), rows)))}
    columns: dict[int, list[float]] = {}
    for config, recording, median in rows:
        column = columns.get(config)
        if column is None:
            column = columns[config] = [math.inf] * len(places)
        if median is not None:
            column[places[recording]] = median
    return Medians(list(places), columns, Counter(map(itemgetter(0), rows)))


def medians_of_block(block: StoredBlock, recordings: Sequence[int], places: Places | None) -> Medians:
    """The medians of these recordings of a block, which are at these places; at all if they are None."""
    columns = {}
    for number, config in enumerate(block.configs):
        column = block.medians.column(number, places)
        if math.isnan(sum(column)):
            column = [math.inf if math.isnan(one) else one for one in column]
        columns[config] = column
    return Medians(recordings, columns, dict.fromkeys(columns, len(recordings)))


def join_medians(parts: Sequence[Medians]) -> Medians:
    """The medians of several groups of recordings."""
    if len(parts) == 1:
        return parts[0]
    timed: Counter[int] = Counter()
    for part in parts:
        timed.update(part.timed)
    columns = {config: list(itertools.chain.from_iterable(_columns(parts, config))) for config in timed}
    return Medians([one for part in parts for one in part.recordings], columns, timed)


def _columns(parts: Sequence[Medians], config: int) -> Iterable[Iterable[float]]:
    for part in parts:
        yield part.columns.get(config) or itertools.repeat(math.inf, len(part.recordings))
