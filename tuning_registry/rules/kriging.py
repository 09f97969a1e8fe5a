"""How much each of some known points says about a new one, from distances alone: ordinary kriging, in whole numbers.

Pure, standard library only. The unknown quantity varies like a random walk: the variance of the difference of two
points is twice their distance, plus noise at each point. The shares are the weights of the best linear estimate
without bias. They add up to 1. Points close together share what one of them would have, and a point behind another
one can have a share below 0. The system is solved exactly (Bareiss, "Sylvester's identity and multistep
integer-preserving Gaussian elimination", 1968).
"""

from __future__ import annotations

from collections.abc import Sequence


def shares(to_new: Sequence[int], between: Sequence[Sequence[int]], noise: int) -> tuple[list[int], int]:
    """The share of each known point, as numerators and their common denominator, which is positive.

    Args:
        to_new: The distance of each known point to the new one; at least one.
        between: The distances of the known points to each other.
        noise: The variance of the noise at each known point; positive.
    """
    # All points are taken relative to the first one, so that the mean does not matter.
    first = between[0]
    rows = [
        [
            2 * (first[i] + noise),
            *(first[i] + first[j] - between[i][j] + noise for j in range(i + 1, len(to_new))),
            to_new[0] + first[i] - to_new[i] + noise,
        ]
        for i in range(1, len(to_new))
    ]
    found, denominator = _solved(rows)
    return [denominator - sum(found), *found], denominator


def _solved(rows: list[list[int]]) -> tuple[list[int], int]:
    """The solution of a positive definite system as numerators and their denominator.

    Args:
        rows: Of the symmetric matrix from the diagonal on, each followed by the right side.
    """
    last = 1
    for index, top in enumerate(rows):
        pivot = top[0]
        for below in range(index + 1, len(rows)):
            factor = top[below - index]
            rows[below] = [(pivot * a - factor * b) // last
                           for a, b in zip(rows[below], top[below - index :], strict=True)]  # fmt: skip
        last = pivot
    found = [0] * len(rows)
    for index in reversed(range(len(rows))):
        pivot, *others, right = rows[index]
        known = sum(a * b for a, b in zip(others, found[index + 1 :], strict=True))
        found[index] = (last * right - known) // pivot
    return found, last
