"""Writing a rank's recording directly into a database: `tuning_registry.runtime` loads this for a database URL."""

from __future__ import annotations

from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.model.records import Recording
from tuning_registry.operations.ingest.attribution import Attribution
from tuning_registry.operations.ingest.ingest import IngestOptions, add_to_batch, write_batch


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
            DatabaseError: The database cannot be written.
        """
        if self._store.revision() is None:
            raise self._store.absent()
        batch, options = Batch(), IngestOptions(replace=replace)
        add_to_batch(batch, recording, Attribution(options))
        report = write_batch(self._store, batch, options)
        return bool(report.new or report.completed or report.replaced)


def open_sink(url: str, wait_s: float | None = None) -> DatabaseSink:
    """The sink for a database URL.

    Args:
        url: The database.
        wait_s: How long to wait for a lock, and at most for a server; None means as long as a command waits.

    Raises:
        UsageError: It is not a database URL.
    """
    return DatabaseSink(Store(parse_url(url), wait_s))
