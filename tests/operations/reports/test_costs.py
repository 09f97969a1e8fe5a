"""The cost of disagreements, out of the database."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import H200, Cli, config, write_recording
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.reports.costs import find_costs

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
    assert "ranks disagree on 1 of 1 entry: 0 conflicts beyond the timing noise" in done.stderr
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


def test_entries_without_timings_are_counted_not_called_harmless(cli: Cli) -> None:
    cli("ingest", *sorted(H200.glob("rec.*")), "--run", "demo")
    assert cli("disagreements", "--cost").stderr.splitlines()[-1].endswith(
        ": 0 conflicts beyond the timing noise, 12 not timed"
    )  # fmt: skip


def test_both_figures_are_shown_in_words_when_they_part_company(cli: Cli, store: Store, tmp_path: Path) -> None:
    """On a typical rank the two configs are alike, and yet the winner is slow on most ranks."""
    for rank in range(10):
        winner = 1.0 if rank < 4 else 2.0
        other = 1.25 if rank in {7, 8, 9} else 1.0 if rank < 2 else 1.99
        timed = [(A, three_times(winner)), (B, three_times(other)), (C, three_times(1.2))]
        write_rank(tmp_path, rank, B if rank in {7, 8, 9} else A, timed)
    assert cli("ingest", tmp_path, "--run", "july").exit_code == 0
    assert cli("disagreements", "--cost").stdout == (
        "conflict   sm90  k\n"
        "      M=1\n"
        "      For the 3 ranks that chose otherwise, the elected config is 60.0 % slower than their own choice on average "
        "(beyond the noise of 1.6 %).\n"
        "      Over all 10 ranks, the elected config's median time is 66.7 % above that of the fastest config, "
        "B=3 num_warps=4 num_stages=3 (beyond the noise of 1.6 %).\n"
        "      1 of 1 other choice differs from the elected config by more than the noise.\n"
        "    7  B=1 num_warps=4 num_stages=3  ranks 0-6 of july  [elected]\n"
        "    3  B=2 num_warps=4 num_stages=3  ranks 7-9 of july\n"
        "       on a typical rank: no clear difference (noise 2.0 %); on the ranks that chose it: elected config 60.0 % slower\n"
    )
    ((found,), total) = find_costs(store, Selection())
    assert total == 1
    record = found.to_dict()
    assert record == json.loads(cli("disagreements", "--cost", "--format", "json").stdout)[0]
    assert (record["winner_slower_for_dissenters_percent"], record["winner_slower_than_fastest_percent"]) == (
        60.0,
        66.67,
    )
    assert record["fastest_config"] == C
    assert str(found) == "sm90 k M=1: conflict, 60.0 % slower for the ranks that chose otherwise"
