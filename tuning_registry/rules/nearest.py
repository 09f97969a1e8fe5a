"""Which candidate a kernel launches for a key that nobody recorded: a rule on recorded keys and measured slowdowns.

Pure functions on texts and integers, standard library only: logarithms are counted in whole steps and weights are whole
numbers, so every machine, thread and order of keys or candidates gives the same answer.

**Distance.** Every field of a key that is a number has a place on a logarithmic scale, in 64ths of an octave, rounded
down. The distance of two keys is the sum over these fields of the difference of the places, so it depends on ratios:
128 and 256 are one octave apart, as are 4096 and 8192. Fields that are not numbers (flags, strings, and the dtypes as
one) are equal or not; each unequal one adds `FIELD_APART`. Keys whose numbers have other names are never compared. Of
keys at one distance the one with the smaller text is nearer.

**Without slowdowns** the nearest key's winner comes first, then the next nearest key's winner, and so on.

**With slowdowns** each of the `NEIGHBOURS` nearest keys gives a candidate a cost, its slowdown there in percent, at most
`MOST_COST`. A key that is one octave further away than the nearest counts a quarter, one that is two octaves further a
sixteenth, and so on. The candidate of the least summed cost comes first; of equal ones the nearest key's winner, then
the smaller text. A candidate that failed on a key, or that nobody timed there, has a fixed high cost.

Candidates that no recorded key speaks for come last, in the order in which they are given: cheapest estimate first.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tuning_registry.model.names import ANY_KEY, is_positional, positional_key
from tuning_registry.model.slowdowns import Slowdowns
from tuning_registry.rules.key_fields import OCTAVE, FieldReader
from tuning_registry.rules.key_tree import Tree, build, from_nearest

NEIGHBOURS: Final = 24
FIELD_APART: Final = 2 * OCTAVE  # as much as a ratio of 4 in a number
HALVING: Final = OCTAVE // 2  # the distance over which a key's weight halves
_WEIGHT_BITS: Final = 48
MOST_COST: Final = 300  # percent: being slower than by a factor of four is as bad as failing
_UNTIMED_PERCENT: Final = 100  # assumed of a candidate that nobody timed on a key, or that was pruned there
_NO_TIMES_PERCENT: Final = 25  # assumed of the candidates that did not win, on a key without any times

_Group = tuple[bool, tuple[tuple[str, str], ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates in the order in which they should be tried.

    Attributes:
        candidates: Canonical texts, the best first: all that were given.
        known: How many of them a recorded key speaks for; the rest follow in the order in which they were given.
        nearest: The recorded key that is nearest (without slowdowns: whose winner comes first), or empty if none can
            be compared.
    """

    candidates: tuple[str, ...]
    known: int
    nearest: str


class RecordedKeys:
    """The recorded keys of one kernel, prepared so that candidates are ranked for a new key in far less than 1 ms.

    Args:
        winners: Canonical text of the winner by key.
        slowdowns: By key, where they are known. Those of keys without a winner are ignored.
    """

    def __init__(self, winners: Mapping[str, str], slowdowns: Mapping[str, Slowdowns] | None = None) -> None:
        self._winners = {key: winners[key] for key in sorted(winners) if key != ANY_KEY}
        self._slowdowns = {key: row for key, row in (slowdowns or {}).items() if key in self._winners}
        # Keys without names, as Triton's cache files have them, are compared by position, flags as the numbers 0 and 1.
        self._readers = {False: FieldReader(self._winners), True: FieldReader(())}
        groups: dict[_Group, dict[tuple[int, ...], list[str]]] = {}
        for key in self._winners:
            by_position = is_positional(key)
            fields = self._readers[by_position].fields(positional_key(key) if by_position else key)
            group = groups.setdefault((by_position, fields.others, fields.numbers), {})
            group.setdefault(fields.places, []).append(key)
        self._groups: dict[_Group, Tree] = {group: build(keys) for group, keys in groups.items()}

    def rank(self, key: str, candidates: Sequence[str]) -> Ranking:
        """Order the candidates for a new key, the best first.

        Args:
            key: Its text.
            candidates: Canonical texts of what pruning and bans left, the cheapest estimate first.
        """
        ordered, nearest = self._by_slowdown(key, candidates) if self._slowdowns else self._by_winner(key, candidates)
        known = set(ordered)
        return Ranking((*ordered, *(text for text in candidates if text not in known)), len(ordered), nearest)

    def _by_winner(self, key: str, candidates: Sequence[str]) -> tuple[list[str], str]:
        """The winners of the recorded keys, of the nearest key first."""
        left = set(candidates).intersection(self._winners.values())
        ordered: list[str] = []
        nearest = ""
        for _, near in self.from_nearest(key) if left else ():
            winner = self._winners[near]
            if winner in left:
                nearest = nearest or near
                left.remove(winner)
                ordered.append(winner)
                if not left:
                    break
        return ordered, nearest

    def _by_slowdown(self, key: str, candidates: Sequence[str]) -> tuple[list[str], str]:
        """The candidates that one of the nearest keys speaks for, by their summed cost."""
        near = list(itertools.islice(self.from_nearest(key), NEIGHBOURS))
        scores = [0] * len(candidates)
        known: set[str] = set()
        for distance, found in near:
            row = self._slowdowns.get(found)
            otherwise = _UNTIMED_PERCENT
            if row is None:
                row, otherwise = {self._winners[found]: 0}, _NO_TIMES_PERCENT
            weight = weight_of(distance - near[0][0])
            known.update(row)
            percents = [row.get(text, otherwise) for text in candidates]
            scores = [score + weight * (percent if 0 <= percent < MOST_COST else MOST_COST)
                      for score, percent in zip(scores, percents, strict=True)]  # fmt: skip
        first = self._winners[near[0][1]] if near else ""
        ordered = sorted((score, text != first, text.encode(), text)
                         for score, text in zip(scores, candidates, strict=True) if text in known)  # fmt: skip
        return [text for *_, text in ordered], near[0][1] if near else ""

    def from_nearest(self, key: str) -> Iterator[tuple[int, str]]:
        """The recorded keys that can be compared, with their distances in steps, the nearest first."""
        found = []
        for by_position, reader in self._readers.items():
            asked = reader.fields(positional_key(key) if by_position else key)
            trees = [(FIELD_APART * asked.unequal(others), tree)
                     for (kind, others, numbers), tree in self._groups.items()
                     if kind == by_position and numbers == asked.numbers]  # fmt: skip
            if trees:
                found.append(from_nearest(trees, asked.places))
        return found[0] if len(found) == 1 else heapq.merge(*found)


def weight_of(further: int) -> int:
    """The weight of a key that is so many steps further away than the nearest: a half for each `HALVING`."""
    return _weights()[further % HALVING] >> (further // HALVING)


@functools.cache
def _weights() -> tuple[int, ...]:
    """`floor(2 ** (_WEIGHT_BITS - step / HALVING))` for the steps from 0 to less than HALVING, exactly."""
    return tuple(_root(1 << (_WEIGHT_BITS * HALVING - step)) for step in range(HALVING))


def _root(number: int) -> int:
    """The largest integer whose power of HALVING is at most `number`, which has about `_WEIGHT_BITS * HALVING` bits."""
    root = 0
    for bit in reversed(range(_WEIGHT_BITS + 1)):
        larger: int = root | 1 << bit
        if larger**HALVING <= number:
            root = larger
    return root
