"""Times of many recordings in little space, without loss.

GPU timers count in steps (32 ns on an H200), and Triton reports milliseconds in single precision. A column of times is
therefore a column of whole nanoseconds, which differ little from each other, and of a few values that are stored as they
are. Packed columns give back every double bit by bit.
"""

from __future__ import annotations

import itertools
import math
import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import add, mul, ne, sub, truediv
from typing import Final

from tuning_registry.errors import FormatError

_VERSION: Final = 1
_NS: Final = 1e6  # in a millisecond
_HEAD: Final = struct.Struct("<BBH")  # version, bytes per remainder, number of columns
_COLUMN: Final = struct.Struct("<BqI")  # kind, smallest remainder, number of values that are stored as they are
_SINGLE, _DOUBLE, _PLAIN = 0, 1, 2  # kinds: nanoseconds in single precision, in double precision, doubles as they are
_MOST_NS: Final = 2**31  # two seconds; slower ones are stored as they are
_LARGE: Final = 4  # a column of which more than a quarter are not whole nanoseconds is stored as it is
_LEVEL: Final = 4  # higher ones take twice the time for one percent
_REMAINDERS: Final = ("B", "H", "I", "I")  # arrays for 1 to 4 bytes per remainder

# Positions of some values of a column, ascending, with their positions among each other (`places_of`).
Places = Mapping[int, int]


def places_of(positions: Iterable[int]) -> Places:
    """Some positions, ascending, in the form in which many columns are asked for the values there."""
    return {position: index for index, position in enumerate(positions)}


class PackedColumns:
    """Columns of times in milliseconds, as `pack_times` packed them.

    Args:
        packed: The columns.
        length: Number of values of each.
        guess: The medians, if these are percentiles.

    Raises:
        FormatError: They were packed by a later version.
    """

    def __init__(self, packed: bytes, length: int, guess: PackedColumns | None = None) -> None:
        version, width, count = _HEAD.unpack_from(packed)
        if version != _VERSION:
            raise FormatError(f"packed times of version {version}; upgrade the package tuning-registry")
        body = zlib.decompress(memoryview(packed)[_HEAD.size :])
        self._length, self._guess = length, guess
        self._columns = list(_COLUMN.iter_unpack(body[: count * _COLUMN.size]))
        kept = [0 if kind == _PLAIN else length for kind, _, _ in self._columns]
        self._starts = [*itertools.accumulate(kept, initial=0)]
        rest = memoryview(body)[count * _COLUMN.size :]
        ticks, rest = _split(rest, self._starts[-1] * width)
        self._remainder_planes = _planes_in(ticks, width)
        odd = [0 if kind == _PLAIN else number for kind, _, number in self._columns]
        places, rest = _split(rest, sum(odd) * 4)
        self._odd_places = _from_planes("I", _planes_in(places, 4))
        self._odd_values = _from_planes("d", _planes_in(rest, 8))
        self._place_starts = [*itertools.accumulate(odd, initial=0)]
        self._value_starts = [*itertools.accumulate((number for _, _, number in self._columns), initial=0)]

    def __len__(self) -> int:
        """Number of columns."""
        return len(self._columns)

    def column(self, number: int, places: Places | None = None) -> list[float]:
        """The values of one column, NaN for those of a candidate that failed.

        Args:
            number: Number of the column.
            places: Which values; by default all.
        """
        kind = self._columns[number][0]
        values = self._odd_values[self._value_starts[number] : self._value_starts[number + 1]]
        if kind == _PLAIN:
            return values.tolist() if places is None else [values[place] for place in places]
        found = [tick / _NS for tick in self.ticks(number, places)]
        if kind == _SINGLE:
            found = array("f", found).tolist()
        if values:
            at = self._odd_places[self._place_starts[number] : self._place_starts[number + 1]]
            for place, value in zip(at, values, strict=True):
                if places is None:
                    found[place] = value
                elif place in places:
                    found[places[place]] = value
        return found

    def ticks(self, number: int, places: Places | None) -> list[int]:
        """The values of one column in whole nanoseconds; those that are stored as they are hold something near."""
        kind, least, _ = self._columns[number]
        if kind == _PLAIN:
            return [0] * (self._length if places is None else len(places))
        kept = self._remainders(number)
        found = [tick + least for tick in kept] if places is None else [kept[place] + least for place in places]
        if self._guess is None:
            return found
        return list(map(add, found, self._guess.ticks(number % len(self._guess), places)))

    def _remainders(self, number: int) -> array[int]:
        """What the ticks of one column have more than the least of them. Most readers need few of the columns."""
        start, end = self._starts[number], self._starts[number + 1]
        planes = [plane[start:end] for plane in self._remainder_planes]
        return _from_planes(_REMAINDERS[len(planes) - 1], planes)


def pack_times(medians: Sequence[array[float]], percentiles: Sequence[array[float]]) -> tuple[bytes, bytes]:
    """Columns of equal length in a few bytes per value; `PackedColumns` is the inverse.

    Args:
        medians: Times in milliseconds, NaN for a candidate that failed.
        percentiles: Columns that are near the medians: column `i` is stored as its difference from `i % len(medians)`.
    """
    columns = [_ticks_of(column) for column in medians]
    near = [ticks for _, ticks, _ in columns]
    ranges = [
        (kind, list(map(sub, ticks, near[number % len(near)])), odd)
        for number, (kind, ticks, odd) in enumerate(map(_ticks_of, percentiles))
    ]
    return _packed(medians, columns), _packed(percentiles, ranges)


