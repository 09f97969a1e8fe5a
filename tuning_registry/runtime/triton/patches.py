"""Replacing functions of a class, and putting the originals back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tuning_registry.runtime.guard import warn_once


class Patches:
    """The functions replaced in one class, and their replacements.

    Args:
        owner: The class.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self.originals: dict[str, Any] = {}
        self.ours: dict[str, Any] = {}

    def put_in(self, name: str, make: Callable[[Any], Any], before: Patches | None = None) -> None:
        """Replace one function, in a single step.

        Args:
            name: Its name in the class.
            make: Returns our function for the original one.
            before: Patches that may be in place: our function replaces theirs, over the same original.
        """
        original = self._owner.__dict__[name]
        if before is not None and original is before.ours.get(name):
            original = before.originals[name]
        self.originals[name] = original
        ours = self.ours[name] = make(original)
        ours.__name__, ours.__doc__ = name, original.__doc__
        setattr(self._owner, name, ours)

    def take_out(self, after: Patches | None = None) -> None:
        """Put the originals back, except where later patches (`after`) or another tool have taken over."""
        for name, original in self.originals.items():
            now = self._owner.__dict__.get(name)
            if now is self.ours[name]:
                setattr(self._owner, name, original)
            elif after is None or now is not after.ours.get(name):
                warn_once(("foreign patch", name), "another tool patched Autotuner.%s after install; its patch stays, and "
                          "ours below it only passes calls on", name)  # fmt: skip

    def take_out_one(self, name: str) -> None:
        """Put one original back, unless another tool's patch is in its place."""
        if self._owner.__dict__.get(name) is self.ours.get(name) is not None:
            setattr(self._owner, name, self.originals.pop(name))
            del self.ours[name]

    def original_of(self, name: str, function: Any) -> Any:
        """The function that does the work: the original if `function` is ours, else itself."""
        return self.originals[name] if function is self.ours.get(name) else function
