"""Ingesting recordings into a database, all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tuning_registry.db.store import Store
from tuning_registry.db.url import IN_MEMORY
from tuning_registry.errors import RegistryError
from tuning_registry.operations.ingest.folding import fold
from tuning_registry.operations.ingest.notices import (
    find_look_alikes,
    find_many_keys,
    find_other_sources,
    find_spellings,
)
from tuning_registry.operations.ingest.options import IngestOptions
from tuning_registry.operations.ingest.reading import SourceReader
from tuning_registry.operations.ingest.report import FoldReport, IngestReport
from tuning_registry.operations.ingest.sources import Paths, Source, count_unnamed_timings, find_files, sources_of
from tuning_registry.operations.ingest.transfer import write_batch

__all__ = ["IngestOptions", "IngestReport", "ingest", "ingest_in_memory"]

_SHOWN = 5  # files named in an error, after the first


def ingest(
    store: Store,
    paths: Paths,
    options: IngestOptions | None = None,
    track: Callable[[Sequence[Source]], Iterator[Source]] = iter,
    report: Callable[[int, int], None] | None = None,
) -> IngestReport:
    """Ingest the recordings in `paths`, in one transaction, and then fold what ranks have handed in.

    Files are read before the write lock is taken. Without `keep_going`, one bad recording rejects all, and the
    database does not change.

    Args:
        store: The database.
        paths: A file, folder or glob pattern, or several.
        options: What to add to the recordings, and how strict to be.
        track: Wraps the list of files, to show progress.
        report: Called with the number of votes and timings that were inserted, and with that of all.

    Raises:
        FileError, RecordingError: A file cannot be read, or is not a recording.
        ConflictError: A recording contradicts the options or the database.
        RegistryError: Several files have such errors; names them.
        DatabaseError: The database cannot be written.
    """
    options = options or IngestOptions()
    reader = SourceReader(options)
    files = find_files(paths, reader.tools.has_name)
    reader.read(track(sources_of(files, options)))
    if reader.errors and not options.keep_going:
        raise _all_of(reader.errors)
    batch = reader.batch
    written = write_batch(store, batch, options, report)
    folded = fold(store) if store.revision() is not None else FoldReport()
    return replace(
        written,
        folded=folded if folded != FoldReport() else None,
        timings_beside=count_unnamed_timings(files),
        unowned_caches=reader.unowned_caches,
        broken_formats=reader.tools.broken,
        other_sources=find_other_sources(store, batch),
        many_keys=find_many_keys(store) if written.new_entries else [],
        spellings=find_spellings(batch),
        look_alikes=find_look_alikes(batch),
        skipped=[*reader.errors, *written.skipped],
    )


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


def _all_of(errors: Sequence[RegistryError]) -> RegistryError:
    """One error for several: the first, with the number and the files of the others."""
    first, *rest = errors
    if not rest:
        return first
    others = [getattr(error, "file", "") or str(error).partition(": ")[0] for error in rest]
    shown = ", ".join(map(str, others[:_SHOWN])) + (", ..." if len(others) > _SHOWN else "")
    several = RegistryError(f"{first} (and {len(others)} more: {shown})")
    several.__cause__ = first
    return several
