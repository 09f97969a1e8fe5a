"""Packed times: every double comes back bit by bit, in little space where timers count in steps."""

from __future__ import annotations

import math
import random
import struct
from array import array
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuning_registry.errors import FormatError
from tuning_registry.model.packed_times import (
    PackedColumns,
    pack_ids,
    pack_numbers,
    pack_times,
    places_of,
    unpack_ids,
    unpack_numbers,
)

ticks = st.integers(1, 10**6).map(lambda ns: struct.unpack("f", struct.pack("f", ns * 32e-6))[0])
decimals = st.integers(0, 10**7).map(lambda ns: ns / 1e6)
values = st.one_of(
    ticks, decimals, st.floats(allow_infinity=False).filter(bool), st.just(math.nan), st.floats(0, 100).map(abs)
)


def bits(column: Iterable[float]) -> bytes:
    return array("d", column).tobytes()


@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[values] * (3 * width)), min_size=1, max_size=40)))
def test_every_value_comes_back(rows: list[tuple[float, ...]]) -> None:
    columns = [array("d", column) for column in zip(*rows, strict=True)]
    width = len(columns) // 3
    medians, percentiles = pack_times(columns[:width], columns[width:])
    middle = PackedColumns(medians, len(rows))
    around = PackedColumns(percentiles, len(rows), middle)
    found = [middle.column(n) for n in range(width)] + [around.column(n) for n in range(2 * width)]
    assert [bits(column) for column in found] == [bits(column) for column in columns]
    places = places_of(range(0, len(rows), 3))
    for number, column in enumerate(columns[width:]):
        assert bits(around.column(number, places)) == bits([column[place] for place in places])


def test_times_of_a_fleet_take_few_bytes() -> None:
    rng = random.Random(7)
    steps = [[round(rng.gauss(1000, 10)) for _ in range(1024)] for _ in range(10)]

    def column(numbers: list[int], offset: int) -> array[float]:
        return array("d", array("f", [(number + offset + rng.randrange(3)) * 32e-6 for number in numbers]))

    medians = [column(one, 0) for one in steps]
    packed = pack_times(medians, [*(column(one, -20) for one in steps), *(column(one, 20) for one in steps)])
    assert sum(map(len, packed)) < 4 * 1024 * 10  # of 24 bytes as doubles


@given(st.sets(st.integers(1, 2**62), min_size=1, max_size=50))
def test_ids_come_back(ids: set[int]) -> None:
    ordered = sorted(ids)
    assert list(unpack_ids(ordered[0], len(ordered), pack_ids(ordered))) == ordered
    assert unpack_numbers(pack_numbers(ordered[::-1])) == tuple(ordered[::-1])


def test_consecutive_ids_take_no_space() -> None:
    assert pack_ids(range(7, 1000)) == b""


def test_times_of_a_later_version_are_refused() -> None:
    medians, _ = pack_times([array("d", [1.0])], [])
    with pytest.raises(FormatError, match="packed times of version 9"):
        PackedColumns(b"\x09" + medians[1:], 1)
