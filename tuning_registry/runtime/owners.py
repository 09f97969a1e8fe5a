"""Which distribution, in which version, a kernel comes from."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import PurePosixPath

from tuning_registry.names import top_module


class Owners:
    """Distributions of kernels; the list of what is installed is read once, when it is first needed."""

    def __init__(self) -> None:
        self._distributions: dict[str, list[str]] | None = None
        self._owner: dict[str, str | None] = {}

    def of(self, kernels: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Versions by distribution, and distribution by top-level module, of the given kernels' owners.

        Kernels of a script or of a source tree that is not installed have no owner and are left out.
        """
        # It costs more to import than the rest of the runtime together, and pinned jobs never ask.
        from importlib import metadata  # noqa: PLC0415

        modules: dict[str, str] = {}
        for kernel in kernels:
            top = top_module(kernel)
            if top and top not in self._owner:
                self._owner[top] = self._find(top, kernel.rpartition(".")[0])
            owner = self._owner.get(top)
            if owner is not None:
                modules[top] = owner
        return {owner: metadata.version(owner) for owner in sorted(set(modules.values()))}, modules

    def _find(self, top: str, module: str) -> str | None:
        if top == "__main__":
            return None
        from importlib import metadata  # noqa: PLC0415  # see `of`

        if self._distributions is None:
            self._distributions = {
                name: sorted(set(owners)) for name, owners in metadata.packages_distributions().items()
            }
        owners = self._distributions.get(top, [])
        if len(owners) < 2:
            return owners[0] if owners else None
        # Several wheels share the package (fla-core and flash-linear-attention): the one with the kernel's file.
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        for owner in owners:
            parts = {PurePosixPath(str(f)) for f in metadata.files(owner) or () if str(f).startswith(top)}
            if any(file.endswith("/" + str(part)) for part in parts):
                return owner
        return owners[0]
