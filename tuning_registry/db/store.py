"""Opening a database at the right revision, for reading or for writing."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from tuning_registry.db import dialects, schema
from tuning_registry.db.reading import Reading
from tuning_registry.db.roles import MIGRATE, READ, WRITE
from tuning_registry.db.url import is_in_memory, shown_url, sqlite_file
from tuning_registry.db.writing import Writing
from tuning_registry.errors import DatabaseError, SchemaError
from tuning_registry.locations import user_database


class Store:
    """A registry database. Nothing is opened before `reading` or `writing` is entered.

    Args:
        url: Where it is (`db.url.parse_url`).
        wait_s: How long to wait for a lock, and at most for a server; None means as long as a command waits.
    """

    def __init__(self, url: sa.URL, wait_s: float | None = None) -> None:
        self.url = url
        self._wait_s = wait_s
        self._memory = dialects.connect_engine(url, writable=True) if is_in_memory(url) else None

    def close(self) -> None:
        """Free a database in memory. Others need no closing: they hold no connection."""
        if self._memory is not None:
            self._memory.dispose()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Reading]:
        """A consistent view of the database, which is neither created nor changed.

        Raises:
            SchemaError: There is no registry yet, or its schema is of another revision.
            DatabaseError: It cannot be opened or read.
        """
        if self._file_bytes() is None:
            raise self.absent()
        with self._connected(READ) as connection:
            dialects.begin_transaction(connection, writing=False)
            self._check_revision(connection)
            yield Reading(connection)

    @contextlib.contextmanager
    def writing(self, purpose: str = WRITE) -> Iterator[Writing]:
        """A transaction that holds the one write lock of the database. Commits at the end, or rolls back on an error.

        An empty database is created at the head revision first, under the same lock.

        Args:
            purpose: `WRITE`, or `DECIDE` for what only an owner may do. An error names the role that is needed.

        Raises:
            SchemaError: The schema is of another revision.
            BusyError: Another process kept the lock.
            DatabaseError: It cannot be opened or written.
        """
        self._prepare_file()
        with self._connected(purpose) as connection:
            dialects.begin_transaction(connection, writing=True, wait_s=self._wait_s)
            is_empty = find_revision(connection) is None
            if is_empty:
                create_schema(connection)
            self._check_revision(connection)
            yield Writing(connection, created=is_empty)
            connection.commit()

    @contextlib.contextmanager
    def folding(self) -> Iterator[Writing]:
        """A transaction that claims hand-ins, and writes once `Writing.lock` was called. Otherwise as `writing`.

        What is claimed can be read and checked while another process writes. It creates no schema.
        """
        if self._file_bytes() is None:
            raise self.absent()
        with self._connected(WRITE) as connection:
            dialects.begin_claiming(connection, self._wait_s)
            self._check_revision(connection)
            yield Writing(connection, created=False, check=self._check_revision)
            connection.commit()

    def revision(self) -> str | None:
        """The revision of the database; None if it holds no registry."""
        if self._file_bytes() is None:
            return None
        with self._connected(READ) as connection:
            return find_revision(connection)

    def absent(self) -> SchemaError:
        """The error for a database that holds no registry yet."""
        missing = _missing_folder(self.url)
        if missing is not None:
            return SchemaError(_no_folder_text(self.url, missing))
        return SchemaError(
            f"{shown_url(self.url)}: there is no registry here yet; registry ingest or registry db upgrade creates it"
        )

    @contextlib.contextmanager
    def migrating(self) -> Iterator[sa.Connection]:
        """A connection that holds the write lock, at any revision; commits at the end."""
        self._prepare_file()
        with self._connected(MIGRATE) as connection:
            dialects.begin_transaction(connection, writing=True)
            yield connection
            connection.commit()

    @contextlib.contextmanager
    def _connected(self, purpose: str) -> Iterator[sa.Connection]:
        with self._translated(purpose):
            engine = self._memory or dialects.connect_engine(self.url, writable=purpose != READ, wait_s=self._wait_s)
            with engine.connect() as connection:
                yield connection

    def _prepare_file(self) -> None:
        """Create the file of a new SQLite database, and the folder of the per-user default.

        Any other folder must exist: a mistyped path would otherwise become a new, empty registry.
        """
        file = sqlite_file(self.url)
        if file is None or self._file_bytes():
            return
        missing = _missing_folder(self.url)
        if missing is not None:
            raise DatabaseError(_no_folder_text(self.url, missing))
        with self._translated(WRITE):
            try:
                dialects.prepare_new_sqlite(file)
            except OSError as error:
                raise DatabaseError(f"{shown_url(self.url)}: {error.strerror or error}") from error

    def _file_bytes(self) -> int | None:
        """Size of the SQLite file; None if it does not exist, 0 for Postgres and for an in-memory database.

        Raises:
            DatabaseError: The path names something else, or its folder cannot be read.
        """
        file = sqlite_file(self.url)
        if file is None:
            return 0
        try:
            status = file.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DatabaseError(f"{shown_url(self.url)}: {error.strerror or error}") from error
        if not stat.S_ISREG(status.st_mode):
            raise DatabaseError(f"{shown_url(self.url)}: not a regular file; expected an SQLite database")
        return status.st_size

    @contextlib.contextmanager
    def _translated(self, purpose: str) -> Iterator[None]:
        try:
            yield
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            raise dialects.translate_error(error, self.url, self._wait_s, purpose) from error

    def _check_revision(self, connection: sa.Connection) -> None:
        found = find_revision(connection)
        if found is None:
            raise self.absent()
        refuse_unknown_revision(found, self.url)
        if found != schema.HEAD:
            raise SchemaError(
                f"{shown_url(self.url)}: the schema is older than this program (found {found}, expected {schema.HEAD}); run: "
                "registry db upgrade"
            )


def _missing_folder(url: sa.URL) -> Path | None:
    """The folder of an SQLite file if it does not exist and no command may create it; else None."""
    file = sqlite_file(url)
    if file is None or os.path.lexists(file.parent) or file == user_database():
        return None
    return file.parent


def _no_folder_text(url: sa.URL, folder: Path) -> str:
    return f"{shown_url(url)}: the folder {folder} does not exist; correct the path, or create the folder first"


def find_revision(connection: sa.Connection) -> str | None:
    """The revision in our version table; None if there is none."""
    there = sa.inspect(connection)
    if not there.has_table(schema.VERSION_TABLE):
        return None
    rows = connection.execute(sa.select(schema.version_table.c.version_num)).scalars().all()
    if not rows and not there.has_table(schema.votes.name):
        return None  # downgraded to `base`: Alembic leaves its table behind, empty
    if len(rows) != 1:
        raise SchemaError(f"{schema.VERSION_TABLE} holds {len(rows)} revisions; expected one. Restore a backup.")
    return str(rows[0])


def refuse_unknown_revision(found: str, url: sa.URL) -> None:
    """Refuse a revision that only a later release of this program can know.

    Raises:
        SchemaError: Names it, and how to upgrade.
    """
    if found not in schema.REVISIONS:
        raise SchemaError(
            f"{shown_url(url)}: the schema is newer than this program (found {found}, expected {schema.HEAD}); "
            "upgrade the package tuning-registry"
        )


def refuse_taken_names(connection: sa.Connection) -> None:
    """Refuse a database, not yet a registry, in which another program's table or view has one of our names."""
    found = sa.inspect(connection)
    taken = {*found.get_table_names(), *found.get_view_names()} & {*schema.metadata.tables, "counted_votes"}
    if taken:
        raise SchemaError(
            f"the database already has a table {min(taken)!r} that tuning-registry did not create; use another database"
        )


def create_schema(connection: sa.Connection) -> None:
    """Create every table at the head revision, in the caller's transaction.

    The result is that of all migrations (a test compares them), without the time to import Alembic.

    Raises:
        SchemaError: Another program's table has one of our names.
    """
    refuse_taken_names(connection)
    schema.metadata.create_all(connection, checkfirst=False)
    schema.version_table.create(connection, checkfirst=True)
    connection.execute(sa.insert(schema.version_table).values(version_num=schema.HEAD))
