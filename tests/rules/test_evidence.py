"""What timings say about configs, against brute force."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuning_registry.errors import UsageError
from tuning_registry.rules.evidence import (
    Policy,
    compare,
    elect,
    generalize,
    median_of_medians,
    slowdown_of_fleet,
    worst_slowdowns,
)

times = st.none() | st.sampled_from([0.5, 1.0, 1.5, 2.0, 4.0]).map(lambda m: (m, m * 0.9, m * 1.1))
measured = st.dictionaries(st.sampled_from("abcd"), st.dictionaries(st.integers(0, 3), times, min_size=1), min_size=1)


@given(measured, st.sets(st.sampled_from("abcd")))
def test_fastest_is_the_lowest_median_of_medians(found: dict[str, Any], banned: set[str]) -> None:
    def median(by_rank: dict[int, Any]) -> float:
        values = sorted(math.inf if t is None else t[0] for t in by_rank.values())
        return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2

    allowed = {text: median(by_rank) for text, by_rank in found.items() if text not in banned}
    best = min(allowed.values(), default=math.inf)
    winners = sorted(text for text, value in allowed.items() if value == best and value != math.inf)
    assert elect(Policy.FASTEST, found, banned) == (winners[0] if winners else None)


@given(measured, st.sets(st.sampled_from("abcd")))
def test_minimax_is_the_smallest_worst_slowdown(found: dict[str, Any], banned: set[str]) -> None:
    ranks = {rank for by_rank in found.values() for rank in by_rank}
    worst: dict[str, float] = {}
    for text, rank in itertools.product(found, ranks):
        there = [by_rank[rank][0] for by_rank in found.values() if by_rank.get(rank)]
        mine = found[text].get(rank)
        if there:
            worst[text] = max(worst.get(text, 1.0), mine[0] / min(there) if mine else math.inf)
    allowed = {text: worst.get(text, 1.0) for text in found if text not in banned}
    best = min(allowed.values(), default=math.inf)
    winners = sorted(text for text, value in allowed.items() if value == best and value != math.inf)
    assert elect(Policy.MINIMAX, found, banned) == (winners[0] if winners else None)
    assert {text: value for text, value in worst_slowdowns(found).items() if text not in banned} == allowed


medians = st.dictionaries(
    st.sampled_from(["M=1", "M=2", "M=3"]),
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from([1.0, 1.1, 1.5, 3.0, math.inf]), min_size=1),
    min_size=1,
)


@given(medians, st.data(), st.sampled_from([0.0, 10.0, 50.0, 1000.0]))
def test_generalize_is_the_smallest_worst_slowdown_over_keys(found: dict[str, Any], data: Any, allowed: float) -> None:
    winners = {key: data.draw(st.sampled_from(sorted(by_config))) for key, by_config in found.items()}

    def slowdown(text: str, key: str) -> float:
        if text == winners[key]:
            return 0.0
        mine, best = found[key].get(text, math.inf), found[key][winners[key]]
        return math.inf if math.inf in (mine, best) else mine / best - 1

    worst = {
        text: max(slowdown(text, key) for key in found) for text in "abcd" if all(text in by for by in found.values())
    }
    finite = {text: value for text, value in worst.items() if value != math.inf}
    made = generalize(winners, found, allowed)
    if not finite:
        assert made is None
        return
    assert made is not None
    assert made.config == min(finite, key=lambda text: (finite[text], text))
    assert made.kept == {key for key in found if 100 * slowdown(made.config, key) > allowed}
    rest = [100 * slowdown(made.config, key) for key in found if key not in made.kept]
    assert made.worst_percent == max([0.0, *rest])


def test_an_even_number_of_ranks_has_the_mean_of_the_middle() -> None:
    by_rank = {0: (1.0, 1.0, 1.0), 1: (2.0, 2.0, 2.0), 2: None, 3: (4.0, 4.0, 4.0)}
    assert median_of_medians(by_rank) == 3.0
    assert median_of_medians({0: None, 1: (1.0, 1.0, 1.0)}) == math.inf
    assert median_of_medians({}) == math.inf


def test_ranks_that_did_not_time_both_are_left_out_of_a_gap() -> None:
    one, two = (1.0, 0.9, 1.1), (2.0, 1.9, 2.1)
    gap = compare({0: one, 1: None, 2: one}, {0: two, 1: two, 3: two}, {0, 1})
    assert gap is not None
    assert (gap.slower_percent, gap.ranks, gap.winner_slower_percent) == (100.0, 1, -50.0)
    assert compare({0: one}, {1: two}, {1}) is None
    assert compare({0: (0.0, 0.0, 0.0)}, {0: two}, {0}) is None


def test_the_fleet_compares_medians_and_a_gap_the_median_of_ratios() -> None:
    """The winner is bimodal: fast on a third of the ranks, slow on the others, but never much slower on the same rank."""
    times = {
        "winner": {rank: (1.0 if rank < 4 else 2.0,) * 3 for rank in range(10)},
        "other": {rank: (1.25 if rank in {7, 8, 9} else 1.0 if rank < 2 else 1.9,) * 3 for rank in range(10)},
    }
    gap = compare(times["winner"], times["other"], {7, 8, 9})
    assert gap is not None
    assert gap.slower_percent == pytest.approx(-5.0)
    fastest, slowdown = slowdown_of_fleet("winner", times) or ("", None)
    assert slowdown is not None
    assert (fastest, slowdown.ranks, slowdown.is_within_noise) == ("other", 10, False)
    medians = [statistics.median(t[0] for t in by_rank.values()) for by_rank in times.values()]
    assert slowdown.percent == pytest.approx(100 * (medians[0] / medians[1] - 1))


def test_a_winner_that_nobody_timed_or_that_is_the_fastest() -> None:
    one = {0: (1.0, 1.0, 1.0)}
    assert slowdown_of_fleet("a", {"b": one}) is None
    assert slowdown_of_fleet("a", {}) is None
    fastest, slowdown = slowdown_of_fleet("b", {"a": one, "b": one}) or ("", None)
    assert slowdown is not None
    assert (fastest, slowdown.percent) == ("b", 0.0)
    _, failed = slowdown_of_fleet("a", {"a": {0: None}, "b": one}) or ("", None)
    assert failed is not None
    assert (failed.percent, failed.noise_percent, failed.is_within_noise) == (math.inf, None, False)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown policy 'best'; expected majority, fastest, minimax"):
        Policy("best")
