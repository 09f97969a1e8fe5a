"""Each recording's times over the fleet's medians. There are millions, and they arrive by config."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_AT_A_TIME: Final = 64  # configs


class Ratios:
    """The ratios of each recording.

    They wait in columns until there are those of several configs: to append them one by one to the arrays of thousands of
    recordings would take five times as long, since each is elsewhere in memory.

    Args:
        recordings: Ids of the recordings.
    """

    def __init__(self, recordings: Iterable[int]) -> None:
        self._by_recording = {recording: array("d") for recording in recordings}
        self._columns: dict[tuple[int, ...], list[Sequence[float]]] = {}  # by the recordings, usually always the same
        self._waiting = 0

    def add(self, recordings: Sequence[int], ratios: Sequence[float]) -> None:
        """Add the ratios of these recordings for one config, in the same order."""
        self._columns.setdefault(tuple(recordings), []).append(array("d", ratios))
        self._waiting += 1
        if self._waiting == _AT_A_TIME:
            self._spread()

    def by_recording(self) -> Mapping[int, Sequence[float]]:
        """The ratios of each recording, in any order."""
        self._spread()
        return self._by_recording

    def _spread(self) -> None:
        for recordings, columns in self._columns.items():
            for recording, ratios in zip(recordings, zip(*columns, strict=True), strict=True):
                self._by_recording[recording].extend(array("d", ratios))
        self._columns.clear()
        self._waiting = 0
