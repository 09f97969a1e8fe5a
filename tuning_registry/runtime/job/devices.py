"""Finding the device and architecture of a launch: at the first launch, never at import or install."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tuning_registry.model.names import normal_arch
from tuning_registry.runtime.guard import guarded

UNKNOWN: Final = "unknown"  # no GPU: Triton's interpreter, or a fake kernel in a test


class Device(NamedTuple):
    """One GPU, or the lack of one.

    Attributes:
        arch: `sm90`, `gfx942`, or `unknown`.
        name: The driver's name for it; for provenance only, since names differ between container images.
        multiprocessor_count: Streaming multiprocessors or compute units.
        uuid: As the driver states it (`GPU-...`).
    """

    arch: str = UNKNOWN
    name: str | None = None
    multiprocessor_count: int | None = None
    uuid: str | None = None


class Devices:
    """The devices of this process, looked up once.

    Args:
        arch: The policy's architecture; it overrides that of every device.
        driver_target: Returns Triton's current target (`backend`, `arch`), for a process without torch.
    """

    def __init__(self, arch: str | None = None, driver_target: Callable[[], Any] | None = None) -> None:
        self._arch = arch
        self._driver_target = driver_target
        self._devices: list[Device] | None = None
        self._index: Callable[[], int] | None = None

    @property
    def mixed(self) -> bool:
        """Whether this process sees devices of several architectures; each launch must then ask for its device."""
        return len({device.arch for device in self._all()}) > 1

    def current(self) -> Device:
        """The device that the calling thread launches on."""
        devices = self._all()
        return devices[self.current_index()] if len(devices) > 1 else devices[0]

    def current_index(self) -> int:
        """The index of that device."""
        return self._index() if self._index is not None else 0

    def _all(self) -> list[Device]:
        devices = self._devices
        if devices is None:
            may_change = is_loading_torch()
            found = guarded("detecting the device", self._detect)
            devices = found or [Device()]
            if self._arch is not None:
                devices = [d._replace(arch=self._arch) for d in devices]
            if found and not may_change:
                self._devices = devices
        return devices

    def _detect(self) -> list[Device]:
        torch = loaded_torch()
        if torch is not None and torch.cuda.is_available():
            self._index = torch.cuda.current_device
            return [_from_properties(torch.cuda.get_device_properties(i)) for i in range(torch.cuda.device_count())]
        if self._driver_target is None:
            return [Device()]
        try:
            target = self._driver_target()
        except RuntimeError:  # Triton raises it if no driver is active
            return [Device()]
        if target is None:
            return [Device()]
        return [Device(normal_arch(f"sm{target.arch}" if target.backend == "cuda" else str(target.arch)))]


def loaded_torch() -> Any:
    """The torch module, if this process has imported it; None while it is being imported, here or in another thread."""
    return None if is_loading_torch() else sys.modules.get("torch")


def is_loading_torch() -> bool:
    """Whether torch is being imported right now: its module exists, but most of its content does not."""
    # The import system sets this mark, and reads it for the same purpose (importlib._bootstrap).
    return bool(getattr(getattr(sys.modules.get("torch"), "__spec__", None), "_initializing", False))


def _from_properties(properties: Any) -> Device:
    """The device of these torch properties; `gcnArchName` exists in AMD builds only, and has feature suffixes."""
    gcn = str(getattr(properties, "gcnArchName", ""))
    arch = normal_arch(gcn) if gcn.lower().startswith("gfx") else f"sm{properties.major}{properties.minor}"
    uuid = getattr(properties, "uuid", None)  # since torch 2.4
    return Device(arch, properties.name, properties.multi_processor_count, None if uuid is None else f"GPU-{uuid}")
