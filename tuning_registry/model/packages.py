"""Which distribution owns a kernel's top-level module, and in which version it was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tuning_registry.model.names import normal_distribution
from tuning_registry.model.records import Header

# Distributions whose top-level module has another name, for recordings that do not say which
# distribution owns what. Source: the projects' own metadata on the Python package index.
_WELL_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "fla": ("fla-core", "flash-linear-attention"),
    "megatron": ("megatron-core",),
    "unsloth": ("unsloth", "unsloth-zoo"),
}


def module_owners(modules: Iterable[str], header: Header) -> dict[str, tuple[str, str]]:
    """`{module: (distribution, version)}` for the modules whose owner's version is recorded.

    The recording's own `modules` decides; without it, a distribution named like the module, then the
    well-known exceptions. A module whose owner has no version is left out: its version is missing.

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
