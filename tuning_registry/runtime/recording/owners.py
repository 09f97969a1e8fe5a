"""Finding the distribution, and its version, that a kernel comes from."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from tuning_registry.model.names import check_text, normal_distribution, top_module
from tuning_registry.runtime.guard import guarded

_REST_S: Final = 0.0005


class Owners:
    """Distributions of kernels. Finding them reads every installed package, which can take a second."""

    def __init__(self) -> None:
        self._owner: dict[str, str | None] = {}
        self._version: dict[str, str] = {}

    def known(self, kernels: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Versions by distribution, and distribution by top-level module, as far as `find` has looked them up.

        Kernels of a script, or of a source tree that is not installed, belong to no distribution and are left out.
        """
        owners = {top: self._owner.get(top) for top in map(top_module, kernels)}
        modules = {top: owner for top, owner in owners.items() if owner is not None}
        return {owner: self._version[owner] for owner in sorted(set(modules.values()))}, modules

    def miss(self, kernels: Iterable[str]) -> bool:
        """Whether the module of any of these kernels has not been looked up."""
        return any(top not in self._owner for top in _modules(kernels))

    def find(self, kernels: Iterable[str], beat: Callable[[], None] = lambda: None) -> None:
        """Look up the modules that have not been looked up; other threads can run between two distributions.

        Args:
            kernels: Qualified names.
            beat: Called to show progress.
        """
        files = {top: kernel for kernel in kernels for top in _modules([kernel]) if top not in self._owner}
        if not files:
            return
        found: dict[str, dict[str, tuple[str, str, str]]] = {top: {} for top in files}
        guarded("listing the installed packages", _scan, found, beat)
        for top, owners in found.items():
            name, version = _owner_of(files[top], list(owners.values()))
            if name is not None:
                self._version.setdefault(name, version)
            self._owner[top] = name


def is_importable(module: str) -> bool:
    """Whether another process could import this top-level module by its name; `sys.modules` alone does not count."""
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    return any(find is not None and find(module, None) is not None for find in finders)


def _modules(kernels: Iterable[str]) -> set[str]:
    return {top_module(kernel) for kernel in kernels} - {"", "__main__"}


def _scan(found: dict[str, dict[str, tuple[str, str, str]]], beat: Callable[[], None]) -> None:
    # Importing it takes longer than importing the rest of the runtime, and pinned jobs never need it.
    from importlib import metadata  # noqa: PLC0415

    for distribution in metadata.distributions():
        # A broken distribution (no version, undecodable bytes) must not hide the others.
        guarded("reading an installed package", _note_owner, distribution, found)
        beat()
        time.sleep(_REST_S)


def _note_owner(distribution: Any, found: dict[str, dict[str, tuple[str, str, str]]]) -> None:
    """Note a distribution under each module that it owns; the first one on the path is the one that is imported."""
    declared = (distribution.read_text("top_level.txt") or "").split()
    listed = "\n" + (distribution.read_text("RECORD") or "")
    for top, owners in found.items():
        if top in declared or f"\n{top}/" in listed or f"\n{top}.py," in listed:
            name, version = check_text(distribution.metadata["Name"]), check_text(distribution.version)
            owners.setdefault(normal_distribution(name), (name, version, listed))


def _owner_of(kernel: str, owners: list[tuple[str, str, str]]) -> tuple[str | None, str]:
    """Of several wheels that share a package (fla-core, flash-linear-attention), the one with the kernel's file."""
    if not owners:
        return None, ""
    path = kernel.rpartition(".")[0].replace(".", "/")
    for name, version, listed in sorted(owners):
        if f"\n{path}.py," in listed or f"\n{path}/__init__.py," in listed:
            return name, version
    name, version, _ = min(owners)
    return name, version
