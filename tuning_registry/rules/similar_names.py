"""Recorded names that resemble the one a user asked for. Pure functions."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from tuning_registry.model.names import bare_name

_MOST: Final = 5


def similar_names(asked: str, recorded: Sequence[str]) -> list[str]:
    """Recorded kernels whose full name or function name is close to the one asked for, the closest first."""
    bare: dict[str, list[str]] = {}
    for name in recorded:
        bare.setdefault(bare_name(name), []).append(name)
    same = bare.get(bare_name(asked), [])
    close = difflib.get_close_matches(asked, recorded, n=_MOST, cutoff=0.75)
    close_bare = difflib.get_close_matches(bare_name(asked), bare, n=_MOST, cutoff=0.6)
    return list(dict.fromkeys([*same, *close, *(name for short in close_bare for name in bare[short])]))[:_MOST]
