"""What timings say, against brute force: gaps, costs, policies; as functions and out of the database."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import H200, Cli, config, write_recording
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.costs import find_costs
from tuning_registry.rules.evidence import (
    Policy,
    compare,
    elect,
    generalize,
    median_of_medians,
    worst_slowdowns,
)

A, B, C = config(B=1), config(B=2), config(B=3)


def independent_costs() -> dict[tuple[str, str], tuple[float, list[tuple[int, float, float, float]]]]:
    """`{(kernel, key): (cost, [(votes, gap, noise, cost) of each dissenting config])}` of the real ranks, in percent."""
    ranks = [json.loads((H200 / f"rec.rank{rank}.json").read_text())["sm90"] for rank in range(8)]
    timed = [json.loads((H200 / f"timings.rank{rank}.json").read_text())["sm90"] for rank in range(8)]
    found = {}
    for kernel, keys in ranks[0].items():
        for key in keys:
            chosen = [config_text(rank[kernel][key]) for rank in ranks]
            counted = Counter(chosen)
            if len(counted) == 1:
                continue
            times = [{config_text(c): t for c, t in rank[kernel][key]} for rank in timed]
            winner = min(counted, key=lambda text: (-counted[text], text))
            lost = [times[r][winner][0] / times[r][own][0] - 1 for r, own in enumerate(chosen) if own != winner]
            rows = []
            for text in counted.keys() - {winner}:
                gaps = [t[text][0] / t[winner][0] - 1 for t in times]
                noise = [sum(t[c][2] - t[c][1] for c in (winner, text)) / 2 / t[winner][0] for t in times]
                costs = [t[winner][0] / t[text][0] - 1 for t, own in zip(times, chosen, strict=True) if own == text]
                rows.append((counted[text], *(100 * statistics.median(x) for x in (gaps, noise, costs))))
            found[kernel, key] = (100 * statistics.mean(lost), sorted(rows))
    return found


def test_the_cost_of_real_disagreements_is_what_an_independent_script_finds(store: Store) -> None:
    take(store, H200)
    costed, total = find_costs(store, Selection())
    expected = independent_costs()
    assert (len(costed), total, len(expected)) == (12, 45, 12)
    for found in costed:
        cost, rows = expected[found.entry.kernel, found.entry.key]
        assert found.dissenters is not None
        assert found.dissenters.percent == pytest.approx(cost)
        mine = []
        for choice, gap in zip(found.entry.choices[1:], found.gaps, strict=True):
            assert gap is not None
            assert gap.ranks == 8
            assert gap.winner_slower_percent is not None
            mine.append((choice.count, gap.slower_percent, gap.noise_percent, gap.winner_slower_percent))
        assert sorted(mine) == [pytest.approx(row) for row in rows]
    percents = [found.dissenters.percent for found in costed if found.dissenters]
    assert percents == sorted(percents, reverse=True)
    conflicts = [found.entry.kernel.rpartition(".")[2] for found in costed if found.verdict == "conflict"]
    assert conflicts == ["_chunk_cumsum_bwd_kernel", "_chunk_cumsum_fwd_kernel", "_chunk_cumsum_fwd_kernel"]
    assert {found.verdict for found in costed[3:]} == {"near-tie"}


def write_rank(folder: Path, rank: int, chosen: Any, timed: list[tuple[Any, Any]], key: str = "M=1") -> None:
    write_recording(folder / f"rec.rank{rank}.json", {"sm90": {"k": {key: chosen}}})
    write_recording(folder / f"timings.rank{rank}.json", json.dumps({"sm90": {"k": {key: timed}}}))


def three_times(median: float) -> list[float]:
    return [median, median * 0.99, median * 1.01]


def test_a_winner_that_fails_where_others_were_chosen_is_a_conflict(store: Store, tmp_path: Path) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank, A, [(A, three_times(1.0)), (B, three_times(1.001))])
    write_rank(tmp_path, 3, B, [(A, None), (B, three_times(1.0))])
    take(store, tmp_path)
    (found,), _ = find_costs(store, Selection())
    assert (found.verdict, found.failed, found.dissenters) == ("conflict", 1, None)
    assert found.gaps[0] is not None
    assert found.gaps[0].is_within_noise


def test_without_timings_a_disagreement_is_shown_all_the_same(cli: Cli, tmp_path: Path) -> None:
    for rank, chosen in enumerate((A, A, B)):
        write_recording(tmp_path / f"rec.rank{rank}.json", {"sm90": {"k": {"M=1": chosen}}})
    assert cli("ingest", tmp_path).exit_code == 0
    done = cli("disagreements", "--cost", "--format", "json")
    (entry,) = json.loads(done.stdout)
    assert (entry["verdict"], entry["winner_slower_for_dissenters_percent"]) == ("not timed", None)
    assert entry["choices"][1]["slower_than_winner_percent"] is None
    assert "1 of 1 entry disagrees: 0 conflicts beyond the timing noise" in done.stderr
    assert "no rank timed it together with the elected config" in cli("disagreements", "--cost").stdout


def test_withdrawn_runs_and_other_versions_lend_no_timings(store: Store, tmp_path: Path) -> None:
    write_rank(tmp_path / "1", 0, A, [(A, three_times(1.0)), (B, three_times(2.0))])
    write_rank(tmp_path / "1", 1, B, [(A, three_times(1.0)), (B, three_times(2.0))])
    write_rank(tmp_path / "2", 0, A, [(A, three_times(5.0)), (B, three_times(1.0))])
    take(store, tmp_path / "1", run="one", triton="3.6.0")
    take(store, tmp_path / "2", run="two", triton="3.7.0")
    (found,), _ = find_costs(store, Selection())
    assert found.gaps[0] is not None
    assert (round(found.gaps[0].slower_percent), found.gaps[0].ranks) == (100, 2)


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


def test_entries_without_timings_are_counted_not_called_harmless(cli: Cli) -> None:
    cli("ingest", *sorted(H200.glob("rec.*")), "--run", "demo")
    assert cli("disagreements", "--cost").stderr.splitlines()[-1].endswith(
        ": 0 conflicts beyond the timing noise, 12 not timed"
    )  # fmt: skip
