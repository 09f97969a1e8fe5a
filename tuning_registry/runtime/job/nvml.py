"""What NVIDIA's management library says about a device: driver, clocks, power limit, architecture. It creates no context."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

_LIBRARY: Final = "libnvidia-ml.so.1"
_SM_CLOCK: Final = 1
_MEMORY_CLOCK: Final = 2
_TEXT_BYTES: Final = 96


class Management(NamedTuple):
    """What could be read; None for the rest."""

    driver: str | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_limit_w: int | None = None


def ask_management(uuid: str | None) -> Management:
    """Ask about a device (`GPU-...`). Everything is None without the library or for an unknown device; never raises."""
    try:
        library = ctypes.CDLL(_LIBRARY)
        if library.nvmlInit_v2() != 0:
            return Management()
    except (OSError, AttributeError):
        return Management()
    try:
        return _ask(library, uuid)
    except (AttributeError, UnicodeError):  # a function that this release of the library lacks
        return Management()
    finally:
        library.nvmlShutdown()


def management_arch() -> str | None:
    """The architecture of this machine's devices (`sm90`); None if there are none, or several kinds. Never raises."""
    try:
        library = ctypes.CDLL(_LIBRARY)
        if library.nvmlInit_v2() != 0:
            return None
    except (OSError, AttributeError):
        return None
    try:
        kinds = set(_capabilities(library))
    except AttributeError:  # a function that this release of the library lacks
        return None
    finally:
        library.nvmlShutdown()
    return kinds.pop() if len(kinds) == 1 else None


def _capabilities(library: Any) -> Iterator[str]:
    count, device, major, minor = ctypes.c_uint(), ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    library.nvmlDeviceGetCount_v2(ctypes.byref(count))
    for index in range(count.value):
        if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device)) == 0:
            asked = library.nvmlDeviceGetCudaComputeCapability(device, ctypes.byref(major), ctypes.byref(minor))
            if asked == 0:
                yield f"sm{major.value}{minor.value}"


def _ask(library: Any, uuid: str | None) -> Management:
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    driver = text.value.decode() if library.nvmlSystemGetDriverVersion(text, _TEXT_BYTES) == 0 else None
    device = ctypes.c_void_p()
    if uuid is None or library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device)) != 0:
        return Management(driver)
    milliwatts = _number(library.nvmlDeviceGetEnforcedPowerLimit, device)
    return Management(
        driver,
        _number(library.nvmlDeviceGetMaxClockInfo, device, ctypes.c_int(_SM_CLOCK)),
        _number(library.nvmlDeviceGetMaxClockInfo, device, ctypes.c_int(_MEMORY_CLOCK)),
        None if milliwatts is None else round(milliwatts / 1000),
    )


def _number(function: Any, *arguments: object) -> int | None:
    found = ctypes.c_uint()
    return int(found.value) if function(*arguments, ctypes.byref(found)) == 0 else None
