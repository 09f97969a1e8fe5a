"""Times of winners alone, as other tools keep them: one number, and none of the candidates that lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.model.records import LONGEST_MS, SHORTEST_MS, Recording, Timing, candidate_set_digest

_NOT_KNOWN: Final = candidate_set_digest(())


def read_time(value: Any, *path: str) -> float | None:
    """A time in milliseconds; None if there is none, and NaN if it cannot be a measurement.

    Raises:
        FormatError: It is not a number; `path` leads to it.
    """
    if value is None:
        return None
    if type(value) not in (int, float):
        raise FormatError(f"expected milliseconds or null, found {describe(value)}", path)
    return float(value) if SHORTEST_MS <= value <= LONGEST_MS else math.nan


def winner_alone(config: str, time_ms: float) -> Sequence[Timing]:
    """The timing of a winner, as Triton's own single times are kept: all three figures are that time, unless it is NaN."""
    time = None if math.isnan(time_ms) else time_ms
    return [Timing(config, time, time, time)]


# See docs/decisions.md, D146.
def with_unknown_candidates(recording: Recording) -> Recording:
    """A recording whose timings do not tell what a config was chosen from.

    Otherwise a winner that was timed alone would count as the only candidate, and ranks that disagree would seem to
    have chosen from different ones.
    """
    sets = {
        arch: {kernel: dict.fromkeys(entries, _NOT_KNOWN) for kernel, entries in kernels.items()}
        for arch, kernels in recording.timings.items()
    }
    return replace(recording, candidate_sets=sets)
