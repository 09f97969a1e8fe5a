"""Puts together what Triton's tuning of one key did, from the calls it makes while it does it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

TIMED: Final = "timed"
ECHO: Final = "echo"
SINGLE: Final = "single"
FAILED: Final = "failed"


class Tuning:
    """Triton's choice for one key of one autotuner.

    Attributes:
        autotuner: The live autotuner.
        args: Positional arguments of the call.
        kwargs: Its keyword arguments.
        candidates: What pruning left; None when that was not seen.
        timings: `[median, p20, p80]` in ms by candidate, as measured; empty for an echo.
        calls: How many candidates have been timed (equal candidates are one key of `timings`).
        winner: The chosen candidate; None while tuning, or when every candidate failed.
        origin: `timed`, `echo` (from Triton's disk cache), `single` (nothing to choose) or `failed`.
    """

    __slots__ = ("args", "autotuner", "calls", "candidates", "kwargs", "origin", "timings", "winner")

    def __init__(
        self,
        autotuner: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        candidates: Sequence[Any] | None = None,
        origin: str = TIMED,
    ) -> None:
        self.autotuner = autotuner
        self.args = args
        self.kwargs = kwargs
        self.candidates = candidates
        self.timings: dict[Any, Any] = {}
        self.calls = 0
        self.winner: Any = None
        self.origin = origin


class Watch:
    """Follows tunings, one per thread and autotuner, and hands each over when it is complete.

    Triton prunes, then times each candidate that is left, then (from 3.9 on) tells its listener. The
    listener is preferred as the sign of completion; where it is absent or another tool took its place,
    the last candidate's timing is.

    Args:
        done: Called with each complete tuning.
        is_listening: Whether Triton's listener will call `listened`.
    """

    def __init__(self, done: Callable[[Tuning], None], is_listening: Callable[[], bool]) -> None:
        self._done = done
        self._is_listening = is_listening
        self._local = threading.local()

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Within, the calling thread's pruning is our own and begins no tuning."""
        before = getattr(self._local, "silent", False)
        self._local.silent = True
        try:
            yield
        finally:
            self._local.silent = before

    def pruned(self, autotuner: Any, kwargs: Mapping[str, Any], candidates: Sequence[Any]) -> None:
        """Pruning is done: a tuning begins. `warmup` prunes too, but launches come with a `warmup` argument."""
        if getattr(self._local, "silent", False) or "warmup" not in kwargs:
            return
        nargs = autotuner.nargs or {}
        tuning = Tuning(autotuner, tuple(nargs.values()), kwargs, list(candidates))
        if len(tuning.candidates or ()) == 1:
            # Newer releases do not time it, older ones do; either way nobody chose.
            tuning.winner, tuning.origin = candidates[0], SINGLE
            self._pending()[id(autotuner)] = tuning
            self._finish(tuning)
        else:
            self._pending()[id(autotuner)] = tuning

    def is_open(self, autotuner: Any) -> bool:
        """Whether this thread has a tuning of the autotuner that is not complete."""
        return id(autotuner) in self._pending()

    def timed(
        self, autotuner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], candidate: Any, timing: Any
    ) -> None:
        """One candidate has been timed."""
        tuning = self._pending().get(id(autotuner))
        if tuning is None:
            # A subclass prunes its own way: the number of candidates is unknown, the listener ends it.
            tuning = self._pending()[id(autotuner)] = Tuning(autotuner, args, kwargs)
        if tuning.origin == SINGLE:
            return
        tuning.calls += 1
        tuning.timings[candidate] = timing
        if tuning.candidates is not None and tuning.calls == len(tuning.candidates) and not self._is_listening():
            # Triton's own rule: the least timing in the order of measurement.
            self._finish(tuning, min(tuning.timings, key=tuning.timings.__getitem__))

    def listened(self, fn: Any, winner: Any, timings: Mapping[Any, Any], cache_hit: bool) -> None:
        """Triton's listener was called, in the thread that tuned, for the kernel function `fn`."""
        for tuning in reversed(list(self._pending().values())):
            if tuning.origin == TIMED and _innermost(tuning.autotuner) is _innermost(fn):
                tuning.timings = {} if cache_hit else dict(timings)
                tuning.origin = ECHO if cache_hit else TIMED
                self._finish(tuning, winner)
                return

    def echoed(self, autotuner: Any, winner: Any) -> None:
        """The winner was read from Triton's disk cache."""
        tuning = self._pending().get(id(autotuner))
        if tuning is not None and tuning.origin == TIMED and not self._is_listening():
            tuning.origin = ECHO
            self._finish(tuning, winner)

    def _finish(self, tuning: Tuning, winner: Any = None) -> None:
        if tuning.origin != SINGLE:
            self._pending().pop(id(tuning.autotuner), None)
            failed = tuning.origin == TIMED and all(has_failed(timing) for timing in tuning.timings.values())
            # Triton keeps the first candidate as winner when all of them failed; it has never run.
            tuning.origin, tuning.winner = (FAILED, None) if failed else (tuning.origin, winner)
        self._done(tuning)
        if tuning.origin == SINGLE:  # kept, so that an older release's timing of it is recognised; arguments are not
            self._pending()[id(tuning.autotuner)] = Tuning(tuning.autotuner, (), {}, origin=SINGLE)

    def _pending(self) -> dict[int, Tuning]:
        if not hasattr(self._local, "pending"):
            self._local.pending = {}
        pending: dict[int, Tuning] = self._local.pending
        return pending


def has_failed(timing: Any) -> bool:
    """Whether Triton's timing of a candidate says that it could not run (infinity)."""
    first = timing[0] if isinstance(timing, list | tuple) else timing
    return bool(first == float("inf"))


def _innermost(fn: Any) -> Any:
    while hasattr(fn, "fn"):
        fn = fn.fn
    return fn
