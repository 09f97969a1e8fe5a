"""Everything in which SQLite and Postgres differ: connecting, locking, bulk insertion, error codes."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, StaticPool

from tuning_registry.db.url import is_in_memory, shown_url, sqlite_file
from tuning_registry.errors import BusyError, DatabaseError

LOCK_WAIT_S: Final = 60.0
_CONNECT_DEFAULTS: Final[dict[str, Any]] = {"connect_timeout": 15, "application_name": "tuning-registry"}
_ADVISORY_LOCK: Final = 0x7475_6E65_7265_6769  # "tuneregi": one writer at a time, in this database only
_NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "9p", "fuse.sshfs", "wekafs"}
)


def connect_engine(url: sa.URL, *, writable: bool) -> sa.Engine:
    """An engine on `url`. SQLite connections are autocommit; transactions start by `begin_transaction`.

    Raises:
        DatabaseError: The Postgres driver is not installed.
    """
    if url.get_backend_name() == "postgresql":
        return _postgres_engine(url)
    if is_in_memory(url):
        return sa.create_engine("sqlite://", creator=lambda: _sqlite_connection(":memory:"), poolclass=StaticPool)
    file = sqlite_file(url)
    assert file is not None
    return sa.create_engine("sqlite://", creator=lambda: _open_sqlite(file, writable=writable), poolclass=NullPool)


def _postgres_engine(url: sa.URL) -> sa.Engine:
    try:
        return sa.create_engine(
            url,
            poolclass=NullPool,
            connect_args={name: value for name, value in _CONNECT_DEFAULTS.items() if name not in url.query},
        )
    except ModuleNotFoundError as error:
        raise DatabaseError("Postgres needs its driver: pip install 'tuning-registry[postgres]'") from error


def _sqlite_connection(target: str, *, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(
        target, timeout=LOCK_WAIT_S, isolation_level=None, uri=uri, check_same_thread=False
    )  # SQLAlchemy's pool hands a connection to one thread at a time
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _open_sqlite(file: Path, *, writable: bool) -> sqlite3.Connection:
    if writable:
        return _sqlite_connection(str(file))
    address = file.as_uri()
    connection = _sqlite_connection(f"{address}?mode=ro", uri=True)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        # A database in WAL mode cannot be read where its -shm file cannot be made (a read-only folder).
        # Without a -wal file nothing is pending, and the file alone is the whole database.
        if os.access(file.parent, os.W_OK):
            raise
        wal = file.with_name(file.name + "-wal")
        if wal.exists() and wal.stat().st_size:
            raise DatabaseError(
                f"sqlite:///{file}: the last changes are still in {wal.name}, which cannot be read in a read-only "
                "folder; let someone who may write to it run: registry db upgrade"
            ) from None
        connection = _sqlite_connection(f"{address}?mode=ro&immutable=1", uri=True)
    return connection


def begin_transaction(connection: sa.Connection, *, writing: bool) -> None:
    """Open a transaction: a snapshot to read from, or the one write lock of the database.

    SQLite begins IMMEDIATE, since a read lock cannot be raised under load; Postgres takes an advisory
    lock, so that two writers never deadlock on the rows they share.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
        return
    if writing:
        connection.execute(sa.text(f"SET LOCAL lock_timeout = '{int(LOCK_WAIT_S * 1000)}ms'"))
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
    else:
        connection.execute(sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))


def prepare_new_sqlite(file: Path) -> None:
    """Make the folder and put a new file into WAL mode, where a reader never blocks a writer.

    The mode is stored in the file. Network file systems cannot share the memory it needs: there the
    file keeps its rollback journal.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    if network_file_system(file.parent):
        return
    connection = _sqlite_connection(str(file))
    try:
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                # Another process is doing the same; SQLite does not wait here by itself.
                if _sqlite_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
    finally:
        connection.close()


def network_file_system(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Type of the network file system that holds `folder`; empty for a local one (or where unknown)."""
    try:
        rows = [line.split() for line in mounts.read_text(errors="replace").splitlines()]
        place = Path(os.path.realpath(folder))  # unlike `resolve`, takes a loop of links
    except OSError:
        return ""
    best, kind = -1, ""
    for _, point, fs_type, *_ in filter(None, rows):
        mount = Path(point.replace("\\040", " "))
        if (place == mount or mount in place.parents) and len(mount.parts) >= best:
            best, kind = len(mount.parts), fs_type
    return kind if kind in _NETWORK_FILE_SYSTEMS else ""


