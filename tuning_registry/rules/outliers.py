"""Outliers among the values of a fleet, by a rule that outliers cannot distort. Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

LEAST_VALUES: Final = 4  # with fewer values, the median means too little
SCALED_MADS: Final = 3.0
_MAD_TO_SIGMA: Final = 1.4826  # 1 / 0.6745, the third quartile of the normal distribution


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of a fleet's values, and their usual distance from it.

    Attributes:
        median: Their median.
        scaled_mad: 1.4826 times the median absolute deviation, which estimates the standard deviation of normal values.
        count: The number of values.
    """

    median: float
    scaled_mad: float
    count: int

    def limit(self, least: float) -> float:
        """The largest distance from the median of a value that is not an outlier: 3 scaled MADs, but at least `least`."""
        return max(SCALED_MADS * self.scaled_mad, least)

    def is_outside(self, value: float, least: float) -> bool:
        """Whether a value is more than 3 scaled MADs, and at least `least`, away from the median on either side."""
        distance = abs(value - self.median)
        return distance > SCALED_MADS * self.scaled_mad and distance >= least


# See docs/decisions.md, D34.
def spread_of(values: Collection[float]) -> Spread | None:
    """The median and scaled MAD of these values; None for fewer than four.

    They give the robust z-score, `(value - median) / (1.4826 * MAD)`. Up to half of the values can be extreme without
    moving it, while a single one moves mean and standard deviation. Source: Iglewicz and Hoaglin, How to Detect and Handle
    Outliers (1993); the cut at 3: Leys et al., J. Exp. Soc. Psychol. 49 (2013) 764-766. Since ranks of one
    fleet can agree so well that the MAD is almost zero, callers also state a least distance.
    """
    if len(values) < LEAST_VALUES:
        return None
    median = statistics.median(values)
    deviation = statistics.median(abs(value - median) for value in values)
    return Spread(median, _MAD_TO_SIGMA * deviation, len(values))
