"""Hand-ins become votes exactly once; what cannot is refused, kept and visible."""

from __future__ import annotations

import json
import random
import tracemalloc
import uuid
import zlib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import config, version_1, version_2, write_recording
from tuning_registry.db import schema
from tuning_registry.db.appending import append_hand_in
from tuning_registry.db.migrate import upgrade_database
from tuning_registry.db.store import Store
from tuning_registry.errors import BusyError, FormatError, RejectedError, SchemaError
from tuning_registry.formats import hand_ins as format_module
from tuning_registry.formats.hand_ins import pack_hand_in
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest import folding, transfer
from tuning_registry.operations.ingest.folding import fold
from tuning_registry.operations.ingest.hand_ins import count_hand_ins, list_refused, retry_refused, save_refused
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
from tuning_registry.operations.runs import list_runs, restore_run, withdraw_run

A, B = config(B=16), config(B=8)


def votes(number: int = 3, chosen: Any = A) -> Any:
    return {"sm90": {"pkg.k": {f"M={m}": chosen for m in range(number)}}}


def hand_in(database: str, document: Any, separate_run: str | None = None, identity: str | None = None) -> None:
    payload = pack_hand_in([json.dumps(document).encode()], separate_run)
    append_hand_in(database, identity or uuid.uuid4().hex, payload, 10)


def append_rank(database: str, rank: int) -> None:
    hand_in(database, version_2(votes(20), rank, rank=rank, world_size=64))


@pytest.fixture(autouse=True)
def _with_schema(request: pytest.FixtureRequest) -> None:
    if "store" in request.fixturenames:
        upgrade_database(request.getfixturevalue("store"))


def winner_votes(store: Store) -> set[int]:
    return {entry.votes for entry in find_winners(store, Selection())}


def test_a_hand_in_counts_once_it_is_folded_and_only_once(store: Store, database: str) -> None:
    for _ in range(2):
        hand_in(database, version_2(votes(), 1), identity="same")  # a retry whose first try arrived
    assert (count_hand_ins(store).pending, list_runs(store)) == (1, [])
    report = fold(store)
    assert (report.hand_ins, report.recordings, report.votes, report.refused) == (1, 1, 3, ())
    hand_in(database, version_2(votes(), 1), identity="same")  # a retry after it was folded
    assert (fold(store).votes, winner_votes(store)) == (0, {1})
    assert count_hand_ins(store).pending == 0


def test_states_of_one_process_complete_each_other_in_any_order(store: Store, database: str) -> None:
    states = [version_2(votes(number), 1) for number in range(1, 6)]
    for batches in ([states[2:0:-1], states[3:]], [states[:1]]):
        for batch in batches:
            for state in batch:
                hand_in(database, state)
            assert fold(store).refused == ()
    assert (len(find_winners(store, Selection())), winner_votes(store)) == (5, {1})
    assert [run.ranks for run in list_runs(store)] == [(0,)]


def test_a_file_and_a_hand_in_of_one_process_are_one_recording(store: Store, database: str, tmp_path: Path) -> None:
    file = write_recording(tmp_path / "r.rank0.json", json.dumps(version_2(votes(2), 1)))
    hand_in(database, version_2(votes(3), 1))
    report = ingest(store, file)
    assert report.folded is not None
    assert (report.new, report.folded.completed, report.folded.votes) == (1, 1, 1)
    assert ingest(store, file).folded is None
    assert winner_votes(store) == {1}


def test_other_content_of_a_rank_is_refused_kept_and_can_be_saved(store: Store, database: str, tmp_path: Path) -> None:
    hand_in(database, version_2(votes(), 1))
    fold(store)
    hand_in(database, version_2(votes(chosen=B), 2))
    report = fold(store)
    assert report.hand_ins == 0
    (reason,) = report.refused
    assert "rank 0 of run 'job-1' is already in the database with other votes" in reason
    assert [one.reason for one in list_refused(store)] == [reason]
    assert fold(store).refused == ()  # it is tried once
    retry_refused(store)
    assert fold(store).refused == (reason,)
    (file,), problems = save_refused(store, tmp_path / "refused")
    assert (problems, list_refused(store)) == ([], [])
    assert ingest(store, file, IngestOptions(as_run="second")).votes == 3


def test_hand_ins_of_a_withdrawn_run_wait_for_its_return(store: Store, database: str) -> None:
    hand_in(database, version_2(votes(), 1))
    fold(store)
    withdraw_run(store, "job-1")
    hand_in(database, version_2(votes(), 2, rank=1))
    (reason,) = fold(store).refused
    assert "rank 1 of run 'job-1' is withdrawn" in reason
    restore_run(store, "job-1")
    retry_refused(store)
    assert (fold(store).recordings, winner_votes(store)) == (1, {2})


