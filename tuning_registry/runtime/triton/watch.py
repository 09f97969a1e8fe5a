"""Puts together what Triton's tuning of one key did, from the calls it makes while it does it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from tuning_registry.runtime.guard import guarded

TIMED: Final = "timed"
ECHO: Final = "echo"
SINGLE: Final = "single"
FAILED: Final = "failed"
UNMEASURED: Final = "unmeasured"

_DEPTH: Final = 8  # tunings inside tunings, in one thread


class Tuning:
    """Triton's choice for one key of one autotuner.

    It keeps no argument of the call: a tuning that is never completed must not keep tensors alive.

    Attributes:
        autotuner: The live autotuner.
        key: Shape key of the call; None if it has none, or is none of ours.
        candidates: What pruning left; None when that was not seen.
        is_whole: Whether `candidates` are all of them.
        is_told: Whether Triton's listener will say what was chosen.
        timings: `[median, p20, p80]` in ms by candidate, as measured; empty for an echo.
        calls: How many candidates have been timed (equal candidates are one key of `timings`).
        winner: The chosen candidate; None while tuning, or when every candidate failed.
        origin: `timed`, `echo` (from Triton's disk cache), `single` (nothing to choose), `failed`, or
            `unmeasured` (the time of what Triton chose is no number).
    """

    __slots__ = ("autotuner", "calls", "candidates", "is_told", "is_whole", "key", "origin", "timings", "winner")

    def __init__(self, autotuner: Any, key: str | None, is_told: bool = False) -> None:
        self.autotuner = autotuner
        self.key = key
        self.candidates: list[Any] | None = None
        self.is_whole = False
        self.is_told = is_told
        self.timings: dict[Any, Any] = {}
        self.calls = 0
        self.winner: Any = None
        self.origin = TIMED


class Follower(Protocol):
    """Who is told of tunings."""

    def key(self, autotuner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        """The shape key of a call; None if it has none, or nobody wants it."""

    def begins(self, autotuner: Any, key: str | None, doubt: str) -> None:
        """Candidates are about to be timed; `doubt` says why the choice may not be seen (empty: it will be)."""

    def tuned(self, tuning: Tuning) -> None:
        """Triton has chosen."""


class Watch:
    """Follows the tunings of each thread, and hands each over when it is complete.

    Triton prunes, then times each candidate that is left, then (from 3.9 on) tells its listener. Where the
    listener will be told, it is the sign of completion; else the last candidate's timing is: a release
    without listener, a kernel without a JITFunction, a class whose own `run` may never tell.
    """

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._local = threading.local()

    def begin(
        self, autotuner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], pruned: Any, is_told: bool, doubt: str
    ) -> Any:
        """A tuning begins. Gives what Triton is to go on with: `pruned`, or an iterator in the place of one.

        Args:
            autotuner: The live autotuner.
            args: Positional arguments of the call.
            kwargs: Its keyword arguments.
            pruned: What pruning left; None when that was not seen.
            is_told: Whether Triton's listener will be told.
            doubt: Why the choice may not be seen; empty if it will be.
        """
        tuning = Tuning(autotuner, self._follower.key(autotuner, args, kwargs), is_told)
        if isinstance(pruned, Iterator):
            # It can be read once, and by Triton: candidates are noted as they are taken.
            tuning.candidates = []
            pruned = self._noting(tuning, pruned)
        elif hasattr(pruned, "__len__"):
            tuning.candidates, tuning.is_whole = list(pruned), True
            if not tuning.candidates:
                return pruned
        self._open(tuning)
        if tuning.is_whole and len(tuning.candidates or ()) == 1:
            # Newer releases do not time it, older ones do; either way nobody chose.
            tuning.winner, tuning.origin = (tuning.candidates or [None])[0], SINGLE
            self._follower.tuned(tuning)
        else:
            self._follower.begins(autotuner, tuning.key, doubt)
        return pruned

    def find(self, autotuner: Any) -> Tuning | None:
        """This thread's innermost tuning of the autotuner that is not complete."""
        return next((tuning for tuning in reversed(self._stack()) if tuning.autotuner is autotuner), None)

    def forget(self, autotuner: Any) -> None:
        """The timing of a candidate raised: Triton gives the tuning up."""
        tuning = self.find(autotuner)
        if tuning is not None:
            self._close(tuning)

    def timed(
        self, autotuner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], candidate: Any, timing: Any
    ) -> None:
        """One candidate has been timed."""
        tuning = self.find(autotuner)
        if tuning is None:
            return
        if tuning.origin == SINGLE:
            self._close(tuning)
            return
        if tuning.calls == 0:
            # The call's own arguments; those noted at pruning are the autotuner's, which threads share.
            tuning.key = self._follower.key(autotuner, args, kwargs)
        tuning.calls += 1
        tuning.timings[candidate] = timing
        self._finish_if_measured(tuning)

    def listened(self, tuning: Tuning, event: Mapping[str, Any]) -> None:
        """Triton's listener was told."""
        is_echo = event["cache_hit"]
        tuning.timings = {} if is_echo else dict(event["configs_timings"])
        tuning.origin = ECHO if is_echo else TIMED
        self._finish(tuning, event["best_config"])

    def echoed(self, autotuner: Any, winner: Any) -> None:
        """The winner was read from Triton's disk cache."""
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
            # Triton's own rule: the least timing in the order of measurement.
            self._finish(tuning, min(tuning.timings, key=tuning.timings.__getitem__))

    def _finish(self, tuning: Tuning, winner: Any) -> None:
        self._close(tuning)
        tuning.winner = winner
        if tuning.origin == TIMED:
            if all(has_failed(timing) for timing in tuning.timings.values()):
                # Triton keeps the first candidate as winner when all of them failed; it has never run.
                tuning.origin, tuning.winner = FAILED, None
            elif is_no_number(tuning.timings.get(winner)):
                # A NaN that is measured first wins against everything, in the order of Python's `min`.
                tuning.origin = UNMEASURED
        self._follower.tuned(tuning)

    def _open(self, tuning: Tuning) -> None:
        """Begin a tuning; what is left of one that ended without a sign, as by an exception, goes."""
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


def has_failed(timing: Any) -> bool:
    """Whether Triton's timing of a candidate says that it could not run (infinity)."""
    return bool(_median(timing) == float("inf"))


def is_no_number(timing: Any) -> bool:
    """Whether a candidate's median is NaN."""
    median = _median(timing)
    return bool(median != median)  # noqa: PLR0124 - the test for NaN that needs no float


def _median(timing: Any) -> Any:
    return timing[0] if isinstance(timing, list | tuple) else timing
