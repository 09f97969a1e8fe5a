"""Some ranks in one process, for `hand_in_faults.py`: they hand in one state after another, as a training job does.

usage: hand_in_rank.py URL FIRST_RANK RANKS STATES ENTRIES_OF_A_STATE

Prints each rank and state before it is handed in, and once it is. Loads nothing that a training job does not load.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

from tuning_registry.formats.hand_ins import pack_hand_in
from tuning_registry.runtime.recording.hand_in import HandIn

CANDIDATES = [{"kwargs": {"B": size}, "num_warps": 4, "num_stages": 3} for size in (64, 32)]


def document_of(rank: int, entries: int) -> dict[str, Any]:
    """The recording of a rank: votes for the first candidate, and the timings of both."""
    keys = [f"M={number}" for number in range(entries)]
    timings = {key: [[one, times_of(rank, key, place)] for place, one in enumerate(CANDIDATES)] for key in keys}
    return {"format": "tuning-registry recording", "version": 2, "id": f"{rank:032x}", "run": "job", "rank": rank,
            "votes": {"sm90": {"pkg.k": dict.fromkeys(keys, CANDIDATES[0])}}, "timings": {"sm90": {"pkg.k": timings}}}  # fmt: skip


def times_of(rank: int, key: str, place: int) -> tuple[float, float, float]:
    """Median and percentiles of a candidate, different for every rank and key."""
    median = 1 + place + rank / 1000 + int(key.removeprefix("M=")) / 100_000
    return median, median - 0.001, median + 0.002


def main(url: str, first: int, count: int, states: int, entries: int) -> None:
    for state in range(1, states + 1):
        for rank in range(first, first + count):
            payload = pack_hand_in([json.dumps(document_of(rank, state * entries)).encode()])
            print("tries", rank, state, flush=True)
            while not HandIn(url, lambda: payload, lambda: False).finish():  # noqa: B023 - called within the loop's turn
                time.sleep(0.1)
            print("has", rank, state, flush=True)
            time.sleep(random.uniform(0, 0.05))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
