"""What a recording states about the hardware and software below Triton, as far as it costs nothing to find out."""

from __future__ import annotations

import re
import sys
from typing import Any

from tuning_registry.model.records import Hardware
from tuning_registry.runtime.guard import guarded
from tuning_registry.runtime.job.devices import Device, loaded_torch
from tuning_registry.runtime.job.nvml import ask_management


def find_hardware(device: Device) -> Hardware:
    """Ask the loaded libraries. Imports nothing, starts no process, and creates no context on a device; never raises."""
    management = guarded("querying the management library", ask_management, device.uuid)
    return Hardware(
        cuda=guarded("reading the CUDA version of torch", _cuda_version),
        ptxas=guarded("reading the assembler version of Triton", _ptxas_version),
        **(management._asdict() if management is not None else {}),
    )


def _cuda_version() -> str | None:
    version = getattr(loaded_torch(), "version", None)
    return getattr(version, "cuda", None) or getattr(version, "hip", None)


def _ptxas_version() -> str | None:
    """The assembler's version if Triton has asked for it, as it does to compile: asking starts a process."""
    knobs: Any = sys.modules.get("triton.knobs")
    if knobs is not None and hasattr(knobs, "NvidiaTool"):
        asked = knobs.NvidiaTool.from_path.cache_info().currsize
        return str(knobs.nvidia.ptxas.version) if asked else None
    compiler: Any = sys.modules.get("triton.backends.nvidia.compiler")
    ask = getattr(compiler, "get_ptxas_version", None)
    if ask is None or not ask.cache_info().currsize:
        return None
    found = re.search(r"V([0-9.]+)", ask())
    return found[1] if found else None
