"""Shape keys that resemble one another, and in which fields they differ; likewise names of kernels. Pure functions."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from tuning_registry.model.names import bare_name, is_positional, lookup_key, positional_key, split_key

SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two keys differ.

    Attributes:
        field: Name of the value, `?` without one, `dtype 2` for the second tensor argument.
        asked, recorded: Its two values as the keys spell them; empty where a key lacks the field.
    """

    field: str
    asked: str
    recorded: str

    @property
    def distance(self) -> float:
        """From 0 to 1: how far apart two numbers of one sign are, as a share of the larger; 1 for everything else."""
        try:
            asked, recorded = float(self.asked), float(self.recorded)
        except ValueError:
            return 1.0
        larger = max(abs(asked), abs(recorded))
        near = abs(asked - recorded) / larger if larger > 0 else 0.0
        return near if near <= 1 else 1.0  # also for NaN


@dataclass(frozen=True, slots=True)
class NearKey:
    """A recorded key and what sets it apart from the one that was asked for."""

    key: str
    differences: tuple[Difference, ...]


def is_same_key(one: str, other: str) -> bool:
    """Whether two keys are one: equal in lookup spelling; by position where one came without names."""
    if is_positional(one) or is_positional(other):
        return positional_key(one) == positional_key(other)
    return lookup_key(one) == lookup_key(other)


def nearest_keys(asked: str, recorded: Iterable[str], count: int = SHOWN) -> list[NearKey]:
    """The recorded keys that differ least: in the fewest fields, then by the closest numbers, then by text."""
    found = [NearKey(key, differences(asked, key)) for key in set(recorded)]
    return sorted(found, key=_least_first)[:count]


def _least_first(near: NearKey) -> tuple[int, float, bytes]:
    return (len(near.differences), sum(one.distance for one in near.differences), near.key.encode())


def differences(asked: str, recorded: str) -> tuple[Difference, ...]:
    """The fields in which two keys differ: values by name (by position where a key has no names), dtypes by place."""
    by_position = is_positional(asked) or is_positional(recorded)
    wanted, found = _fields(asked, by_position=by_position), _fields(recorded, by_position=by_position)
    names = dict.fromkeys((*wanted, *found))
    return tuple(
        Difference(_shown_name(name), wanted.get(name, ("", ""))[1], found.get(name, ("", ""))[1])
        for name in names
        if wanted.get(name, ("", ""))[0] != found.get(name, ("", ""))[0]
    )


def _fields(key: str, *, by_position: bool) -> dict[tuple[str, int], tuple[str, str]]:
    """`{(name, place): (value in lookup spelling, value as it stands)}`; the place only tells equal names apart."""
    fields: dict[tuple[str, int], tuple[str, str]] = {}
    dtypes = values = 0
    seen: Counter[str] = Counter()
    for plain, shown in zip_longest(split_key(lookup_key(key)), split_key(key), fillvalue=""):
        name, equals, value = plain.partition("=")
        if not equals:
            dtypes += 1
            fields["dtype", dtypes] = (plain, shown)
        else:
            values += 1
            place = values if by_position else seen[name]
            seen[name] += 1
            fields["?" if by_position else name, place] = (value, shown.partition("=")[2])
    return fields


def _shown_name(name: tuple[str, int]) -> str:
    what, place = name
    return f"{what} {place}" if what in {"dtype", "?"} else what


def similar_names(asked: str, recorded: Sequence[str]) -> list[str]:
    """Recorded kernels whose full or function name is close to the one that was asked for, the closest first."""
    bare: dict[str, list[str]] = {}
    for name in recorded:
        bare.setdefault(bare_name(name), []).append(name)
    same = bare.get(bare_name(asked), [])
    close = difflib.get_close_matches(asked, recorded, n=SHOWN, cutoff=0.75)
    close_bare = difflib.get_close_matches(bare_name(asked), bare, n=SHOWN, cutoff=0.6)
    return list(dict.fromkeys([*same, *close, *(name for short in close_bare for name in bare[short])]))[:SHOWN]
