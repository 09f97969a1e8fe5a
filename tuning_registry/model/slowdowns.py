"""How much slower than the fastest candidate of a key the others are, as small integers that a table can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

FAILED: Final = -1  # instead of a slowdown: the candidate could not run
MOST_PERCENT: Final = 999  # also stands for everything above

Slowdowns = Mapping[str, int]  # percent over the fastest candidate, or FAILED, by canonical text


def slowdowns_of(medians: Mapping[str, float]) -> dict[str, int]:
    """The slowdown of each candidate of a key in percent over the fastest, rounded; FAILED for an infinite time.

    Args:
        medians: Milliseconds by canonical text, infinite for a candidate that failed. At least one did not.

    Taken once, when a table is exported: from then on the percents are what counts.
    """
    fastest = min(medians.values())
    return {text: FAILED if math.isinf(ms) else _percent(ms, fastest) for text, ms in medians.items()}


def _percent(ms: float, fastest: float) -> int:
    if fastest > 0:
        return round(min(100 * (ms / fastest - 1), MOST_PERCENT))
    return 0 if ms == fastest else MOST_PERCENT
