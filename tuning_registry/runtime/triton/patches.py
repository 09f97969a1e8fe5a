"""What is put in the place of Triton's, and taken out again: functions of its class, and the listener's knob."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tuning_registry.runtime.guard import guarded, warn_once


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
                warn_once(("foreign patch", name), "another tool patched Autotuner.%s after install, so its patch "
                          "stays, and the one of tuning_registry below it only forwards calls", name)  # fmt: skip

    def take_out_one(self, name: str) -> None:
        """Put one original back, unless another tool's patch is in its place."""
        if self._owner.__dict__.get(name) is self.ours.get(name) is not None:
            setattr(self._owner, name, self.originals.pop(name))
            del self.ours[name]

    def original_of(self, name: str, function: Any) -> Any:
        """The function that does the work: the original if `function` is ours, else itself."""
        return self.originals[name] if function is self.ours.get(name) else function


# See docs/decisions.md, D21.
class ListenerSlot:
    """Stands in for `knobs.autotuning.listener` as a descriptor of the knobs' class, while a policy is installed.

    The user's listener is kept where Triton keeps it, in the knobs object, and every reader sees it. Only
    Triton's own `Autotuner.run`, at the end of a tuning that we follow, reads a listener that calls ours first
    and then the user's. Nothing is switched between tunings, so concurrent and nested tunings cannot take the
    listener from each other.

    If there is any listener, Triton looks for a JITFunction under the autotuner and fails if there is none, as in
    its interpreter. Therefore each reader is examined, and our listener is not simply set.

    Args:
        knobs: `triton.knobs.autotuning`.
        module: `triton.runtime.autotuner`.
        hear: Returns the listener for a tuning of this autotuner in this thread, or None.
    """

    def __init__(self, knobs: Any, module: Any, hear: Callable[[Any], Callable[..., None] | None]) -> None:
        self._class: Any = type(knobs)
        self._module = module
        self._hear = hear
        self._default: Any = None

    @property
    def is_in(self) -> bool:
        """Whether it is in place of the knob; another tool may have replaced it."""
        return vars(self._class).get("listener") is self

    def put_in(self) -> None:
        """Take the place of the knob, or of another policy's slot."""
        before = vars(self._class)["listener"]
        self._default = before._default if isinstance(before, ListenerSlot) else before  # noqa: SLF001 - of this class
        self._class.listener = self

    def take_out(self) -> None:
        """Put the knob back, unless another slot or tool has replaced this one."""
        if self.is_in:
            self._class.listener = self._default

    def __get__(self, knobs: Any, owner: Any = None) -> Any:
        if knobs is None:
            return self._default
        theirs = knobs.__dict__.get("listener", self._default)
        mine = guarded("finding the tuning", self._of_reader, sys._getframe(1))  # noqa: SLF001 - see the class
        if mine is None or theirs is None:
            return theirs if mine is None else mine

        def both(**event: Any) -> None:
            mine(**event)
            theirs(**event)

        return both

    def __set__(self, knobs: Any, value: Any) -> None:
        knobs.__dict__["listener"] = value

    def __delete__(self, knobs: Any) -> None:
        knobs.__dict__.pop("listener", None)

    def _of_reader(self, frame: Any) -> Callable[..., None] | None:
        """Our listener, if the code that reads the knob is Triton's `Autotuner.run`."""
        if frame.f_globals is not vars(self._module) or frame.f_code.co_name != "run":
            return None
        autotuner = frame.f_locals[frame.f_code.co_varnames[0]]
        return self._hear(autotuner) if isinstance(autotuner, self._module.Autotuner) else None


def has_listener(knobs: Any) -> bool:
    """Whether this Triton has an autotune listener that can be replaced."""
    return knobs is not None and "listener" in vars(type(knobs))


def tells_listener(run: Any, module: Any) -> bool:
    """Whether a `run` function of an autotuner is Triton's own and reads the listener's knob."""
    code = getattr(run, "__code__", None)
    return code is not None and run.__globals__ is vars(module) and "listener" in code.co_names
