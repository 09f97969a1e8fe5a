"""Which candidate a kernel launches for an unseen key: a rule on recorded keys and measured slowdowns.

Pure functions on texts and integers, standard library only: logarithms are counted in whole steps and everything else
is whole numbers, so every machine, thread and order of keys or candidates gives the same answer.

**Distance.** Every field of a key that is a number has a place on a logarithmic scale, in 64ths of an octave, rounded
down. The distance of two keys is the sum over these fields of the difference of the places, so it depends on ratios:
128 and 256 are one octave apart, as are 4096 and 8192. A number that 16 divides is half an octave away from one that
it does not divide. Fields that are not numbers (flags, strings, and the dtypes as one) are equal or not; each unequal
one adds two octaves. Keys whose numbers have other names are never compared. Of keys at one distance the one with the
smaller text is nearer.

**Without slowdowns** the nearest key's winner comes first, then the next nearest key's winner, and so on.

**With slowdowns** each field's part of the distance has a weight, learned from the slowdowns (`field_weights`). On
each of the `NEIGHBOURS` nearest keys a candidate has a cost: the logarithm of its time over the fastest one's, at most
an octave. The costs are interpolated at the new key (`kriging`), and the candidate of the least cost comes first; of
equal ones the nearest key's winner, then the smaller text. A candidate that failed on a key, or that nobody timed
there, counts as twice as slow.

Candidates that no recorded key suggests come last, in the order in which they are given: cheapest estimate first.

docs/decisions.md, D60, says what else was tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add, mul, ne, sub
from typing import Final

from tuning_registry.model.names import ANY_KEY, is_positional, positional_key
from tuning_registry.model.slowdowns import FAILED, MOST_PERCENT, Slowdowns
from tuning_registry.rules.field_weights import EVEN, learned_weights, sampled
from tuning_registry.rules.key_fields import FIELD_APART, OCTAVE, FieldReader, Fields, log2_steps
from tuning_registry.rules.key_tree import Tree, build, from_nearest
from tuning_registry.rules.kriging import shares

NEIGHBOURS: Final = 12
_NOISE: Final = EVEN * 2 * OCTAVE  # the noise of a key's slowdowns is worth as much as two octaves of distance
_MOST_COST: Final = OCTAVE  # being slower than by a factor of two is as bad as failing
_NO_TIMES_COST: Final = OCTAVE // 3  # assumed of the candidates that did not win, on a key without any times: 26 %

_Scored = tuple[int, bool, bytes, str]  # cost, and what decides between equal costs; the last one is the candidate
_Others = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates in the order in which they should be tried.

    Attributes:
        candidates: Canonical texts, the best first: all that were given.
        known: How many of them a recorded key suggests; the rest follow in the order in which they were given.
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
        slowdowns: By key, if known. Those of keys without a winner are ignored.
    """

    def __init__(self, winners: Mapping[str, str], slowdowns: Mapping[str, Slowdowns] | None = None) -> None:
        self._winners = {key: winners[key] for key in sorted(winners) if key != ANY_KEY}
        self._slowdowns = slowdowns or {}
        timed = {key for key in self._slowdowns if key in self._winners}
        self._has_times = bool(timed)
        # One key without names, as Triton's cache files have them, and all are compared by position.
        self._by_position = any(map(is_positional, self._winners))
        self._reader = FieldReader(() if self._by_position else self._winners)
        by_numbers: dict[tuple[str, ...], dict[str, Fields]] = {}
        for key in self._winners:
            fields = self._fields(key)
            by_numbers.setdefault(fields.numbers, {})[key] = fields
        self._families = {
            numbers: _Family(keys, self._slowdowns, [key for key in keys if key in timed])
            for numbers, keys in by_numbers.items()
        }

    def rank(self, key: str, candidates: Sequence[str], count: int | None = None) -> Ranking:
        """Order the candidates for a new key, the best first.

        Args:
            key: Its text.
            candidates: Canonical texts of what pruning and bans left, the cheapest estimate first.
            count: How many are wanted, by default all. These are found faster, and `known` may be smaller.
        """
        if self._has_times:
            ordered, nearest = self._by_slowdown(key, candidates)
        else:
            ordered, nearest = self._by_winner(key, candidates, count)
        known = set(ordered)
        return Ranking((*ordered, *(text for text in candidates if text not in known)), len(ordered), nearest)

    def estimates(self, key: str, candidates: Sequence[str]) -> dict[str, float]:
        """How many percent slower than the fastest one each candidate is expected to be, for people to read.

        Only those that one of the nearest keys suggests; none if no slowdowns are known, or no key can be compared.
        The figure can be below 0, since a trend among the keys is followed.
        """
        scored, _, denominator = self._scored(key, candidates) if self._has_times else ([], "", 1)
        return {text: 100 * (2 ** (score / denominator / OCTAVE) - 1) for score, *_, text in scored}

    def from_nearest(self, key: str) -> Iterator[tuple[int, str]]:
        """The recorded keys that can be compared, with their distances, the nearest first.

        A distance is counted in steps times the weights of fields.
        """
        asked = self._fields(key)
        family = self._families.get(asked.numbers)
        return family.from_nearest(asked) if family else iter(())

    def _by_winner(self, key: str, candidates: Sequence[str], count: int | None) -> tuple[list[str], str]:
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
                if not left or len(ordered) == count:
                    break
        return ordered, nearest

    def _by_slowdown(self, key: str, candidates: Sequence[str]) -> tuple[list[str], str]:
        """The candidates that one of the nearest keys suggests, by their interpolated cost."""
        scored, nearest, _ = self._scored(key, candidates)
        return [text for *_, text in sorted(scored)], nearest

    def _scored(self, key: str, candidates: Sequence[str]) -> tuple[list[_Scored], str, int]:
        """These candidates with their interpolated costs, the nearest key, and the denominator of the costs."""
        asked = self._fields(key)
        family = self._families.get(asked.numbers)
        if family is None:
            return [], "", 1
        near = list(itertools.islice(family.from_nearest(asked, NEIGHBOURS), NEIGHBOURS))
        keys = [found for _, found in near]
        portions, denominator = shares([distance for distance, _ in near], family.distances(keys), _NOISE)
        scores = [0] * len(candidates)
        known: set[str] = set()
        for portion, found in zip(portions, keys, strict=True):
            row = self._slowdowns.get(found)
            known.update((self._winners[found],) if row is None else row)
            costs = self._costs(found, row, candidates)
            scores = list(map(add, scores, map(mul, itertools.repeat(portion), costs)))
        first = self._winners[keys[0]]
        scored = [(score, text != first, text.encode(), text)
                  for score, text in zip(scores, candidates, strict=True) if text in known]  # fmt: skip
        return scored, keys[0], denominator

    def _costs(self, key: str, row: Slowdowns | None, candidates: Sequence[str]) -> list[int]:
        """What the candidates cost on a recorded key."""
        if row is None:
            return [0 if text == self._winners[key] else _NO_TIMES_COST for text in candidates]
        percent = row.get
        return [_COSTS[percent(text, FAILED)] for text in candidates]

    def _fields(self, key: str) -> Fields:
        return self._reader.fields(positional_key(key) if self._by_position else key)


