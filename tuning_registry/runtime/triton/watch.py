"""Follows Triton's tuning of a key through the calls that Triton makes during it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from tuning_registry.model.audits import AuditedEntry
from tuning_registry.model.specializations import Specialization
from tuning_registry.runtime.guard import guarded
from tuning_registry.runtime.triton.keys import Call
from tuning_registry.runtime.triton.share import Share

TIMED: Final = "timed"
ECHO: Final = "echo"
SINGLE: Final = "single"
FAILED: Final = "failed"
UNMEASURED: Final = "unmeasured"

_DEPTH: Final = 8  # tunings inside tunings, in one thread


class Tuning:
    """Triton's tuning of one key of one autotuner.

    It holds no argument of the call, so that a tuning that never completes keeps no tensor alive.

    Attributes:
        autotuner: The live autotuner.
        kernel: Qualified kernel name.
        key: Shape key of the call; None if it has none, or if its kernel is out of scope.
        candidates: The candidates that pruning left; None if pruning was not seen; a `Share` if other ranks time the rest.
        is_whole: Whether `candidates` is complete.
        is_told: Whether Triton will tell its listener which candidate it chose.
        timings: `[median, p20, p80]` in ms by candidate, as measured; empty for an echo.
        calls: Number of candidates timed so far (equal candidates share one key of `timings`).
        winner: The chosen candidate; None during tuning, or if every candidate failed.
        origin: `timed`, `echo` (from Triton's disk cache), `single` (nothing to choose), `failed`, or
            `unmeasured` (the winner's time is NaN).
        audited: What an audit of the candidates found; None without one.
        compiled: The fastest candidate so far, and what its kernel needs to be compiled; None if that is not kept.
    """

    __slots__ = (
        "audited", "autotuner", "calls", "candidates", "compiled", "is_told", "is_whole", "kernel", "key", "origin", "timings", "winner",
    )  # fmt: skip

    def __init__(self, autotuner: Any, kernel: str, key: str | None, is_told: bool = False) -> None:
        self.autotuner = autotuner
        self.kernel = kernel
        self.key = key
        self.candidates: list[Any] | None = None
        self.is_whole = False
        self.is_told = is_told
        self.timings: dict[Any, Any] = {}
        self.calls = 0
        self.winner: Any = None
        self.origin = TIMED
        self.audited: AuditedEntry | None = None
        self.compiled: tuple[Any, Specialization] | None = None


class Launch(NamedTuple):
    """The first launch of a key.

    Attributes:
        candidate: The candidate to launch; None leaves the launch to Triton.
        lasts: Whether equal calls get the same candidate.
        succeeded: To be called after the launch.
        give_way: To be called when the candidate raised an error before the kernel ran; returns the launch to try
            instead, or None to raise the error.
    """

    candidate: Any
    lasts: bool
    succeeded: Callable[[], None]
    give_way: Callable[[BaseException], Launch | None]


class Handler(Protocol):
    """The installed policy, as the functions inside Triton see it: it decides launches, and learns of tunings."""

    def is_pinned(self, call: Call) -> bool:
        """Whether the kernel is in scope of pinning; notes that it was reached."""

    def pin(self, call: Call, pruned: list[Any], kept: dict[Any, Any]) -> Launch:
        """Decide a launch of a key that has no pin yet.

        Args:
            call: The launch.
            pruned: The candidates that the kernel's pruning left.
            kept: Earlier decisions for this autotuner; the handler reads and fills it.

        Raises:
            LaunchError: The policy refuses the launch.
        """

    def pin_after_fault(self, call: Call, pruned: list[Any]) -> Launch:
        """Decide the launch after `pin` has failed; always finds a candidate.

        Raises:
            LaunchError: The policy refuses the launch.
        """

    def check_hook(self, call: Call, candidate: Any) -> None:
        """The hook of a candidate that is about to be launched has changed it.

        Raises:
            LaunchError: The table bans what it is now.
        """

    def allowed(self, call: Call, pruned: Any) -> Any:
        """What is left of the candidates that Triton would time, once those banned by the table are taken out.

        Raises:
            LaunchError: All of them are banned.
        """

    def share(self, call: Call, pruned: Any) -> Any:
        """What this rank times of the candidates that Triton would time, a `Share`; None means all of them."""

    def device_index(self) -> Callable[[], int] | None:
        """A function that returns the current device's index; None if all visible devices have one architecture."""

    def key(self, call: Call) -> str | None:
        """The shape key of a call; None if it has none, or if its kernel is out of scope."""

    def begins(self, tuning: Tuning, doubt: str) -> None:
        """Triton is about to time candidates; `doubt` says why the choice may not be seen (empty: it will be)."""

    def times(self, tuning: Tuning, call: Call) -> None:
        """Triton is about to time the first candidate with the arguments of this call."""

    def leads(self, tuning: Tuning, call: Call, candidate: Any) -> None:
        """A candidate has just been timed with the arguments of this call, and is the fastest so far."""

    def tuned(self, tuning: Tuning) -> None:
        """Triton has chosen."""


class Watch:
    """Follows the tunings of each thread, and reports each one when it is complete.

    Triton prunes, then times each remaining candidate, then (from 3.9 on) tells its listener. If the listener
    will be told, that completes the tuning. Otherwise the last candidate's timing does: in a release without
    a listener, for a kernel without a JITFunction, or for a class whose `run` may never tell the listener.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._local = threading.local()

    def begin(self, call: Call, pruned: Any, is_told: bool, doubt: str) -> Any:
        """Follow a tuning that begins. Returns what Triton should use in place of `pruned`.

        Args:
            call: The call that is tuned.
            pruned: The candidates that pruning left; None if pruning was not seen.
            is_told: Whether Triton's listener will be told.
            doubt: Why the choice may not be seen; empty if it will be.
        """
        tuning = Tuning(call.autotuner, call.kernel, self._handler.key(call), is_told)
        if isinstance(pruned, Iterator):
            # Only Triton can read it, once: candidates are noted as Triton takes them.
            tuning.candidates = []
            pruned = self._noting(tuning, pruned)
        elif hasattr(pruned, "__len__"):
            # A share may grow while Triton times it.
            tuning.candidates, tuning.is_whole = pruned if isinstance(pruned, Share) else list(pruned), True
            if not tuning.candidates:
                return pruned
        self._open(tuning)
        if tuning.is_whole and len(tuning.candidates or ()) == 1:
            # Older releases time it, newer ones do not; in both cases there was no choice.
            tuning.winner, tuning.origin = (tuning.candidates or [None])[0], SINGLE
            self._handler.tuned(tuning)
        else:
            self._handler.begins(tuning, doubt)
        return pruned

    def find(self, autotuner: Any) -> Tuning | None:
        """This thread's innermost incomplete tuning of the autotuner."""
        return next((tuning for tuning in reversed(self._stack()) if tuning.autotuner is autotuner), None)

    def forget(self, autotuner: Any) -> None:
        """Drop a tuning that Triton has abandoned, because timing a candidate raised."""
        tuning = self.find(autotuner)
        if tuning is not None:
            self._close(tuning)

    def timed(self, call: Call, candidate: Any, timing: Any) -> None:
        """One candidate has been timed."""
        tuning = self.find(call.autotuner)
        if tuning is None:
            return
        if tuning.origin == SINGLE:
            self._close(tuning)
            return
        if tuning.calls == 0:
            # These are the call's own arguments; pruning saw the autotuner's, which threads share.
            tuning.key = self._handler.key(call)
        tuning.calls += 1
        if not has_failed(timing) and all(timing < other for other in tuning.timings.values()):
            guarded("keeping what a kernel needs to be compiled", self._handler.leads, tuning, call, candidate)
        tuning.timings[candidate] = timing
        share = tuning.candidates
        if isinstance(share, Share) and tuning.calls == len(share) and all(map(has_failed, tuning.timings.values())):
            share.go_on()
        self._finish_if_measured(tuning)

    def timed_before(self, autotuner: Any, candidate: Any) -> Any:
        """The timing of a candidate that this rank's share holds a second time; None if it was not timed yet."""
        tuning = self.find(autotuner)
        if tuning is None or not isinstance(tuning.candidates, Share):
            return None
        return tuning.timings.get(candidate)

    def listened(self, tuning: Tuning, event: Mapping[str, Any]) -> None:
        """Triton has told its listener."""
        is_echo = event["cache_hit"]
        tuning.timings = {} if is_echo else dict(event["configs_timings"])
        tuning.origin = ECHO if is_echo else TIMED
        self._finish(tuning, event["best_config"])

    def echoed(self, autotuner: Any, winner: Any) -> None:
        """Triton has read the winner from its disk cache."""
        tuning = self.find(autotuner)
        if tuning is not None and tuning.origin == TIMED and not tuning.is_told:
            tuning.origin = ECHO
            self._finish(tuning, winner)

    def _noting(self, tuning: Tuning, pruned: Iterator[Any]) -> Iterator[Any]:
        noted = tuning.candidates if tuning.candidates is not None else []
        for candidate in pruned:
            noted.append(candidate)
            yield candidate
        tuning.is_whole = True
        guarded("watching a tuning", self._finish_if_measured, tuning)

    def _finish_if_measured(self, tuning: Tuning) -> None:
        if not tuning.is_told and tuning.is_whole and 0 < tuning.calls == len(tuning.candidates or ()):
            # Triton's rule: the smallest timing, and on a tie the first one measured.
            self._finish(tuning, min(tuning.timings, key=tuning.timings.__getitem__))

    def _finish(self, tuning: Tuning, winner: Any) -> None:
        self._close(tuning)
        tuning.winner = winner
        if tuning.origin == TIMED:
            if all(has_failed(timing) for timing in tuning.timings.values()):
                # If all candidates fail, Triton keeps the first one as the winner, although it never ran.
                tuning.origin, tuning.winner = FAILED, None
            elif is_no_number(tuning.timings.get(winner)):
                # Python's `min` lets a NaN that is measured first win against every number.
                tuning.origin = UNMEASURED
        self._handler.tuned(tuning)

    def _open(self, tuning: Tuning) -> None:
        """Begin a tuning; drop the remains of one that ended unseen, for example by an exception."""
        others = [
            other
            for other in self._stack()
            if other.autotuner is not tuning.autotuner or (other.key != tuning.key and other.origin != SINGLE)
        ]
        self._local.stack = [*others[1 - _DEPTH :], tuning]

    def _close(self, tuning: Tuning) -> None:
        self._local.stack = [other for other in self._stack() if other is not tuning]

    def _stack(self) -> list[Tuning]:
        stack: list[Tuning] = getattr(self._local, "stack", [])
        return stack


def launch_of(autotuner: Any) -> Callable[[], bool] | None:
    """Whether the launch that an autotuner is in has not returned; None if Triton keeps no trace of it.

    Triton holds the arguments of a launch in `nargs`, and drops them when the launch returns, but not when it raises.
    """
    nargs = getattr(autotuner, "nargs", None)
    if not isinstance(nargs, dict):
        return None
    if not isinstance(nargs, _Arguments):
        nargs = autotuner.nargs = _Arguments(nargs)
    reference = weakref.ref(nargs)
    return lambda: reference() is not None


class _Arguments(dict[str, Any]):
    """A dict that can be referenced weakly, so that nothing of ours keeps the arguments of a call alive."""


def has_failed(timing: Any) -> bool:
    """Whether a timing means that the candidate could not run: Triton then reports infinity."""
    return bool(_median(timing) == float("inf"))


def is_no_number(timing: Any) -> bool:
    """Whether a candidate's median is NaN."""
    median = _median(timing)
    return bool(median != median)  # noqa: PLR0124 - a NaN test that works for any type


def _median(timing: Any) -> Any:
    return timing[0] if isinstance(timing, list | tuple) and timing else timing
