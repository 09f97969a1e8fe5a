"""Writing a rank's recording directly into a database: `tuning_registry.runtime` loads this for a database URL."""

from __future__ import annotations

from tuning_registry.db import queries
from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url, shown_url
from tuning_registry.errors import ForbiddenError
from tuning_registry.model.records import Recording
from tuning_registry.operations.ingest.attribution import Attribution
from tuning_registry.operations.ingest.ingest import IngestOptions, write_batch
from tuning_registry.operations.ingest.reading import add_to_batch


class DatabaseSink:
    """Inserts recordings into one database. A rank never creates or migrates the schema: it must exist, at head.

    Args:
        store: The database.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, recording: Recording, *, replace: bool = False) -> bool:
        """Insert a recording in one transaction. The same recording again changes nothing.

        Args:
            recording: What to insert.
            replace: Let it supersede another recording of its run and rank, which is kept.

        Returns:
            Whether the database changed.

        Raises:
            SchemaError: There is no schema, or it is of another revision.
            BusyError: Another process held the lock.
            UnreachableError: The server does not respond.
            ConflictError: The database holds other content of this run and rank.
            ForbiddenError: The user may only add rows, and the recording has grown since it was inserted.
            DatabaseError: The database cannot be written.
        """
        if self._store.revision() is None:
            raise self._store.absent()
        batch, options = Batch(), IngestOptions(replace=replace)
        add_to_batch(batch, recording, Attribution(options))
        try:
            report = write_batch(self._store, batch, options)
        except ForbiddenError as error:
            if self._holds(recording):
                raise ForbiddenError(
                    f"{shown_url(self._store.url)}: the database holds an earlier state of this recording, and its user may "
                    "add recordings but not complete one"
                ) from error
            raise
        return bool(report.new or report.completed or report.replaced)

    def _holds(self, recording: Recording) -> bool:
        """Whether the database has a recording of the same process."""
        if recording.header.id is None:
            return False
        with self._store.reading() as reading:
            return bool(reading.rows(queries.recordings.current_of_processes([recording.header.id])))


def open_sink(url: str, wait_s: float | None = None) -> DatabaseSink:
    """The sink for a database URL.

    Args:
        url: The database.
        wait_s: How long to wait for a lock, and at most for a server; None means as long as a command waits.

    Raises:
        UsageError: It is not a database URL.
    """
    return DatabaseSink(Store(parse_url(url), wait_s))