def _packed(columns: Sequence[array[float]], split: Sequence[tuple[int, list[int], list[int]]]) -> bytes:
    heads, remainders, places, values = [], array("I"), array("I"), array("d")
    for column, (kind, ticks, odd) in zip(columns, split, strict=True):
        if kind == _PLAIN:
            heads.append(_COLUMN.pack(kind, 0, len(column)))
            values.extend(column)
            continue
        least = min(ticks)
        remainders.extend(map((-least).__add__, ticks))
        heads.append(_COLUMN.pack(kind, least, len(odd)))
        places.extend(odd)
        values.extend(map(column.__getitem__, odd))
    width = max(1, (max(remainders, default=0).bit_length() + 7) // 8)
    body = [*heads, _planes(remainders, width), _planes(places, 4), _planes(values, 8)]
    return _HEAD.pack(_VERSION, width, len(columns)) + zlib.compress(b"".join(body), _LEVEL)


def pack_ids(ids: Sequence[int]) -> bytes:
    """Ascending ids, the first of which is stored elsewhere; empty if they are consecutive."""
    if ids[-1] - ids[0] == len(ids) - 1:
        return b""
    return zlib.compress(_planes(array("Q", map(sub, ids[1:], ids)), 8))


def unpack_ids(first: int, count: int, packed: bytes) -> Sequence[int]:
    """The inverse of `pack_ids`."""
    if not packed:
        return range(first, first + count)
    planes = _planes_in(memoryview(zlib.decompress(packed)), 8)
    return [*itertools.accumulate(_from_planes("Q", planes), initial=first)]


def pack_numbers(numbers: Sequence[int]) -> bytes:
    """Numbers in any order, 8 bytes each."""
    return struct.pack(f"<{len(numbers)}q", *numbers)


def unpack_numbers(packed: bytes) -> tuple[int, ...]:
    """The inverse of `pack_numbers`."""
    return struct.unpack(f"<{len(packed) // 8}q", packed)


def _ticks_of(column: array[float]) -> tuple[int, list[int], list[int]]:
    """Kind of a column, its values in nanoseconds, and the positions of the values that these do not give back."""
    distinct = set(column)
    if len(distinct) * _LARGE <= len(column) and all(abs(value) * _NS < _MOST_NS for value in distinct):
        return _ticks_of_few(column, distinct)
    try:
        ticks = list(map(round, map(mul, column, itertools.repeat(_NS))))
        if not (min(ticks, default=0) > -_MOST_NS and max(ticks, default=0) < _MOST_NS):
            raise OverflowError
    except (ValueError, OverflowError):  # NaN, or too slow
        ticks = list(_near(column))
    exact = array("d", map(truediv, ticks, itertools.repeat(_NS)))
    odd = _differing(column, array("d", array("f", exact)))
    if not odd:
        return _SINGLE, ticks, odd
    kind, fewer = _SINGLE, _differing(column, exact)
    if len(fewer) < len(odd):
        kind, odd = _DOUBLE, fewer
    failed = sum(map(math.isnan, column))  # these are stored as they are in any case
    if (len(odd) - failed) * _LARGE > len(column):
        return _PLAIN, [0] * len(column), []
    return kind, ticks, odd


def _ticks_of_few(column: array[float], distinct: set[float]) -> tuple[int, list[int], list[int]]:
    """The same for a column with few different values, none of them NaN, in a third of the time."""
    ticks = {value: round(value * _NS) for value in distinct}
    exact = array("d", [tick / _NS for tick in ticks.values()])
    backs = ((_SINGLE, array("d", array("f", exact))), (_DOUBLE, exact))
    odd = {kind: {value for value, back in zip(ticks, values, strict=True) if value != back} for kind, values in backs}
    kind = min(odd, key=lambda one: len(odd[one]))
    places = [place for place, value in enumerate(column) if value in odd[kind]] if odd[kind] else []
    if len(places) * _LARGE > len(column):
        return _PLAIN, [0] * len(column), []
    return kind, list(map(ticks.__getitem__, column)), places


def _differing(column: array[float], back: array[float]) -> list[int]:
    return list(itertools.compress(itertools.count(), map(ne, column, back)))


def _near(column: array[float]) -> Iterator[int]:
    """The values in nanoseconds; for those that have none, the last one before that has."""
    last = next((round(value * _NS) for value in column if abs(value) * _NS < _MOST_NS), 0)
    for value in column:
        if abs(value) * _NS < _MOST_NS:
            last = round(value * _NS)
        yield last


def _planes(values: array[int] | array[float], width: int) -> bytes:
    """The first bytes of all values, then the second ones, and so on: equal bytes lie together."""
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    raw, size = values.tobytes(), values.itemsize
    return b"".join(raw[place::size] for place in range(width))


def _planes_in(data: memoryview, number: int) -> list[memoryview]:
    """The planes that `_planes` has joined."""
    size = len(data) // number
    return [data[place * size : (place + 1) * size] for place in range(number)]


def _from_planes(code: str, planes: Sequence[memoryview]) -> array:  # type: ignore[type-arg]  # of int or float
    """The inverse of `_planes`, as an array of this type."""
    values = array(code)
    size = values.itemsize
    raw = bytearray(len(planes[0]) * size)
    for place, plane in enumerate(planes):
        raw[place::size] = plane
    values.frombytes(raw)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _split(data: memoryview, size: int) -> tuple[memoryview, memoryview]:
    return data[:size], data[size:]