def insert_votes(connection: sa.Connection, choices: list[tuple[int, int, list[int]]]) -> None:
    """Insert votes: `(entry id, config id, recording ids)`, sorted.

    One statement a choice, unrolled inside the database: many times faster than a row a vote.
    """
    if not choices:
        return
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(
            "INSERT INTO votes (entry_id, config_id, recording_id) SELECT ?, ?, value FROM json_each(?)",
            [(entry, config, json.dumps(ids)) for entry, config, ids in choices],
        )
    else:
        connection.exec_driver_sql(
            "INSERT INTO votes (entry_id, config_id, recording_id) SELECT %s, %s, unnest(%s::bigint[])", choices
        )


def translate_error(error: Exception, url: sa.URL) -> DatabaseError:
    """Our error for one of the driver's, by its code and never by its text."""
    where = shown_url(url)
    original = getattr(error, "orig", None) or error
    if isinstance(original, sqlite3.Error):
        return _translate_sqlite(original, where)
    state = getattr(original, "sqlstate", None)
    if state in {"55P03", "40P01", "40001"}:
        return BusyError(f"{where}: another writer held the lock for over {LOCK_WAIT_S:g} s; try again")
    if state == "42501":
        return DatabaseError(f"{where}: this role lacks the right: {_first_line(original, url)}")
    if getattr(error, "connection_invalidated", False):
        return DatabaseError(f"{where}: the connection was lost: {_first_line(original, url)}")
    if state is None and isinstance(error, sa.exc.OperationalError):
        return DatabaseError(f"{where}: cannot connect: {_first_line(original, url)}")
    return DatabaseError(f"{where}: {_first_line(original, url)}")


def _translate_sqlite(error: sqlite3.Error, where: str) -> DatabaseError:
    code = _sqlite_code(error)
    said = {
        sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a backup (nothing was changed)",
        sqlite3.SQLITE_NOTADB: "the file is not an SQLite database",
        sqlite3.SQLITE_READONLY: "the database or its folder is read-only",
        sqlite3.SQLITE_FULL: "the disk is full; nothing of this was kept",
        sqlite3.SQLITE_CANTOPEN: "the file cannot be opened (is the folder there, and may you write to it?)",
        sqlite3.SQLITE_PROTOCOL: "locking does not work on this file system; use a local disk, or Postgres",
        sqlite3.SQLITE_IOERR: f"the disk failed: {error}",
    }.get(code)
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return BusyError(f"{where}: another process held the lock for over {LOCK_WAIT_S:g} s; try again")
    return DatabaseError(f"{where}: {said or error}")


def _sqlite_code(error: sqlite3.Error) -> int:
    """The primary result code: extended codes keep it in their low byte."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _first_line(error: object, url: sa.URL) -> str:
    text = str(error).strip().partition("\n")[0]
    return text.replace(str(url.password), "***") if url.password else text


def engine_name(connection: sa.Connection) -> str:
    """Database and version, for `registry status`."""
    if connection.dialect.name == "sqlite":
        return f"SQLite {sqlite3.sqlite_version}"
    return f"Postgres {connection.exec_driver_sql('SHOW server_version').scalar_one()}"


def damage(connection: sa.Connection) -> list[str]:
    """What SQLite's own integrity check finds; Postgres checks its pages as it reads them."""
    if connection.dialect.name != "sqlite":
        return []
    found = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
    return [] if list(found) == ["ok"] else [f"integrity: {line}" for line in found]
