"""Learning of the import of modules that a job may import later, or never."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tuning_registry.runtime.guard import guarded

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


class ImportWatch:
    """Calls functions with modules once they are imported: a finder that asks the other finders.

    Args:
        wanted: The function for each module, by full name.
    """

    def __init__(self, wanted: Mapping[str, Callable[[ModuleType], None]]) -> None:
        self._wanted = wanted

    def start(self) -> None:
        """Call the functions of modules that are there, and watch for the others."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        for name, then in self._wanted.items():
            module = sys.modules.get(name)
            if module is not None and not getattr(module.__spec__, "_initializing", False):
                guarded("putting functions into Inductor", then, module)

    def stop(self) -> None:
        """Watch no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a wanted module, whose loader calls the function afterwards; None for any other module."""
        then = self._wanted.get(name)
        if then is None:
            return None
        for finder in sys.meta_path:
            if not isinstance(finder, ImportWatch) and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                        ours: Any = _Loader(spec.loader, then)
                        spec.loader = ours
                    return spec
        return None


class _Loader:
    """A loader that calls a function once its module is executed, and leaves no trace in the module.

    It is not derived from `importlib.abc.Loader`, whose import takes milliseconds.
    """

    def __init__(self, loader: Any, then: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader does."""
        found: ModuleType | None = self._loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, then call the function."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        guarded("putting functions into Inductor", self._then, module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
