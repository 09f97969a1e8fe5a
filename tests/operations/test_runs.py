"""Withdrawing and restoring runs."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from tests.conftest import config, write_ranks
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.runs import list_runs, restore_run, withdraw_run

A, B = config(B=16), config(B=8, num_warps=8)


def test_a_withdrawn_run_counts_no_more_until_restored(store: Store, tmp_path: Path) -> None:
    now = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
    paths = write_ranks(tmp_path, [A, A])
    take(store, *paths, run="good")
    take(store, *write_ranks(tmp_path / "bad", [B] * 3), run="bad")
    assert withdraw_run(store, "bad", now)
    assert not withdraw_run(store, "bad", now + dt.timedelta(seconds=1))
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
