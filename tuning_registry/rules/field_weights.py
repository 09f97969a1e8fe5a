"""How much each field of a kernel's keys matters, learned from the slowdowns on its recorded keys.

Pure, standard library only, whole numbers only.

For two recorded keys take the mean square of how much the candidates' costs differ. A field matters as much as that
square grows with the distance in this field: the coefficients of a least-squares fit, none below 0, with a constant
for noise. A fit of few keys is drawn to equal weights. A weight is the field's coefficient over the coefficient that
all fields share if they must have one, from an eighth to 4.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from tuning_registry.rules.key_fields import OCTAVE, Fields

EVEN: Final = 16  # the weight of a field if nothing is known
_LEAST: Final = EVEN // 8
_MOST: Final = EVEN * 4
_KEYS: Final = 32  # how many keys the fit looks at
_TO_EVEN: Final = 4  # as if every fourth of the keys told nothing but equal weights, if there are 16
_SWEEPS: Final = 30
_BITS: Final = 20  # coefficients are counted in millionths

T = TypeVar("T")


def sampled(keys: Sequence[T]) -> list[T]:
    """The keys that the weights are learned from: at most 32, evenly spaced."""
    count = min(len(keys), _KEYS)
    return [keys[index * len(keys) // count] for index in range(count)]


def learned_weights(fields: Sequence[Fields], costs: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The weights by name of a field, in 16ths; a field that is missing has the weight `EVEN`.

    Args:
        fields: Those of each of the `sampled` keys. The names of their numbers are the same.
        costs: By candidate, on each of these keys.
    """
    pairs = []
    for one, two in itertools.combinations(range(len(fields)), 2):
        both = costs[one].keys() & costs[two].keys()
        if both:
            squares = sum((costs[one][text] - costs[two][text]) ** 2 for text in both)
            pairs.append((fields[one].apart(fields[two]), squares // len(both)))
    names = sorted({name for apart, _ in pairs for name, steps in apart.items() if steps})
    return _fitted(names, pairs, len(fields)) if names else {}


def _fitted(names: list[str], pairs: list[tuple[dict[str, int], int]], keys: int) -> dict[str, int]:
    size = len(names) + 1  # the last one is the constant
    matrix = [[0] * size for _ in range(size)]
    target = [0] * size
    shared = [0, 0, 0, 0, 0]  # the sums of a fit with one coefficient for all fields
    for apart, square in pairs:
        row = [*(apart.get(name, 0) for name in names), 1]
        total = sum(row) - 1
        weight = (1 << _BITS) // (total + OCTAVE)  # near keys say more about each field
        for index, value in enumerate(row):
            if value:
                scaled = weight * value
                target[index] += scaled * square
                matrix[index] = [sum_ + scaled * other for sum_, other in zip(matrix[index], row, strict=True)]
        terms = (total * total, total, 1, total * square, square)
        shared = [sum_ + weight * term for sum_, term in zip(shared, terms, strict=True)]
    even = _shared_coefficient(*shared)
    if even <= 0:
        return {}
    target = [value << _BITS for value in target]
    for index in range(len(names)):
        drawn = _TO_EVEN * matrix[index][index] // keys
        matrix[index][index] += drawn
        target[index] += drawn * even
    found = _not_below_zero(matrix, target, [*[even] * len(names), 0])
    return {name: min(max(EVEN * value // even, _LEAST), _MOST) for name, value in zip(names, found, strict=False)}


def _shared_coefficient(steps2: int, steps: int, ones: int, products: int, squares: int) -> int:
    """The slope of a straight line through the pairs, or 0 if there is none."""
    determinant = steps2 * ones - steps * steps
    return ((products * ones - squares * steps) << _BITS) // determinant if determinant > 0 else 0


def _not_below_zero(matrix: list[list[int]], target: list[int], start: list[int]) -> list[int]:
    """Least squares with coefficients of at least 0: each in turn gets its best value, the others as they are."""
    found = list(start)
    for _ in range(_SWEEPS):
        for index, row in enumerate(matrix):
            if row[index]:
                others = sum(a * b for a, b in zip(row, found, strict=True)) - row[index] * found[index]
                found[index] = max(0, (target[index] - others) // row[index])
    return found
