"""Withdrawing and restoring runs."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.conftest import Cli, config, write_ranks
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.reports.status import describe_status
from tuning_registry.operations.runs import list_runs, restore_run, withdraw_run

A, B = config(B=16), config(B=8, num_warps=8)


def test_a_withdrawn_run_counts_no_more_until_restored(store: Store, tmp_path: Path) -> None:
    now = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
    paths = write_ranks(tmp_path, [A, A])
    take(store, *paths, run="good")
    take(store, *write_ranks(tmp_path / "bad", [B] * 3), run="bad")
    assert withdraw_run(store, "bad", now=now)
    assert not withdraw_run(store, "bad", now=now + dt.timedelta(seconds=1))
    (winner,) = find_winners(store, Selection())
    assert (winner.votes, json.loads(winner.choices[0].config)["kwargs"]) == (2, {"B": 16})
    assert [run.withdrawn_at for run in list_runs(store) if run.name == "bad"] == ["2026-11-30T00:00:00.000000+00:00"]
    report = take(store, *write_ranks(tmp_path / "bad", [B] * 4), run="bad")
    assert (report.new, report.withdrawn) == (0, 4)
    assert find_winners(store, Selection(runs=("bad",))) == []
    with pytest.raises(SelectionError, match="no run 'nope'"):
        restore_run(store, "nope")
    assert restore_run(store, "bad")
    assert find_winners(store, Selection())[0].votes == 5


def test_ranks_are_withdrawn_alone_and_restored(store: Store, tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [A, B, B])
    take(store, *paths, run="good")
    assert withdraw_run(store, "good", [1, 2])
    assert not withdraw_run(store, "good", [2])
    (winner,) = find_winners(store, Selection())
    assert (winner.votes, json.loads(winner.choices[0].config)["kwargs"]) == (1, {"B": 16})
    (run,) = list_runs(store)
    assert (run.ranks, run.withdrawn_ranks, run.votes, run.withdrawn_at) == ((0, 1, 2), (1, 2), 1, None)
    assert describe_status(store)["votes"] == 1
    with store.reading() as reading:
        assert reading.scalars(sa.select(sa.func.count()).select_from(sa.table("counted_votes"))) == [1]
    with pytest.raises(SelectionError, match="no recording of ranks 3-4; recorded ranks: 0-2"):
        restore_run(store, "good", [2, 3, 4])
    assert restore_run(store, "good", [2])
    assert find_winners(store, Selection())[0].votes == 2
    assert not restore_run(store, "good")  # the run itself was never withdrawn
    assert list_runs(store)[0].withdrawn_ranks == (1,)


def test_a_withdrawn_rank_stays_withdrawn_when_its_file_comes_again(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path, [A, B]), run="good")
    withdraw_run(store, "good", [1])
    report = take(store, *write_ranks(tmp_path, [A, B]), run="good")
    assert (report.already, report.withdrawn) == (1, 1)
    report = take(store, *write_ranks(tmp_path, [A, A]), run="good")
    assert (report.new, report.withdrawn) == (0, 1)
    report = take(store, *write_ranks(tmp_path, [A, A]), run="good", replace=True)
    assert (report.new, report.replaced) == (1, 1)
    assert find_winners(store, Selection())[0].votes == 2
    assert list_runs(store)[0].withdrawn_ranks == ()


def test_commands_withdraw_and_restore_ranks(cli: Cli, tmp_path: Path) -> None:
    write_ranks(tmp_path / "in", [A, A, B, B])
    cli("ingest", tmp_path / "in", "--run", "good")
    assert cli("runs", "withdraw", "good", "--rank", "3", "--rank", "0-1").stderr.endswith(
        "\nranks 0-1,3 of good: withdrawn; their votes no longer count\n"
    )
    assert "0-1,3" in cli("runs").stdout.splitlines()[1]
    assert cli("runs", "restore", "good", "--rank", "3").stderr.endswith(
        "\nrank 3 of good: restored; its votes count again\n"
    )
    assert cli("runs", "restore", "good").stderr.endswith(
        "\ngood: not withdrawn\nnote: ranks 0-1 of this run stay withdrawn. To count their votes again, use --rank 0-1\n"
    )
    (run,) = json.loads(cli("runs", "--format", "json").stdout)
    assert run["withdrawn_ranks"] == [0, 1]
