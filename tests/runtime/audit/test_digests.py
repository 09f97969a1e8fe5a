"""The hash of memory and the seeded values, against plain integer arithmetic."""

# mypy: disable-error-code="import-untyped, import-not-found"

from __future__ import annotations

import struct
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tuning_registry.runtime.audit import comparison, digests  # noqa: E402  # what needs torch waits for it

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mixed(word: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 1):
        word = ((word ^ word >> 33) * factor) & MASK
    return word


def expected(data: bytes) -> int:
    words = struct.unpack(f"<{len(data) // 8}Q", data)
    return sum(mixed((word + (at + 1) * GOLDEN) & MASK) for at, word in enumerate(words)) & MASK


@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_the_hash_is_the_documented_one_however_it_is_split(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    data = bytes(torch.randint(0, 256, (8 * count,), dtype=torch.uint8).tolist())
    memory = torch.tensor(list(data), dtype=torch.uint8)
    for chunk in (8, 64, 1 << 23):
        monkeypatch.setattr(digests, "CHUNK_BYTES", chunk)
        assert int(digests.memory_digest(memory)) & MASK == expected(data)


def test_one_bit_and_an_exchange_of_words_change_the_hash() -> None:
    memory = torch.zeros(800, dtype=torch.uint8)
    memory[0] = 1
    before = int(digests.memory_digest(memory))
    memory[0], memory[8] = 0, 1
    assert int(digests.memory_digest(memory)) != before
    assert int(digests.memory_digest(memory.roll(1))) != before


def test_seeded_values_do_not_depend_on_how_they_are_split() -> None:
    whole = digests.seeded_values(torch.empty(1000), 0, 3)
    parts = [digests.seeded_values(torch.empty(250), start, 3) for start in range(0, 1000, 250)]
    assert torch.equal(whole, torch.cat(parts))
    assert not torch.equal(whole, digests.seeded_values(torch.empty(1000), 0, 4))
    assert abs(float(whole.mean())) < 0.1
    assert 0.5 < float(whole.std()) < 0.65  # uniform: 0.577


def test_every_tolerance_is_of_a_dtype_that_this_torch_has() -> None:
    for name in comparison.TOLERANCES:
        assert comparison.float_dtype(getattr(torch, name)) is getattr(torch, name)
    assert comparison.tolerance_of([torch.int32, torch.bool]) == 0.0
    assert comparison.tolerance_of([torch.float32, torch.bfloat16, torch.int32]) == comparison.TOLERANCES["bfloat16"]


@pytest.mark.parametrize(
    ("mine", "other", "difference"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([0.0], [-0.0], 0.0),
        ([float("nan")], [float("nan")], 0.0),
        ([float("inf"), 1.0], [float("inf"), 1.0], 0.0),
        ([float("inf")], [float("-inf")], 2.0),
        ([1.0], [-1.0], 2.0),
        ([10.0], [9.0], 0.1),
        ([10.0, 1e-9], [10.0, -1e-9], 2e-9 / (50**0.5)),  # relative to the root mean square of both
    ],
)
def test_differences_are_relative_to_the_larger_number_or_to_the_size_of_all(
    monkeypatch: pytest.MonkeyPatch, mine: Any, other: Any, difference: float
) -> None:
    for chunk in (1, 1 << 19):
        monkeypatch.setattr(comparison, "_CHUNK", chunk)
        pair = torch.tensor(mine, dtype=torch.float64), torch.tensor(other, dtype=torch.float64)
        found = comparison.relative_difference(
            *pair, lambda start, stop: torch.full((stop - start,), 5.0, dtype=torch.float64)
        )
        assert found == pytest.approx(difference, rel=1e-12)