class _Family:
    """Recorded keys whose numbers have the same names, so that they can be compared.

    Args:
        keys: The fields of each, sorted by the keys' texts.
        slowdowns: By key, where they are known.
        timed: Those of the keys whose slowdowns are known, in the same order.
    """

    def __init__(self, keys: Mapping[str, Fields], slowdowns: Mapping[str, Slowdowns], timed: Sequence[str]) -> None:
        self._keys = keys
        chosen = sampled(timed)
        costs = [{text: _COSTS[percent] for text, percent in slowdowns[key].items()} for key in chosen]
        self._weights = learned_weights([keys[key] for key in chosen], costs)
        names = next(iter(keys.values())).numbers
        self._scale = [self._weight(name) for name in names for _ in range(2)]
        groups: dict[_Others, dict[tuple[int, ...], list[str]]] = {}
        for key, fields in keys.items():
            groups.setdefault(fields.others, {}).setdefault(self._scaled(fields), []).append(key)
        # By the names of the fields that are not numbers, which are usually the same in all keys; then by their texts.
        self._groups: dict[tuple[str, ...], dict[tuple[str, ...], Tree]] = {}
        for others, points in groups.items():
            named, texts = zip(*others, strict=True)
            self._groups.setdefault(named, {})[texts] = build(points)

    def from_nearest(self, asked: Fields, count: int | None = None) -> Iterator[tuple[int, str]]:
        """The keys with their distances, the nearest first; after `count` keys some may be missing."""
        return from_nearest(self._trees(asked), self._scaled(asked), count)

    def _trees(self, asked: Fields) -> Iterator[tuple[int, Tree]]:
        """The trees of all keys, each with what fields that are not numbers add to the distance of its keys."""
        names, texts = zip(*asked.others, strict=True)
        weights = [FIELD_APART * self._weight(name) for name in names]
        for named, groups in self._groups.items():
            if named == names and len(set(names)) == len(names):
                yield from ((sum(map(mul, weights, map(ne, texts, own))), tree) for own, tree in groups.items())
            else:
                yield from (
                    (self._added(asked, tuple(zip(named, own, strict=True))), tree) for own, tree in groups.items()
                )

    def distances(self, keys: Sequence[str]) -> list[list[int]]:
        """The distances of some of the keys to each other."""
        points = [(self._keys[key], self._scaled(self._keys[key])) for key in keys]
        table = [[0] * len(keys) for _ in keys]
        for one, (fields, places) in enumerate(points):
            for two, (others, far) in enumerate(points[:one]):
                steps = sum(map(abs, map(sub, places, far)))
                if fields.others != others.others:
                    steps += self._added(fields, others.others)
                table[one][two] = table[two][one] = steps
        return table

    def _added(self, fields: Fields, others: _Others) -> int:
        return FIELD_APART * sum(map(self._weight, fields.unequal(others)))

    def _weight(self, name: str) -> int:
        return self._weights.get(name, EVEN)

    def _scaled(self, fields: Fields) -> tuple[int, ...]:
        return tuple(map(mul, self._scale, fields.places))


# By percent; the last one is also that of FAILED, which is -1.
_COSTS: Final = tuple(min(log2_steps(100 + percent, 100), _MOST_COST) for percent in range(MOST_PERCENT + 1))
