"""Appending a hand-in: all that a rank does with the database. Loads a driver and no other package.

`tuning_registry.runtime` loads this module by name, and the training job has no need of SQLAlchemy.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import socket
import sqlite3
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from tuning_registry.db.faults import OTHER_SCHEMA, postgres_fault, sqlite_code, sqlite_fault
from tuning_registry.errors import DatabaseError, SchemaError, UsageError
from tuning_registry.formats.hand_ins import VERSION
from tuning_registry.locations import DRIVERS, shown_url

# A retry of one whose answer was lost changes nothing. No right but INSERT is needed, since no conflict is named.
_APPEND: Final = (
    "INSERT INTO hand_ins (id, received_at, version, payload, state) VALUES ({}, {}, {}, {}, 'pending') "
    "ON CONFLICT DO NOTHING"
)
_SERVER_TIME: Final = """to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')"""
_DEFAULTS: Final[dict[str, Any]] = {
    "application_name": "tuning-registry",
    "tcp_user_timeout": 10_000,  # ms after which a server that does not acknowledge is gone
    "keepalives_idle": 10,  # s without an answer after which the server is asked whether it is there
}
_SHORTEST_CONNECT_S: Final = 2  # libpq rounds a shorter timeout up to this
_LONGEST_CONNECT_S: Final = 10
_PASSWORD: Final = re.compile(r"://[^:/@]*:([^@]*)@")


def append_hand_in(url: str, identity: str, payload: bytes, wait_s: float) -> None:
    """Append a hand-in in one statement. The same one again changes nothing.

    The schema is not looked at: a table `hand_ins` with these columns is all that is needed.

    Args:
        url: The database, as for `db.url.parse_url`.
        identity: Drawn by the rank, once per payload.
        payload: From `formats.hand_ins.pack_hand_in`.
        wait_s: How long to wait for a lock, and at most for a server.

    Raises:
        UsageError: It is not a database URL.
        SchemaError: There is no table of hand-ins.
        BusyError: Another process held the lock.
        UnreachableError: The server does not respond, or has no connection left.
        ForbiddenError: The user may not append.
        DatabaseError: The database cannot be written, or the driver is missing.
    """
    scheme, _, rest = url.partition("://")
    driver = DRIVERS.get(scheme)
    if driver is None:
        raise UsageError(f"not a database URL: {shown_url(url)}")
    append = _append_to_sqlite if driver == "sqlite" else _append_to_postgres
    append(url, rest, (identity, payload), wait_s)


def may_accept(url: str) -> bool:
    """Whether waiting for a database can help: its server answers, or it is a file."""
    scheme, _, rest = url.partition("://")
    if DRIVERS.get(scheme) == "sqlite":
        return True
    try:
        import psycopg  # noqa: PLC0415  # only for Postgres
    except ImportError:
        return False
    # Not libpq's ping: it keeps all threads of the process waiting until the server answers.
    try:
        psycopg.connect(_conninfo(rest, connect_timeout=_SHORTEST_CONNECT_S)).close()
    except psycopg.errors.ConnectionTimeout:
        return False
    except psycopg.Error as error:
        tried = getattr(error, "pgconn", None)
        return tried is not None and _is_listening((tried.hostaddr or tried.host).decode(), tried.port.decode())
    return True


def _is_listening(host: str, port: str) -> bool:
    """Whether a server takes connections that it may refuse afterwards. `host` may be the folder of a Unix socket."""
    try:
        if host.startswith("/"):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(_SHORTEST_CONNECT_S)
                probe.connect(f"{host}/.s.PGSQL.{port}")
        else:
            socket.create_connection((host, int(port)), _SHORTEST_CONNECT_S).close()
    except (OSError, ValueError):
        return False
    return True


def _append_to_sqlite(url: str, rest: str, row: tuple[str, bytes], wait_s: float) -> None:
    file = Path(rest.removeprefix("/"))
    if rest in {"", "/", "/:memory:"}:
        raise UsageError(f"{shown_url(url)}: a database in memory cannot be shared; name a file")
    if not file.exists():
        raise _no_table(url)
    try:
        # Not created: an empty file in place of a mistyped name would look like a registry.
        with contextlib.closing(
            sqlite3.connect(
                f"file:{quote(str(file.absolute()))}?mode=rw", uri=True, timeout=wait_s, isolation_level=None
            )
        ) as connection:
            now = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
            connection.execute(_APPEND.format("?", "?", "?", "?"), (row[0], now, VERSION, row[1]))
    except sqlite3.Error as error:
        if sqlite_code(error) == sqlite3.SQLITE_ERROR:
            raise _no_table(url) from error
        raise sqlite_fault(error, shown_url(url), f"{wait_s:.3g} s") from error


def _append_to_postgres(url: str, rest: str, row: tuple[str, bytes], wait_s: float) -> None:
    try:
        import psycopg  # noqa: PLC0415  # only for Postgres
    except ImportError as error:
        raise DatabaseError(
            "Postgres needs the driver psycopg, which is not installed; run: pip install 'psycopg[binary]'"
        ) from error
    where, connected = shown_url(url), False
    timeout = max(_SHORTEST_CONNECT_S, min(_LONGEST_CONNECT_S, int(wait_s)))
    try:
        # Not a prepared statement: behind a pooler the next one may run on another connection.
        with psycopg.connect(
            _conninfo(rest, connect_timeout=timeout), autocommit=True, prepare_threshold=None
        ) as server:
            connected = True
            server.execute(_APPEND.format("%s", _SERVER_TIME, "%s", "%s").encode(), (row[0], VERSION, row[1]))
    except psycopg.Error as error:
        if error.sqlstate in OTHER_SCHEMA:
            raise _no_table(url) from error
        if error.sqlstate is None and not isinstance(error, psycopg.OperationalError):  # an unknown option of the URL
            raise DatabaseError(f"{where}: {_first_line(error, url)}") from error
        raise postgres_fault(
            error.sqlstate,
            where,
            _first_line(error, url),
            f"{wait_s:.3g} s",
            missing_right=lambda: (
                "it may not hand in recordings. Ask an administrator to grant its user the role tuning_registry_recorder "
                "(see registry db roles)"
            ),
            was_lost=connected and error.sqlstate is None,
        ) from error


def _no_table(url: str) -> SchemaError:
    return SchemaError(
        f"{shown_url(url)}: there is no registry here yet, or its schema is too old for hand-ins; "
        "run: registry db upgrade"
    )


def _conninfo(rest: str, **more: object) -> str:
    """The URI for libpq. SQLAlchemy's URLs repeat the option `host`, libpq's have a list.

    Args:
        rest: `USER:PASSWORD@HOST/NAME?OPTION=VALUE`.
        **more: Options to add unless the URL has them.
    """
    base, _, query = rest.partition("?")
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        options[name] = f"{options[name]},{value}" if name in options else value
    hosts = [part.split(":") for part in options.get("host", "").split(",")]
    if all(len(parts) == 2 for parts in hosts):  # host=a:5432&host=b:5432
        options["host"], options["port"] = (",".join(of_all) for of_all in zip(*hosts, strict=True))
    added = {name: str(value) for name, value in {**_DEFAULTS, **more}.items() if name not in options}
    return f"postgresql://{base}?{urlencode({**options, **added}, quote_via=quote)}"


def _first_line(error: object, url: str) -> str:
    text = str(error).strip().partition("\n")[0]
    found = _PASSWORD.search(url)
    return text.replace(found[1], "***") if found and found[1] else text
