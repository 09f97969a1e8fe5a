"""Every difference between SQLite and Postgres: connecting, locking, bulk inserts, error codes."""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, StaticPool

from tuning_registry.db.faults import postgres_fault, sqlite_code, sqlite_fault
from tuning_registry.db.roles import READ, missing_right
from tuning_registry.db.url import is_in_memory, shown_url, sqlite_file
from tuning_registry.errors import DatabaseError, UsageError
from tuning_registry.log import warn

LOCK_WAIT_S: Final = 60.0
_CONNECT_DEFAULTS: Final[dict[str, Any]] = {
    "connect_timeout": 15,
    "application_name": "tuning-registry",
    # A host that vanishes in the middle of a statement is noticed after a minute and a half, and not after two hours.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 6,
}
# No prepared statements: behind a pooler in transaction mode, such as PgBouncer, the next transaction may run on a
# server connection that has others of the same name.
_UNPREPARED: Final[dict[str, Any]] = {"prepare_threshold": None}
_REPEATED: Final = frozenset({"host", "port"})  # options of which each further value is another server
_SHORTEST_CONNECT_S: Final = 2  # libpq rounds a shorter timeout up to this
_ROWS_A_STATEMENT: Final = (
    100  # SQLite inserts these in half the time of single rows; old versions bind at most 999 values
)
_ADVISORY_LOCK: Final = 0x7475_6E65_7265_6769  # "tuneregi": one writer at a time, in this database only
_COPY_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "9p", "fuse.sshfs", "wekafs"}
)


def connect_engine(url: sa.URL, *, writable: bool, wait_s: float | None = None) -> sa.Engine:
    """An engine on `url`. SQLite connections are in autocommit mode; `begin_transaction` starts transactions.

    Args:
        url: The database.
        writable: Whether it will be written.
        wait_s: How long to wait for a lock, and at most for a server; None means `LOCK_WAIT_S` and the usual timeout.

    Raises:
        DatabaseError: The Postgres driver is not installed.
    """
    if url.get_backend_name() == "postgresql":
        return _postgres_engine(url, wait_s)
    if is_in_memory(url):
        return sa.create_engine("sqlite://", creator=lambda: _sqlite_connection(":memory:"), poolclass=StaticPool)
    file = sqlite_file(url)
    assert file is not None
    return sa.create_engine("sqlite://", creator=lambda: _open_sqlite(file, writable, wait_s), poolclass=NullPool)


def _postgres_engine(url: sa.URL, wait_s: float | None) -> sa.Engine:
    defaults = dict(_CONNECT_DEFAULTS)
    if wait_s is not None:
        defaults["connect_timeout"] = max(_SHORTEST_CONNECT_S, min(defaults["connect_timeout"], int(wait_s)))
    stated = {name: value for name, value in defaults.items() if name not in url.query}
    try:
        engine = sa.create_engine(url, poolclass=NullPool, connect_args={**stated, **_UNPREPARED})
    except ImportError as error:  # no psycopg, or one without libpq
        raise DatabaseError(
            "Postgres needs the driver psycopg, which is not installed; run: pip install 'psycopg[binary]'"
        ) from error
    _refuse_unknown_options(url, engine.dialect.loaded_dbapi)
    return engine


def _refuse_unknown_options(url: sa.URL, psycopg: Any) -> None:
    """Refuse options of a URL that libpq does not know, since psycopg would take some of them for its own arguments."""
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    unknown = sorted(url.query.keys() - known)
    if unknown:
        raise UsageError(
            f"the database URL has an unknown connection option {unknown[0]!r}; expected one of libpq, such as "
            "sslmode or connect_timeout"
        )
    for name, value in url.query.items():
        if not isinstance(value, str) and name not in _REPEATED:
            raise UsageError(f"the database URL states {name} {len(value)} times; expected once")


def _sqlite_connection(target: str, *, uri: bool = False, wait_s: float | None = None) -> sqlite3.Connection:
    connection = sqlite3.connect(
        target, timeout=lock_wait_s(wait_s), isolation_level=None, uri=uri, check_same_thread=False
    )  # SQLAlchemy's pool hands a connection to one thread at a time
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def lock_wait_s(wait_s: float | None) -> float:
    """How long to wait for a lock: `wait_s`, or the default if it is None."""
    return LOCK_WAIT_S if wait_s is None else wait_s


