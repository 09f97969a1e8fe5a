"""Functions of ours in the place of a class's own, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tuning_registry.runtime.guard import warn_once


class Patches:
    """What was replaced in a class, and by what.

    Args:
        owner: The class.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self.originals: dict[str, Any] = {}
        self.ours: dict[str, Any] = {}

    def put_in(self, name: str, make: Callable[[Any], Any], before: Patches | None = None) -> None:
        """Replace one function, in one step.

        Args:
            name: Its name in the class.
            make: Gives ours for the original.
            before: Patches that may hold the place: ours takes it from theirs, over the same original.
        """
        original = self._owner.__dict__[name]
        if before is not None and original is before.ours.get(name):
            original = before.originals[name]
        self.originals[name] = original
        ours = self.ours[name] = make(original)
        ours.__name__, ours.__doc__ = name, original.__doc__
        setattr(self._owner, name, ours)

    def take_out(self, after: Patches | None = None) -> None:
        """Put the originals back, but where the patches that came `after`, or another tool, hold the place."""
        for name, original in self.originals.items():
            now = self._owner.__dict__.get(name)
            if now is self.ours[name]:
                setattr(self._owner, name, original)
            elif after is None or now is not after.ours.get(name):
                warn_once(("foreign patch", name), "Autotuner.%s was patched by another tool after install; its patch "
                          "stays and ours, under it, now only passes calls on", name)  # fmt: skip

    def original_of(self, name: str, function: Any) -> Any:
        """The function that does the work: the original if `function` is ours, else itself."""
        return self.originals[name] if function is self.ours.get(name) else function
