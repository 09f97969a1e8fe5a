"""A rank's recording straight into the database: what `tuning_registry.runtime` imports for a database URL."""

from __future__ import annotations

from tuning_registry.db.batch import Batch
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.model.records import Recording
from tuning_registry.operations.ingest.attribution import Attribution
from tuning_registry.operations.ingest.ingest import IngestOptions, add_to_batch, write_batch


class DatabaseSink:
    """Inserts recordings into one database. Ranks never create or migrate a schema: it must be there, at head.

    Args:
        store: The database.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, recording: Recording, *, replace: bool = False) -> bool:
        """Insert a recording in one transaction; the same one again changes nothing, and gives False.

        Args:
            recording: What to insert.
            replace: Let it take the place of another of its run and rank, which is kept as superseded.

        Raises:
            SchemaError: There is no schema, or it is not this program's.
            BusyError: Another process held the lock.
            UnreachableError: The server does not answer.
            ConflictError: This (run, rank) is there with other content.
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
        wait_s: How long to wait for a lock, and at most for a server; None: as long as a command waits.

    Raises:
        UsageError: Not a database URL.
    """
    return DatabaseSink(Store(parse_url(url), wait_s))
