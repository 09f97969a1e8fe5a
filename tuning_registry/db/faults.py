"""What the database drivers' errors mean, by their codes and never by their texts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

from tuning_registry.errors import BusyError, DatabaseError, ForbiddenError, RejectedError, UnreachableError

_LOCKED: Final = {"55P03", "40P01", "40001"}
_FORBIDDEN: Final = "42501"
_CHECK: Final = "; run registry db check for details"
# A missing table or column.
OTHER_SCHEMA: Final = {"42P01", "42703"}
# All connections are in use (53300, 53400), the server shuts down or starts (57P01 to 57P05), or it is a standby that
# has not been promoted yet (25006). Class 08 is about connections; PgBouncer uses it when its pool is full.
_AWAY: Final = {"53300", "53400", "57P01", "57P02", "57P03", "57P05", "25006"}
_CONNECTION_CLASS: Final = "08"
# Classes of data exceptions, violated constraints, and exceeded limits.
_REJECTED: Final = ("22", "23", "54")

_SQLITE_TEXTS: Final = {
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a backup (nothing was changed)",
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database",
    sqlite3.SQLITE_READONLY: "the database or its folder is read-only",
    sqlite3.SQLITE_FULL: "the disk is full; nothing was written",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened (does the folder exist, and may you write to it?)",
    sqlite3.SQLITE_PROTOCOL: "locking does not work on this file system; use a local disk, or Postgres",
}


def sqlite_fault(error: sqlite3.Error, where: str, waited: str) -> DatabaseError:
    """Our error for an error of SQLite.

    Args:
        error: From the driver.
        where: The database, without its password.
        waited: How long a lock was waited for.
    """
    code = sqlite_code(error)
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return BusyError(f"{where}: another process held the lock for over {waited}; try again")
    if code in {sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH}:
        return RejectedError(f"{where}: {error}")
    text = f"the disk failed: {error}" if code == sqlite3.SQLITE_IOERR else _SQLITE_TEXTS.get(code, str(error))
    return DatabaseError(f"{where}: {text}{_CHECK if code == sqlite3.SQLITE_ERROR else ''}")


def sqlite_code(error: sqlite3.Error) -> int:
    """The primary result code, which is the low byte of an extended code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def postgres_fault(
    state: str | None, where: str, text: str, waited: str, *, missing_right: Callable[[], str], was_lost: bool
) -> DatabaseError:
    """Our error for an error of Postgres.

    Args:
        state: SQLSTATE; None if there was no connection.
        where: The database, without its password.
        text: First line of the server's message.
        waited: How long a lock was waited for.
        missing_right: Makes the advice for a denied privilege.
        was_lost: Whether the connection broke.
    """
    if state in _LOCKED:
        return BusyError(f"{where}: another writer held the lock for over {waited}; try again")
    if state == _FORBIDDEN:
        return ForbiddenError(f"{where}: {text}: {missing_right()}")
    if was_lost:
        return UnreachableError(f"{where}: the connection was lost: {text}")
    if state is None:
        return UnreachableError(f"{where}: cannot connect: {text.removeprefix('connection failed: ')}")
    if state in _AWAY or state.startswith(_CONNECTION_CLASS):
        return UnreachableError(f"{where}: {text}")
    kind = RejectedError if state.startswith(_REJECTED) else DatabaseError
    return kind(f"{where}: {text}{_CHECK if state in OTHER_SCHEMA else ''}")
