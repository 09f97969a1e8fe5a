"""Hashing memory where it is, and filling it with values that every machine draws alike: exact integer arithmetic."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

torch: Any = import_module("torch")  # loaded: this module is imported at the first audit

CHUNK_BYTES: Final = 1 << 23  # hashed at a time, which bounds the memory of intermediate results
_WORD_BYTES: Final = 8
# The golden ratio and the constants of MurmurHash3's finalizer, as signed 64-bit integers.
_GOLDEN: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST: Final = 0xFF51AFD7ED558CCD - (1 << 64)
_SECOND: Final = 0xC4CEB9FE1A85EC53 - (1 << 64)


# See docs/decisions.md, D91.
def memory_digest(data: Any) -> Any:
    """A 64-bit hash of some memory, as a tensor on its device; nothing waits for the device.

    Every 64-bit word is mixed with its position, and the results are added modulo 2^64. Integer addition gives the same
    sum in any order, so the hash does not depend on how a device divides the work.

    Args:
        data: Bytes (`uint8`, one dimension); their number and their place are multiples of 8.
    """
    words = data.view(torch.int64)
    total = torch.zeros((), dtype=torch.int64, device=data.device)
    step = CHUNK_BYTES // _WORD_BYTES
    for start in range(0, words.numel(), step):
        part = words[start : start + step]
        mixed = _positions(start, part)
        mixed += part
        total += _mix(mixed).sum()
    return total


def seeded_values(like: Any, start: int, seed: int) -> Any:
    """Values from -1 to 1 that depend on their position and the seed alone, in the dtype of `like`.

    Args:
        like: Part of a tensor of one dimension; its size, dtype and device count.
        start: Position of its first element.
        seed: From 0 to 2^20.
    """
    mixed = _positions(start, like)
    mixed += seed << 40
    mixed = _mix(mixed)
    if like.dtype == torch.float64:
        return (mixed >> 11).to(torch.float64) * 2.0**-52
    return ((mixed >> 40).to(torch.float32) * 2.0**-23).to(like.dtype)


def _positions(start: int, like: Any) -> Any:
    """The weights of some positions, from 1: multiples of the golden ratio modulo 2^64."""
    weights = torch.arange(start + 1, start + 1 + like.numel(), dtype=torch.int64, device=like.device)
    weights *= _GOLDEN
    return weights


def _mix(words: Any) -> Any:
    """The finalizer of MurmurHash3, in place: every bit of the input changes half of the bits."""
    for factor in (_FIRST, _SECOND, None):
        shifted = words >> 33  # arithmetic: the sign is masked out
        shifted &= (1 << 31) - 1
        words ^= shifted
        if factor is not None:
            words *= factor
    return words
