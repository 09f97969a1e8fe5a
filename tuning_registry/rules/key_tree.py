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
from operator import itemgetter, sub
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
    """A split of points by one of their numbers: two sides, each with the least and the greatest of that number."""

    field: int
    sides: tuple[tuple[int, int, _Node], tuple[int, int, _Node]]


_Node = _Leaf | _Branch


@dataclass(frozen=True, slots=True)
class Tree:
    """Points, with the least and the greatest of each of their numbers."""

    least: Places
    greatest: Places
    root: _Node


def build(keys: Mapping[Places, Sequence[str]]) -> Tree:
    """The tree of some keys.

    Args:
        keys: The texts of keys, sorted, by the places of their numbers: each as many as the others have. At least one.
    """
    columns = list(zip(*keys, strict=True))
    points = [(places, tuple(texts)) for places, texts in keys.items()]
    return Tree(tuple(map(min, columns)), tuple(map(max, columns)), _built(points))


def _built(points: list[_Point]) -> _Node:
    """Split by the number that varies most, in the middle, until few points are left."""
    if len(points) <= _LEAF:
        return _Leaf(tuple(points))
    columns = list(zip(*(places for places, _ in points), strict=True))
    spread = [max(column) - min(column) for column in columns]
    field = spread.index(max(spread))
    column = sorted(columns[field])
    middle = bisect.bisect_left(column, column[len(column) // 2]) or bisect.bisect_right(column, column[0])
    at = column[middle]
    below = [point for point in points if point[0][field] < at]
    above = [point for point in points if point[0][field] >= at]
    return _Branch(field, ((column[0], column[middle - 1], _built(below)), (at, column[-1], _built(above))))


def from_nearest(
    trees: Iterable[tuple[int, Tree]], asked: Places, count: int | None = None
) -> Iterator[tuple[int, str]]:
    """The keys of some trees with their distances, the nearest first; of equal ones the smaller text.

    Args:
        trees: Each with what it adds to the distance of all of its keys.
        asked: The places that distances are taken from.
        count: How many keys are wanted, by default all. These are found faster, and keys after them may be missing.
    """
    search = _Search(asked, count)
    heap = search.heap
    # A tree is looked at when nothing found so far is closer than its keys can be: most of many never are.
    later = sorted(trees, key=itemgetter(0), reverse=True)
    while heap or later:
        while later and (not heap or later[-1][0] <= heap[0][0]):
            search.begin(*later.pop())
        if not heap:
            continue
        distance, _, _, _, found, added, outside = heapq.heappop(heap)
        if isinstance(found, tuple):
            yield distance, found[0]
            if found[1:]:
                search.push(distance, found[1], found[1:], added, outside)
        elif isinstance(found, _Leaf):
            search.open_leaf(found, added)
        else:
            search.open_branch(found, distance, added, outside)


class _Search:
    """The parts of trees and the keys that a search has still to look at.

    Attributes:
        heap: Distance or least distance; whether it is a key, since a part at that distance may hold one with a smaller
            text; text; number; a part of a tree or the texts at one point; what the tree adds; how far the part is from
            each number that is asked for.
    """

    def __init__(self, asked: Places, count: int | None) -> None:
        self.heap: list[tuple[int, bool, str, int, _Node | tuple[str, ...], int, Places]] = []
        self._asked = asked
        self._count = count
        self._nowhere = (0,) * len(asked)
        self._number = itertools.count()  # keeps entries that are equal so far from being compared any further
        self._closest: list[int] = []  # the least distances so far, as many as are wanted
        self._furthest = math.inf

    def push(self, distance: int, text: str, found: _Node | tuple[str, ...], added: int, outside: Places) -> None:
        """Keep a part of a tree, without a text, or the keys at one point for later."""
        heapq.heappush(self.heap, (distance, isinstance(found, tuple), text, next(self._number), found, added, outside))

    def begin(self, added: int, tree: Tree) -> None:
        """Look at a tree."""
        if added > self._furthest:
            return
        if isinstance(tree.root, _Leaf):
            self.open_leaf(tree.root, added)
            return
        bounds = zip(self._asked, tree.least, tree.greatest, strict=True)
        outside = tuple(max(least - at, at - greatest, 0) for at, least, greatest in bounds)
        self.push(added + sum(outside), "", tree.root, added, outside)

    def open_leaf(self, leaf: _Leaf, added: int) -> None:
        """Look at its keys."""
        asked, furthest = self._asked, self._furthest
        for places, texts in leaf.points:
            apart = added + sum(map(abs, map(sub, asked, places)))
            if apart <= furthest:
                heapq.heappush(self.heap, (apart, True, texts[0], next(self._number), texts, added, self._nowhere))
                if self._count is not None:
                    bisect.insort(self._closest, apart)
                    del self._closest[self._count :]
                    if len(self._closest) == self._count:
                        furthest = self._furthest = self._closest[-1]

    def open_branch(self, branch: _Branch, distance: int, added: int, outside: Places) -> None:
        """Look at its sides that may hold a key that is wanted."""
        field = branch.field
        at, known = self._asked[field], outside[field]
        for low, high, side in branch.sides:
            beyond = low - at if at < low else at - high if at > high else 0
            at_least = distance - known + beyond
            if at_least <= self._furthest:
                moved = outside if beyond == known else (*outside[:field], beyond, *outside[field + 1 :])
                self.push(at_least, "", side, added, moved)
