"""The view for other programs."""

from __future__ import annotations

import json
from pathlib import Path

import sqlalchemy as sa

from tests.conftest import config, write_ranks
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.operations.runs import withdraw_run

A, B = config(B=16), config(B=8, num_warps=8)


def test_the_view_shows_the_votes_that_count(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "1", [A, B]), run="one")
    take(store, *write_ranks(tmp_path / "2", [A]), run="two")
    take(store, *write_ranks(tmp_path / "3", [B]), run="two", replace=True)
    withdraw_run(store, "one")
    with store.reading() as reading:
        rows = reading.connection.execute(sa.text("SELECT * FROM counted_votes")).mappings().all()
    assert [dict(row) for row in rows] == [
        {"arch": "sm90", "kernel": "k", "key": "M=1", "run": "two", "rank": 0,
         "config": json.dumps(B, sort_keys=True)}
    ]  # fmt: skip
