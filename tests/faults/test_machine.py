"""Faults of the machine around us: full disks, read-only places, damaged files, locks."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.conftest import H200, Cli, run_registry, write_ranks
from tests.helpers import (
    A,
    contents,
    error_of,
    many_keys,
    on_both,
    on_sqlite,
    run_as_nobody,
    run_prepared,
    votes_in,
)
from tuning_registry.cli.app import app
from tuning_registry.db import dialects
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url

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
        assert error_of(cli("ingest", big)).endswith("/registry.db: the disk is full; nothing was written")
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


@on_sqlite
def test_a_disk_that_fills_up_while_parquet_is_written(database: str, cli: Cli, tmp_path: Path) -> None:
    assert cli("ingest", H200).exit_code == 0
    out = tmp_path / "out"
    out.mkdir()
    (out / "entries.parquet").write_text("old")
    # More than the 32 KiB that SQLite needs for its -shm file, and less than the timings need.
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (34_000, 34_000))"
    result = run_prepared(limit, "--db", database, "export", "--to", "parquet", "-o", out)
    assert error_of(result) == f"error: {out}/timings.parquet: cannot be written: File too large"
    assert contents(out) == {"entries.parquet": b"old"}


@pytest.mark.parametrize("words", [("export", "--arch", "sm90"), ("winners",), ("status",), ("db", "path")])
@on_sqlite
def test_a_full_disk_behind_stdout(database: str, cli: Cli, words: tuple[str, ...]) -> None:
    assert cli("ingest", H200).exit_code == 0
    command = [sys.executable, "-m", "tuning_registry", "--db", database, *words]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert error_of(result) == "error: cannot write the output: No space left on device"


# Places where one may only read


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
    file.parent.mkdir()
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
def test_a_file_that_is_not_a_database(cli: Cli, tmp_path: Path, words: tuple[str, ...], content: bytes) -> None:
    file = tmp_path / "registry.db"
    file.write_bytes(content)
    assert error_of(cli(*words)).endswith("/registry.db: the file is not an SQLite database")
    assert file.read_bytes() == content


@pytest.mark.parametrize("words", [("ingest", H200), ("winners",), ("db", "upgrade")])
@on_sqlite
def test_a_database_that_is_not_a_file(cli: Cli, tmp_path: Path, words: tuple[str, ...]) -> None:
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


def test_a_file_of_a_gigabyte_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "rec.rank0.json"
    with file.open("wb") as out:
        out.write(b'{"sm90": {"k": {"M=1": [')
        out.truncate(1 << 30)
    for words in (("ingest", file), ("check", file)):
        result = CliRunner().invoke(app, ["--db", str(tmp_path / "r.db"), *map(str, words)])
        assert "rec.rank0.json: larger than the limit of 256 MiB" in result.stderr
        assert result.exit_code == 1


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