def test_of_two_processes_that_guess_one_place_the_second_gets_its_separate_run(store: Store, database: str) -> None:
    """Within one batch and across batches, and later states of both go to where the first went."""
    for number in (1, 2):
        hand_in(database, version_2(votes(1), number), separate_run=f"job-1.{number}")
    assert fold(store).refused == ()
    hand_in(database, version_2(votes(1), 3), separate_run="job-1.3")
    for number in (2, 1):
        hand_in(database, version_2(votes(2), number), separate_run=f"job-1.{number}")
    report = fold(store)
    assert (report.recordings, report.completed, report.refused) == (1, 2, ())
    assert {run.name for run in list_runs(store)} == {"job-1", "job-1.2", "job-1.3"} or {
        run.name for run in list_runs(store)
    } == {"job-1", "job-1.1", "job-1.3"}
    assert {entry.key: entry.votes for entry in find_winners(store, Selection())} == {"M=0": 3, "M=1": 2}


def test_two_processes_of_one_place_in_one_batch_do_not_depend_on_the_batch(store: Store, database: str) -> None:
    hand_in(database, version_2(votes(1), 1))
    hand_in(database, version_2(votes(3, B), 2))
    hand_in(database, version_2(votes(2), 1))
    report = fold(store)
    assert (report.hand_ins, len(report.refused)) == (2, 1)
    assert {entry.key for entry in find_winners(store, Selection())} == {"M=0", "M=1"}


def test_a_process_that_learns_its_rank_is_counted_there(store: Store, database: str) -> None:
    hand_in(database, version_2(votes(1), 1), separate_run="job-1.x")
    fold(store)
    hand_in(database, version_2(votes(2), 1, rank=3, world_size=4))
    assert fold(store).refused == ()
    assert [(run.name, run.ranks) for run in list_runs(store)] == [("job-1", (3,))]
    assert winner_votes(store) == {1}


HOSTILE = {
    "not zlib": b"garbage",
    "a bomb": zlib.compress(b"{}\n" + b" " * 5_000_000),
    "cut off": pack_hand_in([json.dumps(version_2(votes(), 9)).encode()])[:-4],
    "with a tail": pack_hand_in([json.dumps(version_2(votes(), 9)).encode()]) + b"x",
    "no facts": zlib.compress(b"[]\n{}"),
    "unknown facts": zlib.compress(b'{"who": 1}\n{}'),
    "deep facts": zlib.compress(b"[" * 100_000 + b"\n{}"),
    "no recording": zlib.compress(b"{}\n"),
    "not a recording": zlib.compress(b'{}\n{"arch": "sm90", "kernels": {}}'),
    "no run": pack_hand_in(
        [json.dumps(version_1(votes(), run=None) | {"rank": 0}).replace('"run": null, ', "").encode()]
    ),
    "a rank out of range": pack_hand_in([json.dumps(version_2(votes(), 9, rank=2**40)).encode()]),
    "a NUL": pack_hand_in([json.dumps(version_2({"sm90": {"k\0": {"M=1": A}}}, 9)).encode()]),
    "a long run": pack_hand_in([json.dumps(version_2(votes(), 9, run="x" * 20_000)).encode()]),
    "two spellings": pack_hand_in([json.dumps(version_2({"sm90": {"k": {"M=1": A, "M=True": A}}}, 9)).encode()]),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_recording_is_refused_and_stops_nobody(
    store: Store, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(format_module, "MAX_BYTES", 1_000_000)
    append_hand_in(database, "hostile\x1b[31m", HOSTILE[kind], 10)
    append_rank(database, 1)
    report = fold(store)
    assert (report.hand_ins, report.votes, len(report.refused)) == (1, 20, 1)
    (one,) = list_refused(store)
    assert "\x1b" not in one.reason
    files, problems = save_refused(store, tmp_path / "refused")
    assert len(files) + len(problems) == 1
    assert count_hand_ins(store).refused == len(problems)  # what holds no recording stays


def test_memory_does_not_grow_with_the_number_of_payloads_that_cannot_be_read(
    store: Store, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "_FETCHED_BYTES", 1)
    for number in range(16):
        append_hand_in(database, str(number), random.randbytes(1 << 20), 10)
    tracemalloc.start()
    try:
        report = fold(store)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(report.refused) == 16
    assert peak < 10 << 20


def test_a_small_payload_that_takes_much_memory_is_refused_and_can_be_saved(
    store: Store, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "MAX_PARSED_BYTES", 1 << 20)
    append_rank(database, 1)
    append_hand_in(database, "bomb", pack_hand_in([b'{"votes": [', b"[]," * 20_000, b"[]]}"]), 10)
    report = fold(store)
    assert (report.hand_ins, report.votes) == (1, 20)
    (reason,) = report.refused
    assert "reading it could take more than 1 MiB of memory" in reason
    (file,), problems = save_refused(store, tmp_path / "refused")
    assert (file.stat().st_size, problems) == (60_015, [])


@pytest.mark.parametrize("document", [
    [[] for _ in range(20_000)], [{} for _ in range(20_000)], [{"a": number} for number in range(20_000)],
    {f"{number:x}": number for number in range(20_000)}, [number / 7 for number in range(20_000)],
    [[str(number)] for number in range(20_000)], "x" * 1_000_000, "x" * 1_000_000 + "\U0001f600",
])  # fmt: skip
def test_the_estimate_of_memory_is_not_too_low(document: Any) -> None:
    data = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    tracemalloc.start()
    try:
        kept = json.loads(data)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept == document
    assert size - 200 <= format_module.parsed_bytes(data) <= 7 * size


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "x" * 2000])
def test_a_separate_run_that_is_no_name_is_refused_and_stops_nobody(store: Store, database: str, name: str) -> None:
    hand_in(database, version_2(votes(), 1))
    assert fold(store).hand_ins == 1
    hand_in(database, version_2(votes(), 2), separate_run=name)  # its place is taken
    append_rank(database, 1)
    report = fold(store)
    assert (report.hand_ins, report.votes, len(report.refused)) == (1, 20, 1)
    assert count_hand_ins(store).pending == 0


