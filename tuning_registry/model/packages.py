"""The distribution that owns each kernel's top-level module, with its recorded version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tuning_registry.model.names import normal_distribution
from tuning_registry.model.records import Header

# A version group, as the database, JSON and CSV name its parts; an empty part is not known. The device is one of them
# if the source of the choices is per device: H100 and H200 are both sm90, and their choices never vote together.
GROUP: Final = ("triton", "package", "version", "device")

# Distributions whose top-level module has another name, for recordings that do not state which distribution owns
# which module. Source: the projects' own metadata on the Python package index.
_WELL_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "fla": ("fla-core", "flash-linear-attention"),
    "megatron": ("megatron-core",),
    "unsloth": ("unsloth", "unsloth-zoo"),
}


def module_owners(modules: Iterable[str], header: Header) -> dict[str, tuple[str, str]]:
    """The owner of each module, `{module: (distribution, version)}`, if the owner's version is recorded.

    The recording's `modules` decides. Otherwise the owner is the distribution named like the module, or else a
    well-known exception. A module is left out if the version of its owner is not recorded.

    Args:
        modules: Top-level modules of the kernels.
        header: The recording's header.
    """
    versions = header.packages
    owners: dict[str, tuple[str, str]] = {}
    for module in modules:
        stated = header.modules.get(module)
        names = (stated,) if stated else (module, *_WELL_KNOWN.get(module, ()))
        for name in map(normal_distribution, names):
            if name in versions:
                owners[module] = (name, versions[name])
                break
    return owners
