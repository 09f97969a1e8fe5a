"""Sick ranks, on every database: the slow one and the dissenting one of a made fleet, and a fleet without any."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import H200, Cli, Json, config, version_1, write_recording
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.model.canonical import config_text
from tuning_registry.model.records import LONGEST_MS, SHORTEST_MS
from tuning_registry.model.selection import Selection
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
from tuning_registry.operations.reports.ranks import Rank, compare_ranks
from tuning_registry.operations.runs import withdraw_run
from tuning_registry.rules.outliers import spread_of

CONFIGS = [config(B=size) for size in (16, 32, 64)]
KEYS = [f"M={size}" for size in range(20)]


def fleet(folder: Path, slow: int | None = None, dissenter: int | None = None, ranks: int = 8, **fields: Any) -> Path:
    """Ranks whose times differ by 1 % and who mostly choose the first config."""
    chance = random.Random(7)
    for rank in range(ranks):
        factor = 1.2 if rank == slow else 1.0
        votes: Json = {}
        timings: Json = {}
        for number, key in enumerate(KEYS):
            strays = number == rank  # every rank dissents on one key: the usual noise
            votes[key] = CONFIGS[1 if strays else 2 if rank == dissenter else 0]
            measured = [factor * (number + 1) * (1 + n) * chance.uniform(0.99, 1.01) for n in range(3)]
            timings[key] = [[c, [m, m, m]] for c, m in zip(CONFIGS, measured, strict=True)]
        document = version_1(
            {"sm90": {"pkg.k": votes}}, run="fleet", rank=rank, timings={"sm90": {"pkg.k": timings}},
            host=f"node{rank // 4}", **fields,
        )  # fmt: skip
        write_recording(folder / f"rec.rank{rank}.json", document)
    return folder


def compared(store: Store, selection: Selection | None = None) -> dict[tuple[str, int | None], Rank]:
    return {(rank.run, rank.rank): rank for rank in compare_ranks(store, selection or Selection()).ranks}


def test_a_slow_rank_and_a_dissenting_one_are_named_with_their_reasons(store: Store, tmp_path: Path) -> None:
    ingest(store, [fleet(tmp_path, slow=5, dissenter=2)])
    found = compare_ranks(store, Selection())
    assert [(rank.rank, rank.outlier) for rank in found.outliers] == [(5, ("slow",)), (2, ("dissents",))]
    slow, dissenter = found.outliers
    assert slow.time_ratio == pytest.approx(1.2, rel=0.01)
    assert slow.reasons[0].startswith(("19.", "20."))
    assert "% slower than the median of 8 ranks (limit 4.0 %)" in slow.reasons[0]
    assert dissenter.reasons == ("100 % of its votes dissent; the median is 5 % (limit 15 %)",)
    assert (dissenter.votes, dissenter.dissenting, dissenter.timings, dissenter.host) == (20, 20, 60, "node0")
    assert found.ranks[:2] == found.outliers


def test_a_fast_rank_stands_out_too_and_a_healthy_fleet_has_no_outlier(store: Store, tmp_path: Path) -> None:
    ingest(store, [fleet(tmp_path / "healthy")])
    found = compare_ranks(store, Selection())
    assert (len(found.ranks), found.outliers) == (8, [])
    fast = version_1({}, run="fleet", rank=8, timings={"sm90": {"pkg.k": {"M=3": [[CONFIGS[0], [2.0, 2.0, 2.0]]]}}})
    ingest(store, [write_recording(tmp_path / "fast.json", fast)])
    (stranger,) = compare_ranks(store, Selection()).outliers
    assert (stranger.rank, stranger.outlier, stranger.dissent, stranger.timings) == (8, ("fast",), None, 1)


def test_real_ranks_against_an_independent_script(store: Store) -> None:
    take(store, H200, triton="3.6.0")
    timed = [json.loads((H200 / f"timings.rank{rank}.json").read_text())["sm90"] for rank in range(8)]
    times = [
        {(kernel, key, config_text(c)): t[0] for kernel, keys in rank.items() for key, row in keys.items()
         for c, t in row if t is not None and math.isfinite(t[0])}
        for rank in timed
    ]  # fmt: skip
    everywhere = {where for rank in times for where in rank}
    medians = {where: statistics.median([rank[where] for rank in times if where in rank]) for where in everywhere}
    expected = [statistics.median([value / medians[where] for where, value in rank.items()]) for rank in times]
    found = compared(store)
    assert [found["demo", rank].time_ratio for rank in range(8)] == [pytest.approx(value) for value in expected]
    assert sum(rank.votes for rank in found.values()) == 360
    table = json.loads((H200.parent.parent / "tests" / "golden" / "sm90.json").read_text())["kernels"]
    for rank in range(8):
        chosen = json.loads((H200 / f"rec.rank{rank}.json").read_text())["sm90"]
        dissent = sum(
            config_text(c) != config_text(table[kernel][key])
            for kernel, keys in chosen.items()
            for key, c in keys.items()
        )
        assert found["demo", rank].dissenting == dissent


def test_only_ranks_of_one_version_group_are_compared(store: Store, tmp_path: Path) -> None:
    timing = {"sm90": {"pkg.k": {"M=1": [[CONFIGS[0], [1.0, 1.0, 1.0]]]}}}
    for rank, (triton, factor) in enumerate([("3.6.0", 1.0), ("3.6.0", 3.0), ("3.7.0", 10.0), ("3.7.0", 30.0)]):
        timing = {"sm90": {"pkg.k": {f"M={rank % 2 == 0}": [[CONFIGS[0], [factor] * 3]]}}}
        timing["sm90"]["pkg.k"] = {"M=True" if rank % 2 else "M=1": [[CONFIGS[0], [factor] * 3]]}
        document = version_1({}, rank=rank, triton=triton, timings=timing)
        write_recording(tmp_path / f"rec.rank{rank}.json", document)
    ingest(store, [tmp_path])
    found = compared(store)
    # The two spellings of the key are one; the two Triton versions are two fleets.
    assert [found["job-1", rank].time_ratio for rank in range(4)] == [0.5, 1.5, 0.5, 1.5]
    assert compared(store, Selection(triton="3.7.0")).keys() == {("job-1", 2), ("job-1", 3)}


def test_timings_without_company_and_recordings_that_do_not_count_are_left_out(store: Store, tmp_path: Path) -> None:
    ingest(store, [fleet(tmp_path / "a", ranks=1)])
    (lonely,) = compared(store).values()
    assert (lonely.time_ratio, lonely.timings, lonely.votes) == (None, 0, 20)
    document = json.loads((tmp_path / "a" / "rec.rank0.json").read_text())
    ingest(store, [write_recording(tmp_path / "b.json", document | {"run": "other"})], IngestOptions(run="other"))
    assert {rank.time_ratio for rank in compared(store).values()} == {1.0}
    withdraw_run(store, "other")
    assert [rank.time_ratio for rank in compared(store).values()] == [None]


def test_a_package_filter_leaves_other_versions_out(store: Store, tmp_path: Path) -> None:
    ingest(store, [fleet(tmp_path / "a", ranks=4, packages={"pkg": "1.0"})])
    for path in sorted((tmp_path / "a").iterdir()):
        document = json.loads(path.read_text()) | {"run": "two", "packages": {"pkg": "2.0"}}
        write_recording(tmp_path / "b" / path.name, document)
    ingest(store, [tmp_path / "b"])
    assert len(compared(store)) == 8
    assert {run for run, _ in compared(store, Selection(packages={"pkg": "2.0"}))} == {"two"}


def test_the_command_in_its_formats(cli: Cli, tmp_path: Path) -> None:
    cli("ingest", fleet(tmp_path, slow=5, dissenter=2))
    shown = cli("ranks", "--outliers")
    head, slow, dissenter = shown.stdout.splitlines()
    assert head.split() == ["RUN", "RANK", "HOST", "VOTES", "DISSENTING", "VOTES", "TIMINGS", "SLOWDOWN", "OUTLIER"]
    assert slow.split()[:8] == ["fleet", "5", "node1", "20", "1", "(5.0", "%)", "60"]
    assert "dissents: 100 % of its votes dissent; the median is 5 % (limit 15 %)" in dissenter
    assert shown.stderr.splitlines()[-1] == "2 of 8 ranks are outliers"
    rows = json.loads(cli("ranks", "--format", "json").stdout)
    assert len(rows) == 8
    assert rows[0] == {
        "run": "fleet", "rank": 5, "host": "node1", "device": None, "votes": 20, "dissenting_votes": 1, "timings": 60,
        "slowdown_percent": pytest.approx(20, abs=1), "other_code": 0, "audited_results": 0,
        "other_results": 0, "outlier": ["slow"], "reasons": rows[0]["reasons"],
    }  # fmt: skip
    table = list(csv.DictReader(io.StringIO(cli("ranks", "--format", "csv").stdout)))
    assert [(row["rank"], row["outlier"]) for row in table[:3]] == [
        ("5", "slow"),
        ("2", "dissents"),
        (table[2]["rank"], ""),
    ]
    assert "DEVICE" not in cli("ranks").stdout


def test_the_largest_slowdown_is_a_number(cli: Cli, tmp_path: Path) -> None:
    for rank, time in enumerate([SHORTEST_MS] * 4 + [LONGEST_MS]):
        document = version_1({}, run="r", rank=rank, timings={"sm90": {"k": {"M=1": [[CONFIGS[0], [time] * 3]]}}})
        write_recording(tmp_path / f"{rank}.json", document)
    cli("ingest", tmp_path)
    (wild,) = [row for row in json.loads(cli("ranks", "--format", "json").stdout) if row["rank"] == 4]
    assert wild["slowdown_percent"] == pytest.approx(100 * LONGEST_MS / SHORTEST_MS)
    assert wild["outlier"] == ["slow"]


def test_devices_are_shown_where_they_differ(cli: Cli, tmp_path: Path) -> None:
    for device in ("NVIDIA H100", "NVIDIA H200"):
        name = device.split()[1]
        for path in fleet(tmp_path / name, ranks=2, device={"name": device, "arch": "sm90"}).iterdir():
            write_recording(path, json.loads(path.read_text()) | {"run": name})
        cli("ingest", tmp_path / name)
    assert "NVIDIA H100" in cli("ranks").stdout
    assert "DEVICE" not in cli("ranks", "--run", "H100").stdout


def test_the_command_is_a_gate(cli: Cli, tmp_path: Path) -> None:
    cli("ingest", fleet(tmp_path / "sick", slow=5))
    gates = [cli("ranks", "--exit-code", *filters) for filters in ((), ("--run", "mistyped"), ("--kernel", "other"))]
    assert [gate.exit_code for gate in gates] == [1, 1, 1]
    assert "no votes or timings match" in gates[1].stderr
    assert cli("ranks").exit_code == 0


def test_a_healthy_fleet_and_one_that_is_too_small_pass_the_gate(cli: Cli, tmp_path: Path) -> None:
    cli("ingest", fleet(tmp_path, ranks=3, slow=1))
    small = cli("ranks", "--exit-code")
    assert (small.exit_code, small.stderr.splitlines()[-1]) == (0, "3 ranks: too few to find outliers")
    cli("ingest", fleet(tmp_path / "more", ranks=8))  # refused: rank 1 has other timings
    assert cli("ingest", fleet(tmp_path / "more", ranks=8), "--replace").exit_code == 0
    assert cli("ranks", "--exit-code").exit_code == 0
    assert cli("ranks", "--outliers").stdout == ""


@given(st.lists(st.floats(0.9, 1.1), min_size=4), st.floats(5.0, 1e6))
def test_one_wild_value_moves_neither_the_middle_nor_the_limit_far(values: list[float], wild: float) -> None:
    spread = spread_of([*values, wild])
    assert spread is not None
    assert 0.9 <= spread.median <= 1.1
    assert spread.is_outside(wild, 0.05)
    middle = statistics.median(values)
    assert (spread_of(values[:3]), spread_of([1.0] * 4)) == (None, spread_of([1.0] * 4))
    assert not spread.is_outside(middle, 0.3)
