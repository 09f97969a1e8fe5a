"""A k-d tree of recorded keys: the nearest first, without a look at every key.

Pure, standard library only. A distance is the sum of the differences of whole numbers, so it is exact.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import sub
from typing import Final

_LEAF: Final = 8

Places = tuple[int, ...]
_Point = tuple[Places, tuple[str, ...]]  # keys at the same places, by text


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A few points."""

    points: tuple[_Point, ...]


@dataclass(frozen=True, slots=True)
class _Branch:
    """A split of points by one of their numbers: those before `at`, and those from it on."""

    field: int
    at: int
    below: Tree
    above: Tree


Tree = _Leaf | _Branch


def build(keys: Mapping[Places, Sequence[str]]) -> Tree:
    """The tree of some keys.

    Args:
        keys: The texts of keys, sorted, by the places of their numbers: each as many as the others have.
    """
    return _built([(places, tuple(texts)) for places, texts in keys.items()])


def _built(points: list[_Point]) -> Tree:
    """Split by the number that varies most, in the middle, until few points are left."""
    if len(points) <= _LEAF:
        return _Leaf(tuple(points))
    columns = list(zip(*(places for places, _ in points), strict=True))
    spread = [max(column) - min(column) for column in columns]
    field = spread.index(max(spread))
    column = sorted(columns[field])
    at = column[len(column) // 2]
    if at == column[0]:
        at = next(value for value in column if value > at)
    below = [point for point in points if point[0][field] < at]
    above = [point for point in points if point[0][field] >= at]
    return _Branch(field, at, _built(below), _built(above))


def from_nearest(
    trees: Iterable[tuple[int, Tree]], asked: Places, count: int | None = None
) -> Iterator[tuple[int, str]]:
    """The keys of some trees with their distances, the nearest first; of equal ones the smaller text.

    Args:
        trees: Each with what it adds to the distance of all of its keys.
        asked: The places that distances are taken from.
        count: How many keys are wanted, by default all. These are found faster, and keys after them may be missing.
    """
    number = itertools.count()  # keeps entries of the heap that are equal so far from being compared any further
    nowhere = (0,) * len(asked)
    # Distance or least distance; whether it is a key, since a tree at that distance may hold one with a smaller text;
    # text; number; a tree or the texts at one point; what the tree adds; how far all of it is from each number.
    heap: list[tuple[int, bool, str, int, Tree | tuple[str, ...], int, Places]] = [
        (added, False, "", next(number), tree, added, nowhere) for added, tree in trees
    ]
    heapq.heapify(heap)
    push = heapq.heappush
    closest: list[int] = []  # the least distances so far, as many as are wanted
    furthest = math.inf
    while heap:
        distance, _, _, _, found, added, outside = heapq.heappop(heap)
        if isinstance(found, tuple):
            yield distance, found[0]
            if found[1:]:
                push(heap, (distance, True, found[1], next(number), found[1:], added, outside))
        elif isinstance(found, _Leaf):
            for places, texts in found.points:
                apart = added + sum(map(abs, map(sub, asked, places)))
                if apart <= furthest:
                    push(heap, (apart, True, texts[0], next(number), texts, added, nowhere))
                    if count is not None:
                        bisect.insort(closest, apart)
                        del closest[count:]
                        furthest = closest[-1] if len(closest) == count else furthest
        else:
            field = found.field
            beyond = asked[field] - found.at
            near, far = (found.below, found.above) if beyond < 0 else (found.above, found.below)
            push(heap, (distance, False, "", next(number), near, added, outside))
            least = max(outside[field], abs(beyond))
            at_least = distance - outside[field] + least
            if at_least <= furthest:
                moved = (*outside[:field], least, *outside[field + 1 :])
                push(heap, (at_least, False, "", next(number), far, added, moved))
