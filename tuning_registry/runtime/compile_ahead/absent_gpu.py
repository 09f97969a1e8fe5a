"""A GPU that is not there, for modules that ask about it when they are imported: what its architecture implies."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from tuning_registry.model.specializations import Specialization


class _Facts(NamedTuple):
    """What modules ask most: shared memory of a block in bytes, and multiprocessors of the usual device."""

    shared_memory: int
    multiprocessors: int


# By compute capability. Source: CUDA C++ Programming Guide, technical specifications per compute capability. Devices of
# one architecture differ in their multiprocessors; kernels that depend on them get another key in Triton's cache.
_FACTS: Final = {
    80: _Facts(166_912, 108),
    86: _Facts(101_376, 84),
    89: _Facts(101_376, 142),
    90: _Facts(232_448, 132),
    100: _Facts(232_448, 148),
    103: _Facts(232_448, 148),
    120: _Facts(101_376, 170),
}
_OTHER: Final = _Facts(101_376, 108)


def device_properties(target: tuple[str, int | str, int]) -> dict[str, int]:
    """What `utils.get_device_properties` of Triton's driver would return for a device of this target."""
    facts = _facts(target)
    return {
        "max_shared_mem": facts.shared_memory,
        "multiprocessor_count": facts.multiprocessors,
        "warpSize": target[2],
        "max_num_regs": 65_536,
    }


def describe_to_torch(kernels: list[Specialization]) -> None:
    """Let torch describe a device of the first kernel's target, if this machine has none. Memory on it cannot be had."""
    target = kernels[0].target
    if target[0] != "cuda" or not isinstance(target[1], int) or importlib.util.find_spec("torch") is None:
        return
    cuda: Any = import_module("torch").cuda
    if cuda.is_available():
        return
    capability = divmod(target[1], 10)
    facts, name = _facts(target), f"NVIDIA sm{target[1]}"
    properties = SimpleNamespace(
        name=name,
        major=capability[0],
        minor=capability[1],
        multi_processor_count=facts.multiprocessors,
        shared_memory_per_block_optin=facts.shared_memory,
        warp_size=target[2],
    )
    cuda.is_available = lambda: True
    cuda.device_count = lambda: 1
    cuda.current_device = lambda: 0
    cuda.get_device_capability = lambda *_, **__: capability
    cuda.get_device_name = lambda *_, **__: name
    cuda.get_device_properties = lambda *_, **__: properties


def _facts(target: tuple[str, int | str, int]) -> _Facts:
    return _FACTS.get(target[1], _OTHER) if isinstance(target[1], int) else _OTHER
