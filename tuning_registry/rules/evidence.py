"""What timings say about configs: gaps, costs, and the configs that policies other than the majority elect.

Pure functions, standard library only. Everywhere a config's times are `{rank: (median, p20, p80)}` in
milliseconds, None for a rank on which it failed; a rank is known by its recording's id.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tuning_registry.model.records import Times

ByRank = Mapping[int, Times | None]
ByConfig = Mapping[str, ByRank]

MAJORITY: Final = "majority"
FASTEST: Final = "fastest"
MINIMAX: Final = "minimax"
POLICIES: Final = (MAJORITY, FASTEST, MINIMAX)


@dataclass(frozen=True, slots=True)
class Gap:
    """How a config that some ranks chose compares with the winner.

    Attributes:
        gap_percent: 100 times the median, over the ranks that timed both, of its median over the winner's,
            less 1. Negative: it is faster.
        noise_percent: 100 times the median, over the same ranks, of the mean width of the two 20th-80th
            percentile ranges over the winner's median. Gaps below it are no difference.
        cost_percent: 100 times the median, over the ranks that chose it, of the winner's median over its own,
            less 1: what the winner costs them. None when none of them timed both.
        ranks: How many timed both.
    """

    gap_percent: float
    noise_percent: float
    cost_percent: float | None
    ranks: int

    @property
    def is_within_noise(self) -> bool:
        """Whether neither all ranks nor those that chose it could tell the two apart."""
        return max(abs(self.gap_percent), self.cost_percent or 0.0) <= self.noise_percent


def compare(winner: ByRank, other: ByRank, chose_other: Collection[int]) -> Gap | None:
    """The gap between the winner and another config; None when no rank timed both."""
    pairs = {rank: (w, o) for rank, w in winner.items() if w and (o := other.get(rank)) and w[0] > 0 and o[0] > 0}
    if not pairs:
        return None
    gaps = [o[0] / w[0] - 1 for w, o in pairs.values()]
    noise = [(max(0.0, w[2] - w[1]) + max(0.0, o[2] - o[1])) / 2 / w[0] for w, o in pairs.values()]
    costs = [pairs[rank][0][0] / pairs[rank][1][0] - 1 for rank in chose_other if rank in pairs]
    return Gap(
        100 * statistics.median(gaps),
        100 * statistics.median(noise),
        100 * statistics.median(costs) if costs else None,
        len(pairs),
    )


def slowdowns(winner: ByRank, chosen: Mapping[int, ByRank]) -> list[float]:
    """What the winner costs each rank in `chosen`, `{rank: times of the config it chose}`: its time over theirs, less 1."""
    found = ((winner.get(rank), own.get(rank)) for rank, own in chosen.items())
    return [w[0] / o[0] - 1 for w, o in found if w and o and w[0] > 0 and o[0] > 0]


def median_of_medians(times: ByRank) -> float:
    """The median over ranks of a config's median time in ms; a rank on which it failed counts as infinitely slow."""
    medians = sorted(math.inf if found is None else found[0] for found in times.values())
    if not medians:
        return math.inf
    below, above = medians[(len(medians) - 1) // 2], medians[len(medians) // 2]
    return below if below == above else (below + above) / 2


def worst_slowdowns(times: ByConfig) -> dict[str, float]:
    """Each config's largest time over that of the rank's fastest config, among all ranks that timed the entry.

    A rank on which it failed, or which did not time it, counts as infinitely slow; one on which all failed, as none.
    """
    fastest: dict[int, float] = {}
    for by_rank in times.values():
        for rank, found in by_rank.items():
            if found is not None and found[0] < fastest.get(rank, math.inf):
                fastest[rank] = found[0]
    worst: dict[str, float] = {}
    for config, by_rank in times.items():
        slowest = 1.0
        for rank, best in fastest.items():
            mine = by_rank.get(rank)
            slowest = max(slowest, math.inf if mine is None else _ratio(mine[0], best))
        worst[config] = slowest
    return worst


def elect(policy: str, times: ByConfig, banned: Collection[str] = ()) -> str | None:
    """The config that `fastest` or `minimax` elects; None where timings decide nothing.

    `fastest`: the lowest median of per-rank medians. `minimax`: the smallest worst-case slowdown over ranks.
    Ties go to the smallest canonical text, compared byte by byte.

    Args:
        policy: Which of the two.
        times: Timings of the entry's candidates.
        banned: Configs that may not be elected; they still count as what others are compared with.
    """
    if policy == FASTEST:
        scores = {config: median_of_medians(by_rank) for config, by_rank in times.items()}
    else:
        scores = worst_slowdowns(times)
    finite = [
        (score, config.encode(), config)
        for config, score in scores.items()
        if config not in banned and math.isfinite(score)
    ]
    return min(finite)[2] if finite else None


def _ratio(time: float, fastest: float) -> float:
    if fastest > 0:
        return time / fastest
    return 1.0 if time == 0 else math.inf


@dataclass(frozen=True, slots=True)
class Generalized:
    """One config for every key of a kernel, and what that costs.

    Attributes:
        config: For `*`: the smallest worst-case slowdown over the keys.
        kept: Keys whose own winner beats it by more than the allowance: they keep an entry of their own.
        worst_percent: The largest slowdown among the other keys; not below 0.
    """

    config: str
    kept: frozenset[str]
    worst_percent: float


def generalize(winners: Mapping[str, str], medians: Mapping[str, Mapping[str, float]], allowed_percent: float,
               banned: Collection[str] = ()) -> Generalized | None:  # fmt: skip
    """The `*` entry of a kernel; None when no config is timed and works on every key.

    The slowdown of a config on a key is its median of medians over that of the key's winner, less 1. Ties go
    to the smallest canonical text, compared byte by byte.

    Args:
        winners: Each key's winner.
        medians: Each key's configs with their `median_of_medians`.
        allowed_percent: Slowdown up to which a key is left to the `*` entry.
        banned: Configs that may not become the `*` entry.
    """
    everywhere = set.intersection(*(set(by_config) for by_config in medians.values())) if medians else set()
    worst: list[tuple[float, bytes, str]] = []
    for config in everywhere - set(banned):
        slowest = max(_slowdown(config, winners[key], medians[key]) for key in winners)
        if math.isfinite(slowest):
            worst.append((slowest, config.encode(), config))
    if not worst:
        return None
    config = min(worst)[2]
    over = {key: 100 * _slowdown(config, winners[key], medians[key]) for key in winners}
    kept = frozenset(key for key, percent in over.items() if percent > allowed_percent)
    return Generalized(config, kept, max([0.0, *(percent for key, percent in over.items() if key not in kept)]))


def _slowdown(config: str, winner: str, medians: Mapping[str, float]) -> float:
    if config == winner:
        return 0.0
    best = medians.get(winner, math.inf)
    if math.isinf(best):
        return math.inf  # the winner was never timed: nothing can be said to be close to it
    return _ratio(medians[config], best) - 1
