"""Many processes on one database, and processes that are killed: exact counts afterwards."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import sqlalchemy as sa

from tests.conftest import config, write_ranks, write_recording
from tuning_registry.cli.app import main
from tuning_registry.db import schema
from tuning_registry.db.store import Store
from tuning_registry.formats.files import _write_beside, write_together
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
from tuning_registry.operations.tables.export import export_table

# Each process is forked from a clean one that has the imports behind it: they start together, and in numbers.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.faults.test_processes", "sqlalchemy.dialects.postgresql.psycopg", "pydantic"])

both = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
A, B = config(B=16), config(B=8)


def _command(arguments: Sequence[str], log: str, barrier: Any, deadly: Callable[[int], None] | None, at: int) -> None:
    """Be the `registry` command: output to files, exit status as it comes."""
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{log}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115  # they stay open until the process ends
    sys.argv = ["registry", *arguments]
    if deadly is not None:
        deadly(at)
    if barrier is not None:
        barrier.wait(60)
    main()


class Command:
    """A `registry` command in a separate process."""

    def __init__(
        self,
        log: Path,
        database: str,
        *arguments: object,
        barrier: Any = None,
        deadly: Callable[[int], None] | None = None,
        at: int = 0,
    ) -> None:
        self.log = log
        words = ["--db", database, *map(str, arguments)]
        self.process: BaseProcess = CONTEXT.Process(
            target=_command, args=(words, str(log), barrier, deadly, at), daemon=True
        )
        self.process.start()

    def result(self) -> tuple[int | None, str]:
        """Exit status and what it said, the line that names the database left out."""
        self.process.join(100)
        said = Path(f"{self.log}.err").read_text().partition("\n")[2]
        return self.process.exitcode, said

    @property
    def output(self) -> str:
        return Path(f"{self.log}.out").read_text()


def run_together(folder: Path, database: str, commands: Sequence[Sequence[object]]) -> list[tuple[int | None, str]]:
    """Start the commands at one moment; their results."""
    barrier = CONTEXT.Barrier(len(commands))
    started = [Command(folder / f"log{n}", database, *words, barrier=barrier) for n, words in enumerate(commands)]
    return [command.result() for command in started]


def counts(store: Store, *tables: str) -> tuple[int, ...]:
    with store.reading() as reading:
        rows = reading.row_counts()
    return tuple(rows[table] for table in tables)


def many_keys(path: Path, number: int, chosen: dict[str, Any] = A, kernel: str = "k", order: int = 1) -> Path:
    keys = [f"M={n}|torch.bfloat16" for n in range(number)][::order]
    return write_recording(path, {"sm90": {kernel: dict.fromkeys(keys, chosen)}})


def succeeded(results: Sequence[tuple[int | None, str]]) -> bool:
    return [said for status, said in results if status != 0] == []


@pytest.mark.parametrize("round_", range(5))
@both
def test_first_use_by_sixteen_processes_makes_one_schema(
    store: Store, database: str, tmp_path: Path, round_: int
) -> None:
    paths = write_ranks(tmp_path, [A] * 16)
    results = run_together(tmp_path, database, [("ingest", path, "--run", "demo") for path in paths])
    assert succeeded(results), results
    assert counts(store, "recordings", "votes", "entries", "recorded_runs") == (16, 16, 1, 1)
    with store.reading() as reading:
        revisions = reading.connection.execute(sa.select(schema.version_table.c.version_num)).scalars().all()
    assert revisions == [schema.HEAD]


@both
def test_first_use_by_upgrades_and_ingests_at_once(store: Store, database: str, tmp_path: Path) -> None:
    ingests = [("ingest", path, "--run", "demo") for path in write_ranks(tmp_path, [A] * 4)]
    results = run_together(tmp_path, database, [*ingests, *[("db", "upgrade")] * 4])
    assert succeeded(results), results
    assert counts(store, "recordings", "votes") == (4, 4)


@both
def test_readers_of_a_database_that_is_being_made_see_none_or_all(store: Store, database: str, tmp_path: Path) -> None:
    commands = [("ingest", many_keys(tmp_path / "rec.rank0.json", 500)), *[("winners", "--format", "json")] * 6]
    results = run_together(tmp_path, database, commands)
    assert results[0][0] == 0
    for status, said in results[1:]:
        assert (status, said) == (0, "500 winners\n") or (status == 1 and "there is no registry here yet" in said)


@both
def test_32_processes_each_with_its_own_file(store: Store, database: str, tmp_path: Path) -> None:
    paths = [many_keys(tmp_path / f"rec.rank{rank}.json", 2000, A if rank % 3 else B) for rank in range(32)]
    results = run_together(tmp_path, database, [("ingest", path, "--run", "demo") for path in paths])
    assert succeeded(results), results
    assert counts(store, "recordings", "votes", "entries", "configs") == (32, 64_000, 2000, 2)
    assert {entry.votes for entry in find_winners(store, Selection())} == {32}


@both
def test_overlapping_files_are_recorded_once(store: Store, database: str, tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [A, B] * 4)
    shares = [[paths[(first + step) % 8] for step in range(4)] for first in range(8)]
    results = run_together(tmp_path, database, [("ingest", *share, "--run", "demo") for share in shares])
    assert succeeded(results), results
    assert counts(store, "recordings", "votes", "entries") == (8, 8, 1)
    assert sum(int(n) for _, said in results for n in re.findall(r"ingested (\d+) recording", said)) == 8


@both
def test_the_same_keys_in_opposite_order_never_deadlock(store: Store, database: str, tmp_path: Path) -> None:
    for turn in range(4):
        paths = [
            many_keys(tmp_path / f"{turn}" / f"rec.rank{rank}.json", 5000, kernel=f"k{turn}", order=order)
            for rank, order in enumerate((1, -1))
        ]
        results = run_together(tmp_path, database, [("ingest", path, "--run", f"run{turn}") for path in paths])
        assert succeeded(results), results
    assert counts(store, "recordings", "votes", "entries") == (8, 40_000, 20_000)


@both
def test_readers_answer_while_a_writer_is_at_work(store: Store, database: str, tmp_path: Path) -> None:
    ingest(store, write_ranks(tmp_path, [A] * 3), IngestOptions(run="demo"))
    table = tmp_path / "sm90.json"
    with store.writing() as transaction:
        transaction.set_withdrawn(schema.recorded_runs, [1], "2026-11-30T00:00:00+00:00")
        results = run_together(tmp_path, database, [("winners",), ("export", "--arch", "sm90", "-o", table)])
        assert succeeded(results), results  # they see the run as it was
        assert results[0][1] == "1 winner\n"
    assert Command(tmp_path / "after", database, "winners").result()[1].startswith("no votes match.")


@both
def test_an_open_reader_does_not_block_a_writer(store: Store, database: str, tmp_path: Path) -> None:
    first, second = write_ranks(tmp_path, [A, A])
    ingest(store, [first], IngestOptions(run="demo"))
    with store.reading() as reading:
        assert reading.row_counts()["votes"] == 1
        assert run_together(tmp_path, database, [("ingest", second, "--run", "demo")])[0][0] == 0
        assert reading.row_counts()["votes"] == 1  # a consistent view
    assert counts(store, "votes") == (2,)


def die_at_statement(at: int) -> None:
    """End this process by SIGKILL just before its `at`-th SQL statement, the commit counted as one."""
    seen = 0

    def count(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    sa.event.listen(sa.Engine, "commit", count)


@both
def test_killed_before_any_statement_all_or_nothing_is_kept(store: Store, database: str, tmp_path: Path) -> None:
    ingest(store, write_ranks(tmp_path / "first", [A]), IngestOptions(run="first"))
    path = many_keys(tmp_path / "rec.rank0.json", 3)
    words = ("ingest", path, "--run", "demo")
    kept: list[tuple[int, ...]] = []
    for at in range(1, 60):
        command = Command(tmp_path / "log", database, *words, deadly=die_at_statement, at=at)
        status, _ = command.result()
        if status == 0:
            break
        assert status == -signal.SIGKILL
        kept.append(counts(store, "recordings", "votes", "entries"))
    assert at > 8  # it died at each of its statements before it came through
    assert set(kept) <= {(1, 1, 1), (2, 4, 4)}
    assert kept == sorted(kept)  # complete from the commit on, before which nothing is kept
    assert kept.count((1, 1, 1)) > 8
    assert counts(store, "recordings", "votes", "entries") == (2, 4, 4)


@both
def test_killed_while_making_the_schema_nothing_is_there(store: Store, database: str, tmp_path: Path) -> None:
    (path,) = write_ranks(tmp_path, [A])
    for at in (1, 2, 5, 10, 15, 20):
        command = Command(tmp_path / "log", database, "ingest", path, deadly=die_at_statement, at=at)
        assert command.result()[0] == -signal.SIGKILL
        assert store.revision() is None
    assert Command(tmp_path / "log", database, "ingest", path).result()[0] == 0
    assert counts(store, "recordings", "votes") == (1, 1)


@both
def test_killed_at_a_random_moment_all_or_nothing_is_kept(store: Store, database: str, tmp_path: Path) -> None:
    chance = random.Random(5)
    path = many_keys(tmp_path / "rec.rank0.json", 800)
    ingest(store, [path], IngestOptions(run="first"))
    for turn in range(1, 13):
        words = ("ingest", path, "--run", f"run{turn}")
        barrier = CONTEXT.Barrier(2)
        command = Command(tmp_path / "log", database, *words, barrier=barrier)
        barrier.wait(60)
        command.process.join(chance.random() * 0.3)
        command.process.kill()
        command.process.join()
        assert counts(store, "recordings", "votes") in {(turn, 800 * turn), (turn + 1, 800 * (turn + 1))}
        assert Command(tmp_path / "log", database, *words).result()[0] == 0
        assert counts(store, "recordings", "votes", "entries") == (turn + 1, 800 * (turn + 1), 800)


def die_at_line(at: int) -> None:
    """End this process by SIGKILL before the `at`-th line that it runs of the functions that replace a file."""
    replacing = (write_together.__code__, _write_beside.__code__)
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        if frame.f_code not in replacing:
            return None
        seen += event == "line"
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def test_killed_during_an_export_the_file_is_whole(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/registry.db"
    store = Store(sa.make_url(database))
    ingest(store, write_ranks(tmp_path, [A]), IngestOptions(run="demo"))
    new = export_table(store, Selection(arch="sm90")).data
    old = json.dumps({"arch": "sm90", "kernels": {}}).encode()
    table = tmp_path / "tables" / "sm90.json"
    table.parent.mkdir()
    seen = set()
    for at in range(1, 60):
        table.write_bytes(old)
        words = ("export", "--arch", "sm90", "-o", table)
        status, _ = Command(tmp_path / "log", database, *words, deadly=die_at_line, at=at).result()
        seen.add(table.read_bytes())
        others = [file.name for file in table.parent.iterdir() if file != table]
        assert [name for name in others if not (name.startswith(".") and name.endswith(".tmp"))] == []
        if status == 0:
            break
        assert status == -signal.SIGKILL
    assert at > 8  # it died at each line before it came through
    assert seen == {old, new}
