"""Hears what Triton tells its autotune listener, beside any listener that the user has set or sets later."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tuning_registry.runtime.guard import guarded


class ListenerSlot:
    """Stands in for `knobs.autotuning.listener` as a descriptor of the knobs' class, while a policy is installed.

    What a user sets is kept where Triton keeps it, in the knobs object, and everybody reads it back. Only
    Triton's own `Autotuner.run`, at the end of a tuning that we follow, reads a listener that tells us first
    and the user's then. Nothing is switched from one tuning to the next, so threads that tune at once, and
    tunings inside tunings, cannot take the listener from each other.

    With any listener, Triton looks for a JITFunction under the autotuner and fails where there is none, as in
    its interpreter: that is why each reader is looked at, and ours is not simply set.

    Args:
        knobs: `triton.knobs.autotuning`.
        module: `triton.runtime.autotuner`.
        hear: Gives the listener for a tuning of this autotuner in this thread, or None.
    """

    def __init__(self, knobs: Any, module: Any, hear: Callable[[Any], Callable[..., None] | None]) -> None:
        self._class: Any = type(knobs)
        self._module = module
        self._hear = hear
        self._default: Any = None

    @property
    def is_in(self) -> bool:
        """Whether it stands in for the knob; another tool may have taken the place."""
        return vars(self._class).get("listener") is self

    def put_in(self) -> None:
        """Stand in for the knob, perhaps in place of another policy's slot."""
        before = vars(self._class)["listener"]
        self._default = before._default if isinstance(before, ListenerSlot) else before  # noqa: SLF001 - its own kind
        self._class.listener = self

    def take_out(self) -> None:
        """Put the knob back as it was, unless another slot or tool has taken the place since."""
        if self.is_in:
            self._class.listener = self._default

    def __get__(self, knobs: Any, owner: Any = None) -> Any:
        if knobs is None:
            return self._default
        theirs = knobs.__dict__.get("listener", self._default)
        mine = guarded("finding what is tuned", self._of_reader, sys._getframe(1))  # noqa: SLF001 - see the class
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
    """Whether this Triton has an autotune listener that can be stood in for."""
    return knobs is not None and "listener" in vars(type(knobs))


def tells_listener(run: Any, module: Any) -> bool:
    """Whether a `run` function of an autotuner is Triton's own and reads the listener's knob."""
    code = getattr(run, "__code__", None)
    return code is not None and run.__globals__ is vars(module) and "listener" in code.co_names
