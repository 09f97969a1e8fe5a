"""Shape keys compared field by field. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from tuning_registry.model.globs import glob_regex, is_glob
from tuning_registry.model.names import is_positional, lookup_key, positional_key, split_key

NEAREST: Final = 5


@dataclass(frozen=True, slots=True)
class KeyFieldDifference:
    """One field in which two keys differ.

    Attributes:
        field: Name of the value; `?` if it has none; `dtype 2` for the second tensor argument.
        asked, recorded: Its value in either key, as the key spells it; empty if the key lacks the field.
    """

    field: str
    asked: str
    recorded: str

    @property
    def distance(self) -> float:
        """How far apart the values are, from 0 to 1: a share of the larger number; 1 if signs or types differ."""
        try:
            asked, recorded = float(self.asked), float(self.recorded)
        except ValueError:
            return 1.0
        larger = max(abs(asked), abs(recorded))
        near = abs(asked - recorded) / larger if larger > 0 else 0.0
        return near if near <= 1 else 1.0  # NaN compares false, so it gives 1


@dataclass(frozen=True, slots=True)
class NearKey:
    """A recorded key with the fields in which it differs from the key that was asked for."""

    key: str
    differences: tuple[KeyFieldDifference, ...]


def is_same_key(one: str, other: str) -> bool:
    """Whether two keys mean the same: equal in lookup spelling, or by position if one came without names."""
    if is_positional(one) or is_positional(other):
        return positional_key(one) == positional_key(other)
    return lookup_key(one) == lookup_key(other)


def matching_keys(asked: str, recorded: Iterable[str]) -> set[str]:
    """The recorded keys that a key or a pattern means. A key that was recorded is not a pattern."""
    every = set(recorded)
    same = {key for key in every if is_same_key(asked, key)}
    if same or is_positional(asked) or not is_glob(asked):
        return same
    matches = re.compile(glob_regex(asked)).search
    return {key for key in every if matches(key) or matches(lookup_key(key))}


# See docs/decisions.md, D35.
def nearest_keys(asked: str, recorded: Iterable[str], count: int = NEAREST) -> list[NearKey]:
    """The recorded keys that differ in the fewest fields; then those with the closest numbers, then by text."""
    found = [NearKey(key, differences(asked, key)) for key in set(recorded)]
    return sorted(found, key=_least_first)[:count]


def _least_first(near: NearKey) -> tuple[int, float, bytes]:
    return (len(near.differences), sum(one.distance for one in near.differences), near.key.encode())


def differences(asked: str, recorded: str) -> tuple[KeyFieldDifference, ...]:
    """The fields in which two keys differ: values by name, or by position if a key has no names; dtypes by place."""
    by_position = is_positional(asked) or is_positional(recorded)
    wanted, found = _fields(asked, by_position=by_position), _fields(recorded, by_position=by_position)
    names = dict.fromkeys((*wanted, *found))
    return tuple(
        KeyFieldDifference(_shown_name(name), wanted.get(name, ("", ""))[1], found.get(name, ("", ""))[1])
        for name in names
        if wanted.get(name, ("", ""))[0] != found.get(name, ("", ""))[0]
    )


def _fields(key: str, *, by_position: bool) -> dict[tuple[str, int], tuple[str, str]]:
    """`{(name, place): (value in lookup spelling, value as written)}`; the place tells equal names apart."""
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
