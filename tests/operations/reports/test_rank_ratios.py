"""Ratios by recording, however they arrive."""

from __future__ import annotations

import random

from tuning_registry.operations.reports.rank_ratios import Ratios


def test_every_ratio_reaches_its_recording_whoever_timed_what() -> None:
    rng = random.Random(5)
    made, plain = Ratios(range(20)), dict[int, list[float]]({one: [] for one in range(20)})
    for number in range(200):
        recordings = list(range(20)) if number % 3 else rng.sample(range(20), rng.randrange(1, 20))
        ratios = [rng.random() for _ in recordings]
        made.add(recordings, ratios)
        for recording, ratio in zip(recordings, ratios, strict=True):
            plain[recording].append(ratio)
        if number in {10, 150}:
            made.by_recording()  # an early reader takes nothing away
    found = made.by_recording()
    assert {one: sorted(ratios) for one, ratios in found.items()} == {one: sorted(its) for one, its in plain.items()}
