"""Which candidates of a key each rank of a split run times.

Pure functions on texts and integers, standard library only, so that ranks agree without talking to each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tuning_registry.model.canonical import text_digest
from tuning_registry.model.names import lookup_key


def share_of(place: int, places: int, kernel: str, key: str, wanted: Iterable[tuple[str, int]]) -> list[str]:
    """The candidates that the rank at one place times, sorted.

    The candidates of a key, sorted by text, are dealt out one after the other. Kernel and key decide at which place
    dealing begins, so that over many keys every place gets about the same amount of work.

    Args:
        place: From 0 to `places` - 1.
        places: How many ranks share the work.
        kernel: Qualified kernel name.
        key: Shape key; spellings that Triton cannot tell apart are one key.
        wanted: Candidates (canonical texts), each with the number of places that should time it; more than `places`
            means all of them.
    """
    start = int(text_digest(f"{kernel}\n{lookup_key(key)}")[:8], 16)
    mine: list[str] = []
    dealt = 0
    for text, count in sorted(wanted):
        copies = min(count, places)
        if (place - start - dealt) % places < copies:
            mine.append(text)
        dealt += copies
    return mine


def still_wanted(candidates: Iterable[str], timed: Mapping[str, int], repeats: int) -> list[tuple[str, int]]:
    """The candidates that fewer ranks than wanted have timed, each with the number of ranks that are missing.

    Args:
        candidates: All candidates of the key.
        timed: How many ranks have timed each of them; those that nobody timed may be left out.
        repeats: How many ranks should time each candidate.
    """
    return [(text, repeats - timed.get(text, 0)) for text in candidates if timed.get(text, 0) < repeats]
