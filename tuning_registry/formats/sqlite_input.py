"""Reading an SQLite file of another tool: read-only, and as the work of a stranger."""

from __future__ import annotations

import contextlib
import sqlite3
import struct
import tempfile
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tuning_registry.formats.files import MAX_FILE_BYTES, read_head
from tuning_registry.formats.plugin import ToolFile

_MAX_TEXT: Final = 1 << 20  # bytes of a value
_MAX_STEPS: Final = 200_000_000  # instructions of SQLite's machine: about ten seconds
_EACH: Final = 100_000
# Size of a page, number of changes, number of pages, and the change at which that number was right. See
# https://www.sqlite.org/fileformat.html#the_database_header.
_HEADER: Final = struct.Struct(">16xH6xII60xI")
_LARGEST_PAGE: Final = 65_536  # stated as 1


@contextlib.contextmanager
def opened(file: ToolFile) -> Iterator[sqlite3.Connection]:
    """A connection that can read the tables of a file, and nothing else.

    The file is taken as it is: no journal is read, no lock taken, no file made. Extensions are not loaded, functions and
    virtual tables in its schema are not trusted, and work is bounded. Rows are tuples.

    Args:
        file: The file.

    Raises:
        RecordingError: It is not an SQLite database, is damaged or too large, or takes too long; names the file.
    """
    if not file.is_sqlite:
        raise file.fault("not an SQLite database")
    try:
        with _on_disk(file) as path:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise file.fault(f"larger than the limit of {MAX_FILE_BYTES >> 20} MiB")
            _check_length(file, path)
            uri = f"file:{urllib.parse.quote(str(path.resolve()))}?mode=ro&immutable=1"
            with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
                _restrict(connection)
                yield connection
    except sqlite3.Error as error:
        what = "takes too long to read" if "interrupted" in str(error) else f"cannot be read: {error}"
        raise file.fault(what) from error


@contextlib.contextmanager
def _on_disk(file: ToolFile) -> Iterator[Path]:
    """The file itself, or a temporary copy of an object, since SQLite opens local files only."""
    if isinstance(file.path, Path):
        yield file.path
        return
    with tempfile.NamedTemporaryFile(suffix=".db") as copy:
        copy.write(file.data)
        copy.flush()
        yield Path(copy.name)


def table_names(connection: sqlite3.Connection) -> list[str]:
    """The names of the tables in a file, without views and virtual tables."""
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
    return [str(name) for (name,) in connection.execute(query) if not str(name).startswith("sqlite_")]


def columns_of(connection: sqlite3.Connection, table: str) -> list[str]:
    """The names of a table's columns."""
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({quoted(table)})")]


def rows_of(connection: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table by column, in the order in which they were inserted."""
    cursor = connection.execute(f"SELECT * FROM {quoted(table)}")  # noqa: S608  # the name is quoted
    names = [column[0] for column in cursor.description]
    for row in cursor:
        yield dict(zip(names, row, strict=True))


def quoted(name: str) -> str:
    """A name for a statement."""
    return '"' + name.replace('"', '""') + '"'


def _check_length(file: ToolFile, path: Path) -> None:
    """Refuse a file that is shorter than its header states; SQLite reads the pages that are left without an error."""
    header = read_head(path, _HEADER.size)
    if len(header) < _HEADER.size:
        raise file.fault("cannot be read: the file is cut off")
    page_size, changes, pages, valid_for = _HEADER.unpack(header)
    stated = pages * (_LARGEST_PAGE if page_size == 1 else page_size)
    if changes == valid_for and path.stat().st_size < stated:  # otherwise an old SQLite wrote it, without a length
        raise file.fault(f"cannot be read: the file is cut off; expected {stated} bytes")


def _restrict(connection: sqlite3.Connection) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_TEXT)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {pragma}")
    connection.set_authorizer(_allow)
    steps = 0

    def stop() -> int:
        nonlocal steps
        steps += _EACH
        return steps > _MAX_STEPS

    connection.set_progress_handler(stop, _EACH)


def _allow(action: int, *_: object) -> int:
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_FUNCTION)
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY
