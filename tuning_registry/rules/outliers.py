"""Which values of a fleet stand out, by a rule that the outliers themselves cannot move. Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

LEAST_VALUES: Final = 4  # fewer have no middle that one of them could stand out from
SCALED_MADS: Final = 3.0
_MAD_TO_SIGMA: Final = 1.4826  # 1 / 0.6745, the third quartile of the normal distribution


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of a fleet's values and how far they usually lie from it.

    Attributes:
        median: Their median.
        scaled_mad: 1.4826 times the median absolute deviation from it: for normal values their standard deviation.
        count: How many there are.
    """

    median: float
    scaled_mad: float
    count: int

    def limit(self, least: float) -> float:
        """How far from the median a value may lie: 3 scaled MADs, or `least` where that is more."""
        return max(SCALED_MADS * self.scaled_mad, least)

    def is_outside(self, value: float, least: float) -> bool:
        """Whether a value lies more than 3 scaled MADs and at least `least` from the median, on either side."""
        distance = abs(value - self.median)
        return distance > SCALED_MADS * self.scaled_mad and distance >= least


def spread_of(values: Collection[float]) -> Spread | None:
    """Median and scaled MAD of these values; None of fewer than four.

    The robust z-score, `(value - median) / (1.4826 * MAD)`: up to half of the values may be wild without moving
    it, where mean and standard deviation are moved by one. Source: Iglewicz and Hoaglin, How to Detect and Handle
    Outliers (1993); the cut at 3: Leys et al., J. Exp. Soc. Psychol. 49 (2013) 764-766. Since ranks of one
    fleet can agree so well that the MAD is next to nothing, callers also state a least distance.
    """
    if len(values) < LEAST_VALUES:
        return None
    median = statistics.median(values)
    deviation = statistics.median(abs(value - median) for value in values)
    return Spread(median, _MAD_TO_SIGMA * deviation, len(values))
