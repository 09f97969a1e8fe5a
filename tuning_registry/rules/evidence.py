"""Timings as evidence about configs: differences, slowdowns, and the winners of policies that judge by time.

Pure functions, standard library only. A config's times are `{rank: (median, p20, p80)}` in milliseconds, with None
for a rank on which it failed. Percentiles that were not kept are NaN. A rank is identified by the id of its recording.
"""

from __future__ import annotations

import itertools
import math
import operator
import statistics
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tuning_registry.errors import UsageError
from tuning_registry.model.records import Times

ByRank = Mapping[int, Times | None]
ByConfig = Mapping[str, ByRank]
Columns = Mapping[str, Sequence[float]]


class Policy(StrEnum):
    """Who decides an entry: the votes, or the timings."""

    MAJORITY = "majority"
    FASTEST = "fastest"
    MINIMAX = "minimax"

    @classmethod
    def _missing_(cls, value: object) -> Policy:
        raise UsageError(f"unknown policy {value!r}; expected {', '.join(cls)}")


class Ties(StrEnum):
    """How to choose between configs with equally many votes: by text, or by the timings."""

    TEXT = "text"
    FASTEST = "fastest"

    @classmethod
    def _missing_(cls, value: object) -> Ties:
        raise UsageError(f"unknown rule for ties {value!r}; expected {', '.join(cls)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """How a config that some ranks chose compares with the winner.

    Attributes:
        slower_percent: 100 times the median, over the ranks that timed both, of its median time over the winner's,
            less 1. Negative if it is faster.
        noise_percent: 100 times the median, over the same ranks, of the mean width of the two 20th-80th
            percentile ranges over the winner's median. A smaller difference means nothing.
        winner_slower_percent: 100 times the median, over the ranks that chose it, of the winner's median time over
            its own, less 1. None if none of them timed both.
        ranks: How many ranks timed both.
    """

    slower_percent: float
    noise_percent: float
    winner_slower_percent: float | None
    ranks: int

    @property
    def is_within_noise(self) -> bool:
        """Whether neither all ranks nor those that chose it can tell the two configs apart."""
        return max(abs(self.slower_percent), self.winner_slower_percent or 0.0) <= self.noise_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """How much slower the winner is than what it is compared with.

    Attributes:
        percent: The slowdown; infinite if the winner failed on most ranks.
        noise_percent: The noise of the timings behind it, as for `Gap`; None if no rank timed both.
        ranks: How many ranks it is about.
    """

    percent: float
    noise_percent: float | None
    ranks: int

    @property
    def is_within_noise(self) -> bool:
        """Whether the timings are too noisy to show it."""
        return self.percent <= (self.noise_percent or 0.0)


def compare(winner: ByRank, other: ByRank, chose_other: Collection[int]) -> Gap | None:
    """The gap between the winner and another config; None if no rank timed both."""
    pairs = _timed_both(winner, other)
    if not pairs:
        return None
    return Gap(
        slower_percent=100 * statistics.median([o[0] / w[0] - 1 for w, o in pairs]),
        noise_percent=_noise_percent(pairs) or 0.0,
        winner_slower_percent=slower_for(winner, other, chose_other),
        ranks=len(pairs),
    )


def slower_for(winner: ByRank, other: ByRank, chose_other: Iterable[int]) -> float | None:
    """`Gap.winner_slower_percent` alone."""
    lost = [
        w[0] / o[0] - 1
        for rank in chose_other
        if (w := winner.get(rank)) and (o := other.get(rank)) and w[0] > 0 and o[0] > 0
    ]
    return 100 * statistics.median(lost) if lost else None


def slowdown_of_dissenters(winner: ByRank, chosen: Mapping[int, ByRank]) -> Slowdown | None:
    """What the winner costs the ranks that chose another config; None if none of them timed both.

    The mean, over these ranks, of the winner's median time over that of their own choice, less 1.

    Args:
        winner: Times of the winner.
        chosen: Each dissenting rank with the times of the config that it chose.
    """
    pairs = [
        (w, o)
        for rank, own in chosen.items()
        if (w := winner.get(rank)) and (o := own.get(rank)) and w[0] > 0 and o[0] > 0
    ]
    if not pairs:
        return None
    lost = statistics.mean(w[0] / o[0] - 1 for w, o in pairs)
    return Slowdown(percent=100 * lost, noise_percent=_noise_percent(pairs), ranks=len(pairs))


def slowdown_of_fleet(
    winner: str, times: ByConfig, medians: Mapping[str, float] | None = None
) -> tuple[str, Slowdown] | None:
    """The fastest config over all ranks, and how much slower the winner is; None if the winner was not timed.

    Compares the `median_of_medians` of both. The median of ratios, which `compare` gives, can differ widely: it
    ignores how slow the winner is on fewer than half of the ranks.

    Args:
        winner: The config.
        times: Timings of the winner and of the fastest config; others are not needed if the medians are stated.
        medians: The `median_of_medians` of every config that was timed; by default, from `times`.
    """
    if medians is None:
        medians = {config: median_of_medians(by_rank) for config, by_rank in times.items()}
    fastest = lowest(medians)
    best = math.inf if fastest is None else medians[fastest]
    if winner not in times or fastest is None or not 0 < best < math.inf:
        return None
    if medians[winner] == best:
        fastest = winner
    pairs = _timed_both(times[winner], times[fastest])
    return fastest, Slowdown(
        percent=100 * (medians[winner] / best - 1),
        noise_percent=_noise_percent(pairs) if pairs else None,
        ranks=len(times[winner]),
    )


def lowest(medians: Mapping[str, float]) -> str | None:
    """The config with the lowest median; of equal ones the smallest text, compared byte by byte. None without any."""
    return min(medians, key=lambda text: (medians[text], text.encode()), default=None)


def _timed_both(winner: ByRank, other: ByRank) -> list[tuple[Times, Times]]:
    """The times of both configs on the ranks on which both worked."""
    return [(w, o) for rank, w in winner.items() if w and (o := other.get(rank)) and w[0] > 0 and o[0] > 0]


# See docs/decisions.md, D29.
def _noise_percent(pairs: Iterable[tuple[Times, Times]]) -> float | None:
    """None if the percentiles of no pair were kept."""
    widths = [
        ((w80 - w20 if w80 > w20 else 0.0) + (o80 - o20 if o80 > o20 else 0.0)) / 2 / median
        for (median, w20, w80), (_, o20, o80) in pairs
        if w20 > -math.inf and o20 > -math.inf  # not NaN, in half of the time of `isnan`
    ]
    return 100 * statistics.median(widths) if widths else None


# See docs/decisions.md, D30.
def median_of_medians(times: ByRank) -> float:
    """The median over ranks of a config's median time in ms. A rank on which it failed counts as infinitely slow."""
    return median_over_ranks([math.inf if found is None else found[0] for found in times.values()], len(times))


def median_over_ranks(medians: Iterable[float], count: int) -> float:
    """The same from each rank's median in ms, infinite if it failed there.

    Args:
        medians: The medians.
        count: How many ranks timed the config. Further medians are infinite, and do not count.
    """
    if not count:
        return math.inf
    ordered = sorted(medians)
    below, above = ordered[(count - 1) // 2], ordered[count // 2]
    return below if below == above else (below + above) / 2


def worst_slowdowns(times: ByConfig) -> dict[str, float]:
    """Each config's largest time over that of the rank's fastest config, among all ranks that timed the entry.

    A rank on which the config failed, or that did not time it, counts as infinitely slow. A rank on which every
    config failed does not count.
    """
    every = list(dict.fromkeys(rank for by_rank in times.values() for rank in by_rank))
    return worst_slowdowns_in({
        config: [math.inf if found is None else found[0] for found in map(by_rank.get, every)]
        for config, by_rank in times.items()
    })  # fmt: skip


def worst_slowdowns_in(columns: Columns) -> dict[str, float]:
    """The same from each config's medians in ms, the ranks in the same order; infinite if it failed or was not timed."""
    fastest = list(map(min, zip(*columns.values(), strict=True)))
    counts = [best < math.inf for best in fastest]
    best = list(itertools.compress(fastest, counts))
    ratio = operator.truediv if min(best, default=0.0) > 0 else _ratio
    return {
        config: max(1.0, max(map(ratio, itertools.compress(column, counts), best), default=1.0))
        for config, column in columns.items()
    }


def worst_slowdowns_in_shares(times: ByConfig) -> dict[str, float]:
    """Each config's largest time over that of the fastest config, where each rank has timed a part of them.

    The fastest config is that of the lowest `median_of_medians`: no rank can compare all of them.
    """
    best = min(map(median_of_medians, times.values()), default=math.inf)
    return {
        config: max((math.inf if one is None else _ratio(one[0], best) for one in by_rank.values()), default=math.inf)
        for config, by_rank in times.items()
    }


def elect(policy: Policy, times: ByConfig, banned: Container[str] = (), *, in_shares: bool = False) -> str | None:
    """The config that `fastest` or `minimax` elects; None if the timings decide nothing.

    `fastest`: the lowest median of per-rank medians. `minimax`: the smallest worst-case slowdown over ranks.
    Ties go to the smallest canonical text, compared byte by byte.

    Args:
        policy: `fastest` or `minimax`.
        times: Timings of the entry's candidates.
        banned: Configs that may not be elected. Others are still compared with them.
        in_shares: Whether each rank has timed a part of the candidates only.
    """
    if policy is Policy.FASTEST:
        return fastest({config: median_of_medians(by_rank) for config, by_rank in times.items()}, banned)
    return _least(worst_slowdowns_in_shares(times) if in_shares else worst_slowdowns(times), banned)


def least_slow_at_worst(columns: Columns, banned: Container[str] = ()) -> str | None:
    """The config that policy `minimax` elects, from the columns of `worst_slowdowns_in`; None if none is finite."""
    return _least(worst_slowdowns_in(columns), banned)


def fastest(medians: Mapping[str, float], banned: Container[str] = ()) -> str | None:
    """The config that policy `fastest` elects, from each config's `median_of_medians`; None if none is finite."""
    return _least(medians, banned)


def fastest_of_tie(level: Collection[str], medians: Mapping[str, float]) -> str | None:
    """Which of the configs with equally many votes is the fastest; None if the timings do not say.

    They say it if every one of the configs was timed, and one has a smaller `median_of_medians` than all others.
    """
    times = sorted(medians.get(config, math.nan) for config in level)
    if any(map(math.isnan, times)) or times[0] == times[1]:
        return None
    return next(config for config in level if medians[config] == times[0])


def _least(scores: Mapping[str, float], banned: Container[str]) -> str | None:
    """The config with the smallest finite score; of equal ones the smallest text, compared byte by byte."""
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
    """One config for every key of a kernel, with its cost.

    Attributes:
        config: For `*`: the smallest worst-case slowdown over the keys.
        kept: Keys whose own winner beats it by more than the allowance. They keep their entry.
        worst_percent: The largest slowdown among the other keys; at least 0.
    """

    config: str
    kept: frozenset[str]
    worst_percent: float


def generalize(winners: Mapping[str, str], medians: Mapping[str, Mapping[str, float]], allowed_percent: float,
               banned: Container[str] = ()) -> Generalized | None:  # fmt: skip
    """The `*` entry of a kernel; None if no config was timed and worked on every key.

    The slowdown of a config on a key is its median of medians over that of the key's winner, less 1. Ties go
    to the smallest canonical text, compared byte by byte.

    Args:
        winners: The winner of each key.
        medians: The configs of each key with their `median_of_medians`.
        allowed_percent: Slowdown up to which the `*` entry serves a key.
        banned: Configs that may not become the `*` entry.
    """
    everywhere = set.intersection(*(set(by_config) for by_config in medians.values())) if medians else set()
    worst: list[tuple[float, bytes, str]] = []
    for config in everywhere:
        if config in banned:
            continue
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
        return math.inf  # the winner was never timed, so nothing is known to be close to it
    return _ratio(medians[config], best) - 1