def _open_sqlite(file: Path, writable: bool, wait_s: float | None) -> sqlite3.Connection:
    if writable:
        return _sqlite_connection(str(file), wait_s=wait_s)
    wal = file.with_name(file.name + "-wal")
    if os.access(file, os.W_OK) and os.access(file.parent, os.W_OK):
        # Not mode=ro: such a connection cannot delete the -wal and -shm files when it closes. Left behind under a
        # reader's name, they would lock the owner out.
        connection = _sqlite_connection(f"{file.as_uri()}?mode=rw", uri=True, wait_s=wait_s)
        connection.execute("PRAGMA query_only = ON")
        return connection
    if not (wal.exists() and wal.stat().st_size):
        # Nothing is pending, so the file alone is the whole database, and SQLite need not create files next to it.
        return _sqlite_connection(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)
    connection = _sqlite_connection(f"{file.as_uri()}?mode=ro", uri=True)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        raise DatabaseError(
            f"sqlite:///{file}: the last changes are still in {wal.name}, which this user cannot read; ask someone "
            "with write access to run: registry db upgrade"
        ) from None
    return connection


def begin_transaction(connection: sa.Connection, *, writing: bool, wait_s: float | None = None) -> None:
    """Open a transaction: a snapshot to read from, or the one write lock of the database.

    SQLite begins IMMEDIATE, since under load a read lock cannot become a write lock. Postgres takes an advisory
    lock, so that two writers never deadlock on the rows that both need.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
        return
    if writing:
        begin_claiming(connection, wait_s)
        take_write_lock(connection)
    else:
        connection.execute(sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))


def begin_claiming(connection: sa.Connection, wait_s: float | None = None) -> None:
    """Open a transaction that claims rows of a queue first, and takes the write lock afterwards.

    Rows can only be claimed one by one on Postgres. On SQLite the write lock claims them all.
    """
    if connection.dialect.name == "sqlite":
        begin_transaction(connection, writing=True)
    else:
        connection.execute(sa.text(f"SET LOCAL lock_timeout = '{int(lock_wait_s(wait_s) * 1000)}ms'"))


def take_write_lock(connection: sa.Connection) -> None:
    """Take the write lock after `begin_claiming`."""
    if connection.dialect.name != "sqlite":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))


def prepare_new_sqlite(file: Path) -> None:
    """Create a new file in WAL mode, in which readers never block the writer, and its folder.

    The file stores the mode. Network file systems cannot share the memory that it needs, so a file there keeps its
    rollback journal.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    if network_file_system(file.parent):
        return
    connection = _sqlite_connection(str(file))
    try:
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                if mode != "wal":
                    warn(
                        "sqlite:///%s: this file system does not support WAL mode (%s), so readers and writers block each "
                        "other; keep the file on a local disk, or use Postgres", file, mode,
                    )  # fmt: skip
                return
            except sqlite3.OperationalError as error:
                # Another process does the same at this moment. SQLite does not wait by itself here.
                if sqlite_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
    finally:
        connection.close()


