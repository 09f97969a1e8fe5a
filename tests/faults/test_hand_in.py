"""Ranks whose database or disk fails: training goes on, the log says where the recording is, the exit is quick.

Hand-ins during a run, folders and services that are killed: `test_folding.py`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, empty_database
from tuning_registry.db.appending import may_accept
from tuning_registry.db.migrate import upgrade_database
from tuning_registry.db.schema import VERSION_TABLE
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest.folding import fold
from tuning_registry.operations.ingest.ingest import ingest

BUDGET_S = 1.5  # instead of the 20 s of a job
VOTES = 200
# A rank with the real hand-in: it votes, waits for a line where one is to come, votes again, and ends.
RANK = """
import json, logging, os, resource, sys, time
logging.basicConfig(format="%(message)s")
path, budget_s, votes, setting = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
import tuning_registry.db.appending, psycopg
from tuning_registry.model.canonical import config_text
from tuning_registry.runtime import guard
from tuning_registry.runtime.recording import hand_in, recorder
from tuning_registry.runtime.recording.owners import Owners
Owners().find(["json.k"])
hand_in.HandIn.finish.__defaults__ = (budget_s,)
if "nobody" in setting and os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
made = recorder.Recorder(path, "job", None, interval_s=0.02)
config = config_text({"kwargs": {"B": 64}, "num_warps": 4, "num_stages": 3})

def vote(first, last):
    slowest = 0.0
    for number in range(first, last):
        begin = time.perf_counter()
        made.vote(("sm90", "json.k", f"M={number}"), config, [], [config])
        slowest = max(slowest, time.perf_counter() - begin)
    return slowest

slowest = vote(0, 1)
deadline = time.monotonic() + 10
while made.file is None and not guard.fault_counts() and time.monotonic() < deadline:
    time.sleep(0.01)
if "limit" in setting:
    resource.setrlimit(resource.RLIMIT_FSIZE, (setting["limit"], setting["limit"]))
print(made.file, flush=True)
if "wait" in setting:
    sys.stdin.readline()
slowest = max(slowest, vote(1, votes))
begin = time.monotonic()
made.finish()
print(json.dumps({"slowest_s": slowest, "finish_s": time.monotonic() - begin,
                  "file": str(made.file) if made.file else None, "faults": guard.fault_counts()}))