def test_a_payload_of_a_later_version_waits_for_a_later_release(store: Store, database: str) -> None:
    append_rank(database, 0)
    with store.writing() as transaction:
        transaction.connection.execute(schema.hand_ins.update().values(version=99))
    append_rank(database, 1)
    assert fold(store).hand_ins == 1
    assert count_hand_ins(store).pending == 1


@pytest.mark.parametrize("kind", [RejectedError, FormatError, ValueError, KeyError, MemoryError])
def test_a_hand_in_that_the_database_rejects_is_found_and_refused(
    store: Store, database: str, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    """A value that got past every check must not keep all others from being folded."""
    for rank in range(5):
        append_rank(database, rank)
    real = transfer.place_batch

    def reject(transaction: Any, batch: Any, options: Any) -> Any:
        if any(record.header.rank == 3 for record in batch.pending):
            raise kind("out of range")
        return real(transaction, batch, options)

    monkeypatch.setattr(folding, "place_batch", reject)
    report = fold(store)
    assert (report.hand_ins, report.refused) == (4, (str(kind("out of range")),))


def test_a_schema_of_another_revision_is_left_alone(store: Store, database: str) -> None:
    append_rank(database, 0)
    with store.writing() as transaction:
        transaction.connection.exec_driver_sql(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(SchemaError, match="newer than this program"):
        fold(store)


def test_without_a_registry_nothing_can_be_handed_in(database: str) -> None:
    with pytest.raises(SchemaError, match="there is no registry here yet"):
        append_rank(database, 0)


def test_a_rank_waits_for_a_lock_for_as_long_as_it_says_on_sqlite_and_not_at_all_on_postgres(
    store: Store, database: str
) -> None:
    payload = pack_hand_in([json.dumps(version_2(votes(), 1)).encode()])
    with store.writing():
        if database.startswith("sqlite"):
            with pytest.raises(BusyError, match=r"held the lock for over 0\.2 s"):
                append_hand_in(database, "a", payload, 0.2)
        else:
            append_hand_in(database, "a", payload, 0.2)


def fold_all(database: str) -> tuple[int, int]:
    from tuning_registry.db.url import parse_url

    report = fold(Store(parse_url(database)), batch_size=7)
    return report.hand_ins, report.votes


def test_64_ranks_at_once_and_three_folders_count_every_vote_once(store: Store, database: str) -> None:
    with ProcessPoolExecutor(16, mp_context=get_context("forkserver")) as pool:
        appended = [pool.submit(append_rank, database, rank) for rank in random.sample(range(64), 64)]
        folding_ = [pool.submit(fold_all, database) for _ in range(3)]
        for done in appended:
            done.result()
        results = [done.result() for done in folding_] + [pool.submit(fold_all, database).result() for _ in range(2)]
    assert (sum(hand_ins for hand_ins, _ in results), sum(votes for _, votes in results)) == (64, 64 * 20)
    (run,) = list_runs(store)
    assert (run.ranks, run.votes, run.world_size) == (tuple(range(64)), 64 * 20, 64)
    assert winner_votes(store) == {64}
