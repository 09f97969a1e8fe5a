"""Pinned launches that skip the `run` of a subclass whose work a pinned launch would not use."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, Final

from tuning_registry.runtime.triton.fastpath import make_run
from tuning_registry.runtime.triton.keys import Call
from tuning_registry.runtime.triton.patches import Patches

# What the `run` of a subclass may name, by module and name of the class. See docs/decisions.md, D89.
_SKIPPED: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    # Builds Triton's key, looks it up in the folder of configs that FLA_CACHE_MODE selects, puts a config that it
    # finds into `cache`, which no pinned launch reads, and calls `super().run`. In fla-core 0.6.0.
    ("fla.ops.utils.cache", "CachedAutotuner"): frozenset(
        {"AutotuneKey", "arg_names", "build", "dict", "keys", "maybe_load_cached_config", "run",
         "should_check_fla_cache", "super", "zip"}
    ),
}  # fmt: skip


class Shortcuts:
    """The subclasses of `Autotuner` whose `run` is replaced by ours, so that it finds a pin before it does anything.

    A launch without a pin, and any launch of a class derived from such a subclass, takes the subclass's own way.

    Args:
        attribute: Name of the attribute that holds an autotuner's pins.
        check_hook: As for `make_run`.
    """

    def __init__(self, attribute: str, check_hook: Callable[[Call, Any], None]) -> None:
        self._attribute = attribute
        self._check_hook = check_hook
        self._patches: dict[type, Patches] = {}

    def put_in(self, kind: type) -> None:
        """Replace the `run` of an autotuner's class, if it is one that may be skipped."""
        if kind in self._patches or not may_skip(kind):
            return
        patches = Patches(kind)
        # Of threads that come here at the same time, one puts it in: two would replace each other's.
        if self._patches.setdefault(kind, patches) is patches:
            patches.put_in(
                "run", lambda original: make_run(original, _take_own_way, self._attribute, self._check_hook, kind)
            )

    def take_out(self) -> None:
        """Put the functions of the subclasses back."""
        for patches in self._patches.copy().values():
            patches.take_out()


def may_skip(kind: type) -> bool:
    """Whether a class has a `run` that does only what `_SKIPPED` lists; a release that does more is not skipped."""
    run = vars(kind).get("run")
    known = _SKIPPED.get((kind.__module__, kind.__qualname__))
    if known is None or not isinstance(run, types.FunctionType) or run.__module__ != kind.__module__:
        return False
    return known.issuperset(run.__code__.co_names)


def _take_own_way(original: Callable[..., Any], autotuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return original(autotuner, *args, **kwargs)
