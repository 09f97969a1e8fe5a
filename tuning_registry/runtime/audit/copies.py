"""Copies of a call's tensors that keep storage, strides, aliasing and overlap."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from tuning_registry.runtime.audit.arguments import Memory
from tuning_registry.runtime.audit.comparison import flat_dtype, float_dtype, relative_difference
from tuning_registry.runtime.audit.digests import CHUNK_BYTES, memory_digest, seeded_values
from tuning_registry.runtime.triton.keys import Call

torch: Any = import_module("torch")

# Around each copy, for a kernel that reads past the end of a tensor and survives it in Triton. Keeps the alignment.
MARGIN_BYTES: Final = 1 << 17
_WORD_BYTES: Final = 8


class Original:
    """One storage of the call, and what the candidates find in it: the job's values, or seeded ones.

    Args:
        memory: The storage. It is only read.
        seed: Seed of the values; None to use the job's. A storage that holds anything but floating-point numbers of
            one dtype always keeps the job's values.
    """

    def __init__(self, memory: Memory, seed: int | None) -> None:
        dtypes = {tensor.dtype for tensor in memory.tensors}
        floats = {float_dtype(dtype) for dtype in dtypes}
        self._data = memory.data
        self._seed = seed if len(floats) == 1 and floats != {None} else None
        self.tensors = memory.tensors
        self.size = memory.data.numel()
        self.dtypes = dtypes

    def flat(self, data: Any, dtype: Any) -> Any:
        """The elements of some bytes of this size."""
        wanted = flat_dtype(dtype)
        return data[: self.size - self.size % wanted.itemsize].view(wanted)

    def before(self, dtype: Any, start: int, stop: int) -> Any:
        """The elements from one position to another, as the candidates find them."""
        values = self.flat(self._data, dtype)[start:stop]
        return values if self._seed is None else seeded_values(values, start, self._seed)

    def copy_to(self, data: Any) -> None:
        """Write the values that the candidates find."""
        if self._seed is None:
            data.copy_(self._data)
            return
        (dtype, *_) = self.dtypes
        target = self.flat(data, dtype)
        step = CHUNK_BYTES // _WORD_BYTES
        for start in range(0, target.numel(), step):
            part = target[start : start + step]
            part.copy_(self.before(dtype, start, start + part.numel()))


class Copies:
    """A copy of every storage of a call, and the arguments that use them.

    Args:
        call: The call.
        originals: Its storages.
    """

    def __init__(self, call: Call, originals: Sequence[Original]) -> None:
        self._originals = originals
        self._buffers = [_buffer(one) for one in originals]
        replaced = {
            id(tensor): _view(tensor, buffer)
            for one, buffer in zip(originals, self._buffers, strict=True)
            for tensor in one.tensors
        }
        # A tensor without memory has nothing to copy.
        self.args = tuple(replaced.get(id(value), value) for value in call.args)
        self.kwargs = {name: replaced.get(id(value), value) for name, value in call.kwargs.items()}

    def restore(self) -> None:
        """Give every copy the values that the candidates find."""
        for one, buffer in zip(self._originals, self._buffers, strict=True):
            one.copy_to(buffer[MARGIN_BYTES : MARGIN_BYTES + one.size])

    def digests(self) -> Any:
        """The hash of each copy, as one tensor on the device."""
        parts = [
            memory_digest(buffer[MARGIN_BYTES : MARGIN_BYTES + _in_words(one.size)])
            for one, buffer in zip(self._originals, self._buffers, strict=True)
        ]
        return torch.stack(parts)

    def differences(self, other: Copies) -> list[tuple[Any, float]]:
        """The largest relative difference from other copies of the same call, for each storage and dtype in it."""
        found = []
        for one, mine, theirs in zip(self._originals, self._buffers, other._buffers, strict=True):
            inside = slice(MARGIN_BYTES, MARGIN_BYTES + one.size)
            for dtype in sorted(one.dtypes, key=str):
                flat = one.flat(mine[inside], dtype), one.flat(theirs[inside], dtype)
                before = _before(one, dtype)
                found.append((dtype, relative_difference(*flat, before)))
        return found


def bytes_needed(memory: Sequence[Memory]) -> int:
    """How many bytes the two copies of a call take at a time."""
    return 2 * sum(2 * MARGIN_BYTES + _in_words(one.data.numel()) for one in memory)


def _before(one: Original, dtype: Any) -> Any:
    return lambda start, stop: one.before(dtype, start, stop)


def _buffer(one: Original) -> Any:
    size = 2 * MARGIN_BYTES + _in_words(one.size)
    return torch.zeros(size, dtype=torch.uint8, device=one.tensors[0].device)


def _view(tensor: Any, buffer: Any) -> Any:
    """A tensor like another one at the same place of a copy."""
    offset = MARGIN_BYTES // tensor.element_size() + tensor.storage_offset()
    made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return made.set_(buffer.untyped_storage(), offset, tensor.size(), tensor.stride())


def _in_words(size: int) -> int:
    return -(-size // _WORD_BYTES) * _WORD_BYTES