def network_file_system(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Type of the network file system that holds `folder`; empty if it is local or unknown."""
    try:
        rows = [line.split() for line in mounts.read_text(errors="replace").splitlines()]
        place = Path(os.path.realpath(folder))  # unlike `resolve`, accepts a loop of links
    except OSError:
        return ""
    best, kind = -1, ""
    for _, point, fs_type, *_ in filter(None, rows):
        mount = Path(point.replace("\\040", " "))
        if (place == mount or mount in place.parents) and len(mount.parts) >= best:
            best, kind = len(mount.parts), fs_type
    return kind if kind in _NETWORK_FILE_SYSTEMS else ""


def insert_returning_ids(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> list[int]:
    """Insert rows; their ids, in the same order. The caller holds the write lock.

    To return ids, SQLite's driver would insert one row per statement. There the ids are counted up instead.
    """
    if connection.dialect.name != "sqlite":
        query = sa.insert(table).returning(table.c.id, sort_by_parameter_order=True)
        return list(connection.execute(query, rows).scalars())
    last = connection.execute(sa.select(sa.func.coalesce(sa.func.max(table.c.id), 0))).scalar_one()
    ids = list(range(last + 1, last + 1 + len(rows)))
    connection.execute(sa.insert(table), [{"id": identity, **row} for identity, row in zip(ids, rows, strict=True)])
    return ids


def insert_unrolled(
    connection: sa.Connection,
    table: sa.Table,
    columns: tuple[str, str],
    groups: Sequence[tuple[int, int | str, list[int]]],
) -> None:
    """Insert one row per recording of each group `(entry id, value, recording ids)`; `columns` name the first two.

    Groups are sorted. SQLite unrolls a group inside one statement, and Postgres receives all of them by COPY: both are
    many times faster than one row per recording.
    """
    if not groups:
        return
    into = f"{table.name} ({', '.join(columns)}, recording_id)"
    if connection.dialect.name == "sqlite":
        rows = [(entry, value, json.dumps(ids)) for entry, value, ids in groups]
        statement = f"INSERT INTO {into} SELECT ?, ?, value FROM json_each(?)"  # noqa: S608  # no data
        connection.exec_driver_sql(statement, rows)
        return
    starts = ((f"{entry}\t{str(value).translate(_COPY_ESCAPES)}\t", ids) for entry, value, ids in groups)
    _copy(connection, into, (f"{start}{f'{chr(10)}{start}'.join(map(str, ids))}\n" for start, ids in starts))


def insert_timings(connection: sa.Connection, rows: list[tuple[Any, ...]]) -> None:
    """Insert rows of `timings`, sorted: entry, config and recording id, median, 20th and 80th percentile in ms.

    NaN means NULL, and SQLite binds it as NULL by itself. A fleet has millions of rows, so they bypass SQLAlchemy, and
    Postgres receives them by COPY.
    """
    into = "timings (entry_id, config_id, recording_id, median_ms, p20_ms, p80_ms)"
    if connection.dialect.name == "sqlite":
        even = len(rows) - len(rows) % _ROWS_A_STATEMENT
        for count, start, end in ((_ROWS_A_STATEMENT, 0, even), (1, even, len(rows))):
            statement = f"INSERT INTO {into} VALUES {', '.join(['(?, ?, ?, ?, ?, ?)'] * count)}"  # noqa: S608  # no data
            flat = [tuple(itertools.chain.from_iterable(rows[i : i + count])) for i in range(start, end, count)]
            if flat:
                connection.exec_driver_sql(statement, flat)
        return
    text = "".join([f"{e}\t{c}\t{r}\t{m!r}\t{p20!r}\t{p80!r}\n" for e, c, r, m, p20, p80 in rows])
    _copy(connection, into, [text.replace("nan", "\\N")])


def _copy(connection: sa.Connection, into: str, texts: Iterable[str]) -> None:
    """Send rows to Postgres in COPY's text format. This bypasses SQLAlchemy but raises its errors."""
    driver: Any = connection.connection.driver_connection
    base = connection.dialect.loaded_dbapi.Error
    try:
        with driver.cursor() as cursor, cursor.copy(f"COPY {into} FROM STDIN") as copy:
            for text in texts:
                copy.write(text)
    except base as error:
        lost = bool(driver.closed)
        if lost:
            connection.invalidate(error)
        raise sa.exc.DBAPIError.instance(
            f"COPY {into}", None, error, base, connection_invalidated=lost, dialect=connection.dialect
        ) from error


def translate_error(error: Exception, url: sa.URL, wait_s: float | None = None, purpose: str = READ) -> DatabaseError:
    """Our error for an error of the driver, by its code and never by its text."""
    where, waited = shown_url(url), f"{lock_wait_s(wait_s):.3g} s"
    original = getattr(error, "orig", None) or error
    if isinstance(original, sqlite3.Error):
        return sqlite_fault(original, where, waited)
    was_lost = getattr(error, "connection_invalidated", False)
    state = getattr(original, "sqlstate", None)
    if state is None and not was_lost and not isinstance(error, sa.exc.OperationalError):
        return DatabaseError(f"{where}: {_first_line(original, url)}")
    return postgres_fault(
        state,
        where,
        _first_line(original, url),
        waited,
        missing_right=lambda: missing_right(getattr(error, "statement", None) or "", url.username, purpose),
        was_lost=was_lost,
    )


def _first_line(error: object, url: sa.URL) -> str:
    text = str(error).strip().partition("\n")[0]
    return text.replace(str(url.password), "***") if url.password else text


def engine_name(connection: sa.Connection) -> str:
    """Database and version, for `registry status`."""
    if connection.dialect.name == "sqlite":
        return f"SQLite {sqlite3.sqlite_version}"
    return f"Postgres {connection.exec_driver_sql('SHOW server_version').scalar_one()}"


def damage(connection: sa.Connection) -> list[str]:
    """Problems that SQLite's integrity check finds. Postgres checks its pages as it reads them."""
    if connection.dialect.name != "sqlite":
        return []
    found = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
    return [] if list(found) == ["ok"] else [f"integrity: {line}" for line in found]
