"""Ingesting recordings into a database, all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.store import Store
from tuning_registry.db.url import IN_MEMORY
from tuning_registry.errors import RegistryError
from tuning_registry.formats.fast_reader import QuickReader
from tuning_registry.formats.triton_cache import TritonCache, read_cache
from tuning_registry.operations.ingest.attribution import Attribution
from tuning_registry.operations.ingest.folding import fold
from tuning_registry.operations.ingest.notices import find_many_keys, find_other_sources, find_spellings
from tuning_registry.operations.ingest.options import IngestOptions
from tuning_registry.operations.ingest.report import FoldReport, IngestReport
from tuning_registry.operations.ingest.sources import Paths, Source, count_unnamed_timings, find_files, sources_of
from tuning_registry.operations.ingest.transfer import add_to_batch, write_batch

__all__ = ["IngestOptions", "IngestReport", "ingest", "ingest_in_memory"]

_SHOWN = 5  # files named in an error, after the first


def ingest(
    store: Store,
    paths: Paths,
    options: IngestOptions | None = None,
    track: Callable[[Sequence[Source]], Iterator[Source]] = iter,
) -> IngestReport:
    """Ingest the recordings in `paths`, in one transaction, and then fold what ranks have handed in.

    Files are read before the write lock is taken. Without `keep_going`, one bad recording rejects all, and the
    database does not change.

    Args:
        store: The database.
        paths: A file, folder or glob pattern, or several.
        options: What to add to the recordings, and how strict to be.
        track: Wraps the list of files, to show progress.

    Raises:
        FileError, RecordingError: A file cannot be read, or is not a recording.
        ConflictError: A recording contradicts the options or the database.
        RegistryError: Several files have such errors; names them.
        DatabaseError: The database cannot be written.
    """
    options = options or IngestOptions()
    files = find_files(paths)
    batch, errors, unowned = _read(track(sources_of(files, options)), options)
    if errors and not options.keep_going:
        raise _all_of(errors)
    report = write_batch(store, batch, options)
    folded = fold(store)
    return replace(
        report,
        folded=folded if folded != FoldReport() else None,
        timings_beside=count_unnamed_timings(files),
        unowned_caches=unowned,
        other_sources=find_other_sources(store, batch),
        many_keys=find_many_keys(store) if report.new_entries else [],
        spellings=find_spellings(batch),
        skipped=[*errors, *report.skipped],
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


def _read(sources: Iterable[Source], options: IngestOptions) -> tuple[Batch, list[RegistryError], int]:
    """All that can be read, the errors of the rest, and the number of Triton caches of unknown rank."""
    batch, attribution, reader = Batch(), Attribution(options), QuickReader()
    errors: list[RegistryError] = []
    late: list[Path] = []  # files of timings whose recording comes after them; read again rather than kept
    unowned = 0
    for source in sources:
        try:
            if isinstance(source, TritonCache):
                unowned += _read_cache(batch, source, attribution, options, errors)
                continue
            recording = reader.read(source)
            attribution.note(recording)
            if attribution.comes_before_its_owner(recording):
                late.append(source)
            else:
                add_to_batch(batch, recording, attribution)
        except RegistryError as error:
            errors.append(error)
    for file in late:
        try:
            add_to_batch(batch, reader.read(file), attribution)
        except RegistryError as error:
            errors.append(error)
    return batch, errors, unowned


def _read_cache(
    batch: Batch, cache: TritonCache, attribution: Attribution, options: IngestOptions, errors: list[RegistryError]
) -> bool:
    """Add a Triton cache to the batch; whether its rank is unknown."""
    is_owned = options.rank is not None
    skip = errors.append if options.keep_going else None
    recording = read_cache(cache, arch=options.arch, triton=options.triton, votes=is_owned, skip=skip)
    add_to_batch(batch, recording, attribution, needs_rank=False)
    return not is_owned


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
