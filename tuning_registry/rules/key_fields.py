"""The fields of a shape key as the rule for unseen keys compares them: numbers by ratio, everything else by equality.

Pure, standard library only. A number's place is on a logarithmic scale in whole steps, computed with integers, so that
it is the same on every machine.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from operator import add, sub
from typing import Final

from tuning_registry.model.names import UNNAMED, lookup_key, split_key

OCTAVE: Final = 64  # steps for a factor of two
FIELD_APART: Final = 2 * OCTAVE  # what an unequal field adds to a distance: as much as a ratio of 4 in a number
# Triton compiles a kernel anew, with wider loads, if an argument is a multiple of 16.
_WIDE: Final = 16
_WIDE_APART: Final = OCTAVE // 2

_ZERO: Final = -2 * OCTAVE  # the place of 0: as far below 1 as 1/4 is
_BELOW_ZERO: Final = -64 * OCTAVE
_DTYPES: Final = "|"  # names the dtypes; no argument has a bar in its name
_MOST_DIGITS: Final = 20  # longer numbers are not sizes; they are compared as texts
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,2})?")
_FLAG: Final = re.compile(r"(?:^|(?<=\|))([^|=\\?]+)=(?:True|False)(?=\||$)")
_FLAGS: Final = {"True": "1", "False": "0"}


@dataclass(frozen=True, slots=True)
class Fields:
    """A key's fields.

    Attributes:
        others: Name and text of each field that is not a number. The dtypes are one field: an optional tensor moves all
            that come after it.
        numbers: The names of the numbers.
        places: Two for each number: where it is on the logarithmic scale, in steps, and whether 16 divides it.
    """

    others: tuple[tuple[str, str], ...]
    numbers: tuple[str, ...]
    places: tuple[int, ...]

    def unequal(self, others: tuple[tuple[str, str], ...]) -> list[str]:
        """The names of the fields that are not numbers and that differ from these, or are on one side only."""
        if self.others == others:
            return []
        one, two = dict(self.others), dict(others)
        return [name for name in {**one, **two} if one.get(name) != two.get(name)]

    def apart(self, other: Fields) -> dict[str, int]:
        """How far two keys with the same numbers are apart in each field, in steps; equal fields may be missing."""
        found = dict.fromkeys(self.unequal(other.others), FIELD_APART)
        steps = list(map(abs, map(sub, self.places, other.places)))
        found.update(zip(self.numbers, map(add, steps[::2], steps[1::2]), strict=True))
        return found


class FieldReader:
    """Reads the keys of one kernel: a field that is True or False in one of them is a flag in every key.

    Args:
        keys: The recorded keys.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._flags = {name for key in keys for name in _FLAG.findall(key)}
        self._known: dict[str, tuple[str, str, tuple[int, int] | None]] = {}

    def fields(self, key: str) -> Fields:
        """The fields of a key."""
        others: list[tuple[str, str]] = []
        dtypes: list[str] = []
        numbers: list[str] = []
        places: list[int] = []
        for position, field in enumerate(split_key(key)):
            name, text, place = self._known.get(field) or self._read(field)
            if place is not None:
                numbers.append(name + str(position) if name == UNNAMED else name)
                places += place
            elif name == _DTYPES:
                dtypes.append(text)
            else:
                others.append((name + str(position) if name == UNNAMED else name, text))
        return Fields((*others, (_DTYPES, "|".join(dtypes))), tuple(numbers), tuple(places))

    def _read(self, field: str) -> tuple[str, str, tuple[int, int] | None]:
        name, equals, value = field.partition("=")
        if not equals:
            name, value = _DTYPES, field
        plain = _FLAGS.get(value, value)
        number = None if name == _DTYPES or name in self._flags else _number_of(plain)
        places = None if number is None else (_place(number), _WIDE_APART * (number % _WIDE == 0))
        read = self._known[field] = (name, lookup_key(plain) if "(" in plain else plain, places)
        return read


def place_of(value: str) -> int | None:
    """The position of a number on the logarithmic scale, in whole steps; None if the text is not a number."""
    number = _number_of(value)
    return None if number is None else _place(number)


def _number_of(value: str) -> int | Fraction | None:
    if value.isdecimal() and len(value) <= _MOST_DIGITS and value.isascii():
        return int(value)
    return Fraction(value) if _NUMBER.fullmatch(value) else None


def _place(number: int | Fraction) -> int:
    if number == 0:
        return _ZERO
    steps = log2_steps(abs(number.numerator), number.denominator)
    return steps if number > 0 else _BELOW_ZERO - steps


@functools.lru_cache(maxsize=4096)
def log2_steps(numerator: int, denominator: int) -> int:
    """`floor(OCTAVE * log2(numerator / denominator))`, exactly, of positive integers."""
    ratio: int
    if numerator >= denominator:
        ratio = numerator**OCTAVE // denominator**OCTAVE
        return ratio.bit_length() - 1
    ratio = -(-(denominator**OCTAVE) // numerator**OCTAVE)  # rounded up: just above a power of two is the next step
    return -(ratio - 1).bit_length()
