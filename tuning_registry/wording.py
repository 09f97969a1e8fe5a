"""Counts, lists and slowdowns as messages word them."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

# See docs/decisions.md, D109.
_LEAST_SHOWN: Final = 0.05  # percent; less is shown as 0.0
SHOWN: Final = 5  # items that a message names before it counts the rest


def count_of(number: int, noun: str) -> str:
    """A number with its noun in the right form: `1 entry`, `1,204 entries`."""
    is_ies = noun.endswith("y") and noun[-2] not in "aeiou"
    plural = noun[:-1] + "ies" if is_ies else noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def list_some(items: Collection[str], separator: str = ", ", shown: int = SHOWN) -> str:
    """The first items, and how many more there are: `a, b, and 3 more`. `none` if there are none."""
    parts = list(items)[:shown]
    if len(items) > shown:
        parts.append(f"and {len(items) - shown:,} more")
    return separator.join(parts) or "none"


def change_text(percent: float) -> str:
    """A change of a time in words: as `slower_text`, but `equally fast` if it rounds to zero."""
    return "equally fast" if abs(percent) < _LEAST_SHOWN else slower_text(percent)


def slower_text(percent: float) -> str:
    """A slowdown in words: `12.3 % slower`, `0.4 % faster`; `fails` if it is infinite."""
    if not math.isfinite(percent):
        return "fails"
    return f"{abs(percent):.1f} % {'faster' if percent < 0 else 'slower'}"