"""


class Rank:
    """A rank at work in a separate process; `ended` waits for its end, which must be exit status 0, and soon."""

    def __init__(self, path: str | Path, folder: Path, **setting: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-c", RANK, str(path), str(BUDGET_S), str(VOTES), json.dumps(setting)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(folder), "TMPDIR": str(folder)}
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.first_file = self.process.stdout.readline().strip()

    def ended(self) -> tuple[dict[str, Any], str]:
        """What it says of itself, and its log."""
        out, log = self.process.communicate("go\n", timeout=60)
        assert self.process.returncode == 0, log
        said = json.loads(out)
        assert said["slowest_s"] < 0.5
        assert said["finish_s"] < BUDGET_S + 5
        return said, log


def votes_of(file: str | Path, tmp_path: Path) -> int:
    """How many votes an ingest takes from a file that a rank left behind."""
    store = Store(parse_url(str(tmp_path / "later.db")))
    ingest(store, [str(file)])
    return len(find_winners(store, Selection()))


def assert_kept_in_the_file(rank: Rank, reason: str, tmp_path: Path) -> None:
    said, log = rank.ended()
    assert log.count("cannot hand in the recording to ") == 1
    assert reason in log
    assert f"the recording stays in its file; to ingest it later, run: registry ingest {said['file']} --db " in log
    assert "SECRET" not in log
    assert votes_of(said["file"], tmp_path) == VOTES


def test_a_server_that_nobody_runs(tmp_path: Path) -> None:
    rank = Rank("postgresql://u:SECRET@127.0.0.1:1/db", tmp_path / "user")
    assert_kept_in_the_file(rank, "cannot connect", tmp_path)


def test_a_server_that_never_answers_keeps_no_thread_waiting() -> None:
    """Whoever asks whether to try again must neither wait forever nor keep the training loop waiting."""
    gaps: list[float] = []
    ended = threading.Event()

    def step() -> None:
        while not ended.is_set():
            began = time.monotonic()
            time.sleep(0.01)
            gaps.append(time.monotonic() - began)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        training = threading.Thread(target=step)
        training.start()
        try:
            assert not may_accept(f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/db?connect_timeout=2")
        finally:
            ended.set()
            training.join()
    assert max(gaps) < 1.5


def test_whether_a_server_is_there_to_wait_for(postgres_server: str) -> None:
    assert may_accept(postgres_server)
    assert may_accept(postgres_server.replace("/postgres?", "/nosuch?"))  # refused by a server
    assert not may_accept("postgresql://u@127.0.0.1:1/db")
    assert not may_accept("postgresql://u@/db?host=/nowhere")


def test_a_server_that_is_stopped_during_the_run(own_server: Any, tmp_path: Path) -> None:
    url = own_server.get_uri()
    upgrade_database(Store(parse_url(url)))
    rank = Rank(url, tmp_path / "user", wait=True)
    own_server.cleanup()
    assert_kept_in_the_file(rank, "cannot connect", tmp_path)


def test_a_server_that_stays(postgres_server: str, tmp_path: Path) -> None:
    with empty_database(postgres_server) as url:
        store = Store(parse_url(url))
        upgrade_database(store)
        said, log = Rank(url, tmp_path / "user").ended()
        assert (said["file"], said["faults"], log) == (None, {}, "")
        assert fold(store).hand_ins == 1
        assert len(find_winners(store, Selection())) == VOTES


def test_a_database_without_a_registry(tmp_path: Path) -> None:
    rank = Rank(f"sqlite:///{tmp_path}/registry.db", tmp_path / "user")
    assert_kept_in_the_file(rank, "there is no registry here yet", tmp_path)
    assert not (tmp_path / "registry.db").exists()  # a rank creates no database


@pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
def test_a_database_from_before_hand_ins(store: Store, database: str, tmp_path: Path) -> None:
    upgrade_database(store, "0006")
    rank = Rank(database, tmp_path / "user")
    assert_kept_in_the_file(rank, "there is no registry here yet, or its schema is too old for hand-ins; run: "
                            "registry db upgrade",
                            tmp_path)  # fmt: skip


@pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
def test_a_database_of_a_later_revision_takes_hand_ins(store: Store, database: str, tmp_path: Path) -> None:
    """Ranks of a running job do not mind an upgrade."""
    upgrade_database(store)
    with store.writing() as transaction:
        transaction.connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    said, log = Rank(database, tmp_path / "user").ended()
    assert (said["file"], log) == (None, "")


def test_an_sqlite_file_that_another_process_keeps_locked(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/registry.db"
    store = Store(parse_url(database))
    upgrade_database(store)
    with store.writing():
        assert_kept_in_the_file(Rank(database, tmp_path / "user"), "held the lock for over", tmp_path)


def test_a_lock_that_is_let_go_in_time(tmp_path: Path) -> None:
    store = Store(parse_url(str(tmp_path / "registry.db")))
    upgrade_database(store)
    with store.writing():
        rank = Rank(f"sqlite:///{tmp_path}/registry.db", tmp_path / "user", wait=True)
        assert rank.process.stdin is not None
        rank.process.stdin.write("go\n")
        rank.process.stdin.flush()
        time.sleep(BUDGET_S / 2)
    said, log = rank.ended()
    assert (said["file"], log) == (None, "")
    assert fold(store).votes == VOTES


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_the_write_lock_of_postgres_holds_up_no_hand_in(store: Store, database: str, tmp_path: Path) -> None:
    upgrade_database(store)
    with store.writing():
        said, log = Rank(database, tmp_path / "user").ended()
    assert (said["file"], log) == (None, "")
    assert fold(store).votes == VOTES


@pytest.fixture
def anyones(public: Path) -> Path:
    """The folder of a user that may write there, also as `nobody`."""
    folder = public / "user"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def test_a_read_only_database(public: Path, anyones: Path, tmp_path: Path) -> None:
    file = public / "shared" / "registry.db"
    file.parent.mkdir()
    upgrade_database(Store(parse_url(str(file))))
    file.chmod(0o444)
    file.parent.chmod(0o555)
    rank = Rank(f"sqlite:///{file}", anyones, nobody=True)
    assert_kept_in_the_file(rank, "the database or its folder is read-only", tmp_path)
    assert [path.name for path in file.parent.iterdir()] == ["registry.db"]


def test_a_read_only_folder_of_recordings(public: Path, anyones: Path, tmp_path: Path) -> None:
    (public / "shared").mkdir(mode=0o555)
    said, log = Rank(public / "shared" / "r", anyones, nobody=True).ended()
    (file,) = anyones.glob("r.job.*.json")
    assert log.count("writing the recording failed") == 1
    assert f"Permission denied; the recording is in {file}" in log
    assert said["faults"]["writing the recording"] >= 1
    assert votes_of(file, tmp_path) == VOTES


def test_a_file_that_may_not_grow_keeps_what_was_written_before(tmp_path: Path) -> None:
    """Nothing at all can be written: the fault is counted, and the last whole state stays."""
    rank = Rank(tmp_path / "rec" / "r", tmp_path / "user", limit=1000)
    said, log = rank.ended()
    assert [str(file) for file in (tmp_path / "rec").iterdir()] == [rank.first_file] == [said["file"]]
    assert votes_of(said["file"], tmp_path) == 1
    assert log.count("writing the recording failed") <= 1
    assert log.count("finishing the recording failed") == 1
    assert said["faults"]["finishing the recording"] == 1
    assert list((tmp_path / "user").iterdir()) == []


def test_a_full_disk(tmp_path: Path) -> None:
    """A separate disk of 16 KiB, if mounting one is permitted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a file system is not permitted here")
    try:
        rank = Rank(disk / "r", tmp_path / "user")
        _, log = rank.ended()
        (file,) = (tmp_path / "user").glob("r.job.*.json")
        assert log.count(f"No space left on device; the recording is in {file}") == 1
        assert log.count("writing the recording failed") <= 1
        assert votes_of(file, tmp_path) == VOTES
        assert [str(path) for path in disk.iterdir()] == [rank.first_file]
    finally:
        subprocess.run(["umount", disk], check=True)
