"""What a call passes to its kernel: which memory can be copied, and why a call cannot be audited."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from tuning_registry.runtime.audit.digests import CHUNK_BYTES
from tuning_registry.runtime.triton.keys import Call

torch: Any = import_module("torch")

_PLAIN: Final = (bool, int, float, str, type(None))
# Addresses of device memory; sizes and strides are smaller, and almost every seed is larger or not a multiple of 16.
_LOWEST_ADDRESS: Final = 1 << 40
_HIGHEST_ADDRESS: Final = 1 << 49
_WORD_BYTES: Final = 8
_ALIGNMENT: Final = 16  # that Triton specializes on


class NotAuditable(Exception):  # noqa: N818 - not an error: the call is left out, with this reason
    """A call cannot be audited; the message is the reason."""


class Memory(NamedTuple):
    """One storage that tensors of the call share.

    Attributes:
        data: All its bytes, in one dimension.
        tensors: The tensors in it.
    """

    data: Any
    tensors: list[Any]


def tensors_of(call: Call) -> list[Any]:
    """The tensors among the arguments of a call.

    Raises:
        NotAuditable: An argument may lead to memory that cannot be copied, or to other ranks.
    """
    if _is_linked_to_others(call):
        raise NotAuditable("the kernel may communicate with other ranks")
    found = []
    for name, value in call.arguments.items():
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            _check_tensor(name, value)
            found.append(value)
        else:
            _check_other(name, value)
    if len({tensor.device for tensor in found}) > 1:
        raise NotAuditable("tensors are on several devices")
    if not found:
        raise NotAuditable("no argument is a tensor")
    return found


def memory_of(tensors: Iterable[Any]) -> list[Memory]:
    """The distinct storages of some tensors, in order of appearance.

    Raises:
        NotAuditable: Two storages share a part of their memory, or one is not aligned.
    """
    found: dict[tuple[int, int], Memory] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        place = (storage.data_ptr(), storage.nbytes())
        if not place[1]:
            continue
        if place not in found:
            data = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            found[place] = Memory(data, [])
        found[place].tensors.append(tensor)
    end = 0
    for start, size in sorted(found):
        if start < end:
            raise NotAuditable("two of its tensors' storages overlap in memory")
        if start % _ALIGNMENT:
            raise NotAuditable(f"a tensor's memory is not aligned to {_ALIGNMENT} bytes")
        end = start + size
    return list(found.values())


def holds_addresses(memory: Iterable[Memory]) -> bool:
    """Whether a tensor of 64-bit integers holds something like an address of device memory. Waits for the device.

    It looks at their storages in parts: a tensor that repeats its elements can have many times as many as its storage.
    """
    found: list[Any] = []
    for one in memory:
        if any(tensor.dtype in (torch.int64, torch.uint64) for tensor in one.tensors):
            words = one.data[: one.data.numel() // _WORD_BYTES * _WORD_BYTES].view(torch.int64)
            found += map(_address_like, words.split(CHUNK_BYTES // _WORD_BYTES))
    return bool(found) and bool(torch.stack(found).any().item())


def plain_arguments(call: Call) -> dict[str, str]:
    """The arguments of a call that are not tensors, as text, by name."""
    return {name: _shown(value) for name, value in call.arguments.items() if not isinstance(value, torch.Tensor)}


def _check_tensor(name: str, tensor: Any) -> None:
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        raise NotAuditable(f"{name} is not an ordinary dense tensor")
    if tensor.is_pinned():
        raise NotAuditable(f"{name} is in pinned host memory")
    storage = tensor.untyped_storage()
    held = storage.nbytes()
    if not tensor.numel():
        return
    end = tensor.storage_offset() + sum((n - 1) * step for n, step in zip(tensor.size(), tensor.stride(), strict=True))
    if (end + 1) * tensor.element_size() > held:
        raise NotAuditable(f"the storage of {name} was freed")
    module = sys.modules.get("torch.distributed._symmetric_memory")
    is_symmetric = getattr(module, "is_symm_mem_tensor", None)
    if is_symmetric is not None and is_symmetric(tensor):
        raise NotAuditable(f"{name} is in memory that ranks share")


def _check_other(name: str, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        raise NotAuditable(f"{name} is a {type(value).__name__}, a subclass of Tensor")
    if "TensorDescriptor" in type(value).__name__ or hasattr(value, "tma_desc_cpu_ptr"):
        raise NotAuditable(f"{name} is a tensor descriptor")
    if hasattr(value, "data_ptr"):
        raise NotAuditable(f"{name} is a {type(value).__name__} that points to memory")
    if isinstance(value, Iterator):
        raise NotAuditable(f"{name} can be read only once")
    if isinstance(value, list | tuple):
        for item in value:
            if isinstance(item, torch.Tensor) or hasattr(item, "data_ptr"):
                raise NotAuditable(f"{name} is a {type(value).__name__} of tensors")
            _check_other(name, item)
    if type(value) is int and _LOWEST_ADDRESS <= value < _HIGHEST_ADDRESS and value % _ALIGNMENT == 0:
        raise NotAuditable(f"{name} may be a memory address")


def _is_linked_to_others(call: Call) -> bool:
    """Whether the kernel is linked with a library, such as NVSHMEM, or names one that ranks communicate by."""
    if call.kwargs.get("extern_libs"):
        return True
    function = call.autotuner
    while function is not None:
        if "shmem" in str(getattr(function, "src", "")).lower():
            return True
        function = getattr(function, "fn", None)
    return False


def _address_like(values: Any) -> Any:
    return ((values >= _LOWEST_ADDRESS) & (values < _HIGHEST_ADDRESS) & (values % _ALIGNMENT == 0)).any()


def _shown(value: Any) -> str:
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"({','.join(map(_shown, value))})"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{name}:{_shown(item)}' for name, item in value.items())}}}"
    return str(value) if _is_dtype(value) else type(value).__name__


def _is_dtype(value: Any) -> bool:
    return type(value).__name__ in {"dtype", "constexpr"}
