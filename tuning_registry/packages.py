"""Which distribution owns a kernel's top-level module, and in which version it was recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tuning_registry.records import Header

# Distributions whose top-level module has another name, for recordings that do not say which
# distribution owns what. Source: the projects' own metadata on the Python package index.
_WELL_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "fla": ("fla-core", "flash-linear-attention"),
    "megatron": ("megatron-core",),
    "unsloth": ("unsloth", "unsloth-zoo"),
}


def normal_distribution(name: str) -> str:
    """A distribution name as the package index compares them: `Mamba_SSM` is `mamba-ssm` (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def module_owners(modules: Iterable[str], header: Header) -> dict[str, tuple[str, str]]:
    """`{module: (distribution, version)}` for the modules whose owner's version is recorded.

    The recording's own `modules` decides; without it, a distribution named like the module, then the
    well-known exceptions. A module whose owner has no version is left out: its version is missing.

    Args:
        modules: Top-level modules of the kernels.
        header: The recording's header.
    """
    versions = {normal_distribution(name): version for name, version in header.packages.items()}
    owners: dict[str, tuple[str, str]] = {}
    for module in modules:
        stated = header.modules.get(module)
        names = (stated,) if stated else (module, *_WELL_KNOWN.get(module, ()))
        for name in map(normal_distribution, names):
            if name in versions:
                owners[module] = (name, versions[name])
                break
    return owners
