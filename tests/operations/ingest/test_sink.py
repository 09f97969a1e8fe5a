"""A rank's recording straight into the database."""

from __future__ import annotations

import json
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.conftest import config, version_1
from tuning_registry.db.migrate import upgrade_database
from tuning_registry.db.store import Store
from tuning_registry.errors import BusyError, ConflictError, SchemaError
from tuning_registry.formats.recordings import parse_recording
from tuning_registry.model.canonical import config_text
from tuning_registry.model.records import Recording
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest.sink import DatabaseSink, open_sink
from tuning_registry.operations.runs import list_runs


def recording(rank: int, block: int = 64) -> Recording:
    votes = {"sm90": {"pkg.k": {f"M={m}": config(B=block) for m in range(20)}}}
    document = version_1(votes, rank=rank, world_size=64, triton="3.6.0")
    return parse_recording(json.dumps(document).encode(), "(rank)")


def write_one(url: str, rank: int) -> None:
    open_sink(url).write(recording(rank))


def test_a_rank_never_creates_a_schema(store: Store) -> None:
    with pytest.raises(SchemaError, match="there is no registry here yet"):
        DatabaseSink(store).write(recording(0))
    assert store.revision() is None


def test_the_same_recording_again_changes_nothing_and_another_is_refused(store: Store) -> None:
    upgrade_database(store)
    sink = DatabaseSink(store)
    sink.write(recording(0))
    sink.write(recording(0))
    with pytest.raises(ConflictError, match="rank 0 of run 'job-1' is already in the database"):
        sink.write(recording(0, block=128))
    assert {entry.votes for entry in find_winners(store, Selection())} == {1}


def test_a_rank_may_replace_what_it_has_handed_in_before(store: Store) -> None:
    upgrade_database(store)
    sink = DatabaseSink(store)
    assert sink.write(recording(0))
    assert sink.write(recording(0, block=128), replace=True)
    assert not sink.write(recording(0, block=128), replace=True)
    assert {(entry.votes, entry.choices[0].config) for entry in find_winners(store, Selection())} == {
        (1, config_text(config(B=128)))
    }


def test_64_ranks_at_once_lose_nothing(store: Store, database: str) -> None:
    upgrade_database(store)
    with ProcessPoolExecutor(16, mp_context=get_context("forkserver")) as pool:
        list(pool.map(write_one, [database] * 64, range(64)))
    (run,) = list_runs(store)
    assert (run.ranks, run.votes, run.world_size) == (tuple(range(64)), 64 * 20, 64)
    assert {entry.votes for entry in find_winners(store, Selection())} == {64}


def test_whether_a_recording_is_new_is_said(store: Store) -> None:
    upgrade_database(store)
    sink = DatabaseSink(store)
    assert [sink.write(recording(0)), sink.write(recording(0)), sink.write(recording(1))] == [True, False, True]


def test_a_rank_waits_for_a_lock_for_as_long_as_it_says_and_no_longer(store: Store, database: str) -> None:
    upgrade_database(store)
    began = time.monotonic()
    with store.writing(), pytest.raises(BusyError):
        open_sink(database, 0.5).write(recording(0))
    assert time.monotonic() - began < 10
