"""The seed's two commands: files to table and files to report, over a database in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tuning_registry.db.store import Store
from tuning_registry.db.url import IN_MEMORY
from tuning_registry.operations.ingest.ingest import IngestOptions, Source, ingest


def ingest_in_memory(
    paths: Sequence[str | Path],
    options: IngestOptions | None = None,
    track: Callable[[Sequence[Source]], Iterator[Source]] = iter,
) -> Store:
    """A database in memory that holds the recordings in `paths`; it ends with the process.

    Raises:
        RegistryError: As for `ingest`.
    """
    store = Store(IN_MEMORY)
    ingest(store, paths, replace(options or IngestOptions(), number_files=True), track)
    return store
