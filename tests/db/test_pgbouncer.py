"""The registry behind a real PgBouncer in transaction mode, where each transaction may get another server connection."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from tests.conftest import H200, ROOT, DebianPostgres, config, write_ranks
from tuning_registry.cli.app import app
from tuning_registry.db.migrate import downgrade_database
from tuning_registry.db.schema import HEAD
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url

A, B = config(B=1), config(B=2)
_PORT = 6432  # of the socket file; nothing listens on the network
_POOLED = 2  # server connections, fewer than the clients of a test
_STARTS_WITHIN_S = 20.0


class PgBouncer:
    """A PgBouncer in transaction mode in front of a server. Skips the test if it is not installed; on CI, fails it."""

    def __init__(self, server: DebianPostgres) -> None:
        program = shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
        if program is None:
            if os.environ.get("CI"):
                pytest.fail("CI must install Debian's pgbouncer")
            pytest.skip("pgbouncer is not installed on this machine (Debian has it)")
        self._server = server
        self._file = file = server.folder / "pgbouncer.ini"
        self._settings = (
            f"[databases]\n* = host={server.folder} user=postgres\n"
            f"[pgbouncer]\npool_mode = transaction\nauth_type = any\nunix_socket_dir = {server.folder}\n"
            f"listen_port = {_PORT}\ndefault_pool_size = {_POOLED}\nlogfile = {server.folder}/pgbouncer.log\n"
        )
        file.write_text(self._settings)
        user: dict[str, Any] = {}
        if os.geteuid() == 0:  # it refuses to run as root
            account = pwd.getpwnam("postgres")
            user = {"user": account.pw_uid, "group": account.pw_gid}
        self._process = subprocess.Popen([program, "-q", str(file)], cwd=server.folder, **user)
        self._await_start()

    def _await_start(self) -> None:
        deadline = time.monotonic() + _STARTS_WITHIN_S
        while True:
            try:
                with psycopg.connect(self.url("postgres")):
                    return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._server.folder}&port={_PORT}"

    @contextlib.contextmanager
    def limited_to(self, clients: int) -> Iterator[None]:
        """Let it refuse connections beyond so many."""
        self._file.write_text(self._settings + f"max_client_conn = {clients}\n")
        self._process.send_signal(signal.SIGHUP)
        yield
        self._file.write_text(self._settings)
        self._process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=10)


@pytest.fixture(scope="module")
def bouncer() -> Iterator[tuple[PgBouncer, DebianPostgres]]:
    server = DebianPostgres()
    server.make()
    server.start()
    try:
        made = PgBouncer(server)
    except BaseException:
        server.remove()
        raise
    yield made, server
    made.stop()
    server.remove()


@pytest.fixture
def pooled(bouncer: tuple[PgBouncer, DebianPostgres], request: pytest.FixtureRequest) -> str:
    """URL of an empty database behind the pooler."""
    made, server = bouncer
    name = f"r{abs(hash(request.node.name)):x}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return made.url(name)


def run_cli(*words: object) -> Result:
    return CliRunner().invoke(app, list(map(str, words)), prog_name="registry")


def count(url: str, table: str) -> int:
    with psycopg.connect(url, prepare_threshold=None) as connection:
        row = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def test_a_session_sees_that_the_pooler_shares_server_connections(pooled: str) -> None:
    with psycopg.connect(pooled, autocommit=True) as connection:
        connection.execute("PREPARE mine AS SELECT 1")
    with psycopg.connect(pooled, autocommit=True) as other:
        found = other.execute("SELECT count(*) FROM pg_prepared_statements WHERE name = 'mine'").fetchone()
    assert found == (1,)


def test_ingest_and_every_read_work_again_and_again(pooled: str, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        done = run_cli("--db", pooled, "ingest", H200, "--run", name)
        assert done.exit_code == 0, done.stderr
    assert count(pooled, "votes") == 3 * 360
    table = tmp_path / "sm90.json"
    for words in (
        ("winners", "--policy", "fastest"), ("disagreements", "--cost"), ("ranks",), ("kernels",), ("misses",),
        ("explain", "--arch", "sm90", "--kernel", "*norm*"), ("status",), ("runs",), ("db", "check"),
        ("export", "--arch", "sm90", "-o", table), ("diff", table), ("exports",), ("runs", "withdraw", "one"),
        ("ban", "--arch", "sm90", "--kernel", "l2norm_fwd_kernel", "--key", "*", "--config", json.dumps(A),
         "--reason", "r", "--force"),
    ):  # fmt: skip
        done = run_cli("--db", pooled, *words)
        assert done.exit_code == 0, (words, done.stderr)


RANK = """
import json, sys
from tests.conftest import config, version_2
from tuning_registry.formats.hand_ins import pack_hand_in
from tuning_registry.runtime.recording.hand_in import HandIn
url, first = sys.argv[1], int(sys.argv[2])
for rank in range(first, first + 3):
    recording = version_2({"sm90": {"k": {"M=1": config(B=1)}}}, rank, rank=rank)
    payload = pack_hand_in([json.dumps(recording).encode()])
    assert HandIn(url, lambda: payload, lambda: False).finish(), rank
"""


@pytest.mark.parametrize("clients", [100, 2])  # fewer clients than ranks: the pooler refuses, and a rank tries again
def test_ranks_hand_in_through_it_at_the_same_time(
    bouncer: tuple[PgBouncer, DebianPostgres], pooled: str, clients: int
) -> None:
    pooler, _ = bouncer
    assert run_cli("--db", pooled, "db", "upgrade").exit_code == 0
    with pooler.limited_to(clients):
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", RANK, pooled, str(first)], cwd=ROOT, stderr=subprocess.PIPE, text=True
            )
            for first in range(0, 18, 3)
        ]
        assert [(rank.communicate(timeout=120)[1], rank.returncode) for rank in ranks] == [("", 0)] * 6
    done = run_cli("--db", pooled, "fold")
    assert (done.exit_code, "folded 18 hand-ins" in done.stderr) == (0, True), done.stderr
    assert count(pooled, "votes") == 18


def test_the_schema_is_created_and_upgraded_through_it(pooled: str, tmp_path: Path) -> None:
    assert run_cli("--db", pooled, "db", "upgrade").exit_code == 0
    downgrade_database(Store(parse_url(pooled)), "0001")
    done = run_cli("--db", pooled, "db", "upgrade")
    assert (done.exit_code, f"from 0001 to {HEAD}" in done.stderr) == (0, True), done.stderr
    assert run_cli("--db", pooled, "ingest", *write_ranks(tmp_path, [A, B]), "--run", "r").exit_code == 0
    assert run_cli("--db", pooled, "db", "check").exit_code == 0
