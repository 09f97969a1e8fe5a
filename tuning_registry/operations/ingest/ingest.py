"""Taking recordings into a database, all or nothing."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tuning_registry.db.batch import Batch
from tuning_registry.db.store import Store
from tuning_registry.errors import FileError, RegistryError, UsageError
from tuning_registry.formats.fast_reader import QuickReader
from tuning_registry.formats.files import expand_glob, find_below
from tuning_registry.formats.recordings import rank_in_name
from tuning_registry.formats.triton_cache import TritonCache, group_by_cache, is_hashed, is_result, read_cache
from tuning_registry.model.records import Recording
from tuning_registry.operations.ingest.attribution import Attribution
from tuning_registry.operations.ingest.placement import place_recordings
from tuning_registry.operations.ingest.types import IngestOptions, IngestReport

__all__ = ["IngestOptions", "IngestReport", "add_to_batch", "find_files", "ingest", "write_batch"]

# What is read as one recording.
Source = Path | TritonCache
_SHOWN = 5  # files named in an error beside the first


def find_files(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The files that paths, folders and glob patterns name; each once, in a stable order.

    A folder stands for every `*.json` below it, hidden ones left out; of a Triton cache for the autotune results.

    Raises:
        FileError: A path does not exist, or names no file.
        UsageError: A path is empty: a variable of a script that is not set, and not the current folder.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not all(os.fspath(path) for path in several):
        raise UsageError("a PATH is empty; write . for the current folder")
    found: dict[Path, None] = {}
    for path in (match for given in several for match in expand_glob(Path(given))):
        below = [path]
        if os.path.isdir(path):  # noqa: PTH112  # false where Path.is_dir raises; reading then says why
            there = find_below(path, ".json")
            below = [file for file in there if is_result(file) or not is_hashed(file)]
            if not below:
                raise FileError(f"{path}: no .json file in this folder" if not there else
                                f"{path}: a Triton cache without autotune results; Triton keeps them "
                                "under TRITON_CACHE_AUTOTUNING=1")  # fmt: skip
        found.update(dict.fromkeys(below))
    return list({os.path.realpath(file): file for file in reversed(found)}.values())[::-1]


def ingest(
    store: Store,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    options: IngestOptions | None = None,
    track: Callable[[Sequence[Source]], Iterator[Source]] = iter,
) -> IngestReport:
    """Take the recordings in `paths` into the database, in one transaction.

    Files are read before the write lock is taken. Unless `keep_going`, one bad recording refuses all,
    and the database is as it was.

    Args:
        store: Where to.
        paths: A file, folder or glob pattern, or several.
        options: What to add to the recordings, and how strict to be.
        track: Wraps the list of files, to show progress.

    Raises:
        FileError, RecordingError: A file cannot be read, or is no recording.
        ConflictError: A recording contradicts the options or the database.
        DatabaseError: The database cannot be written.
    """
    options = options or IngestOptions()
    files = find_files(paths)
    caches = group_by_cache(file for file in files if is_result(file))
    sources: list[Source] = [*(file for file in files if not is_result(file)), *caches]
    if options.rank is not None and len(sources) > 1:
        raise UsageError(f"--rank names one recording, but there are {len(sources)} files and caches")
    if options.arch is not None and not caches:
        raise UsageError("--arch is for Triton cache folders; recordings name their architectures themselves")
    report = IngestReport(timings_beside=_timings_beside(files))
    batch = _read(track(sources), options, report)
    if report.skipped and not options.keep_going:
        raise _first_of(report.skipped)
    write_batch(store, batch, options, report)
    return report


def _timings_beside(files: Sequence[Path]) -> int:
    """How many files of timings lie beside these recordings and were not named with them."""
    ranks = ((file, rank_in_name(file.name)) for file in files)
    wanted = {file.parent / f"timings.rank{rank}.json" for file, (_, rank) in ranks if rank is not None}
    return sum(map(os.path.exists, wanted.difference(files)))


def _read(sources: Iterable[Source], options: IngestOptions, report: IngestReport) -> Batch:
    """The batch of all that can be read; the report has the errors of the rest."""
    batch, attribution, reader = Batch(), Attribution(options), QuickReader()
    late: list[Path] = []  # files of timings whose recording comes after them; read again rather than kept
    for source in sources:
        try:
            if isinstance(source, TritonCache):
                known = options.rank is not None
                skip = report.skipped.append if options.keep_going else None
                recording = read_cache(source, arch=options.arch, triton=options.triton, votes=known, skip=skip)
                add_to_batch(batch, recording, attribution, report, needs_rank=False)
                report.unowned_caches += not known
                continue
            recording = reader.read(source)
            attribution.note(recording)
            if attribution.comes_before_its_owner(recording):
                late.append(source)
            else:
                add_to_batch(batch, recording, attribution, report)
        except RegistryError as error:
            report.skipped.append(error)
    for file in late:
        try:
            add_to_batch(batch, reader.read(file), attribution, report)
        except RegistryError as error:
            report.skipped.append(error)
    return batch


def _first_of(errors: Sequence[RegistryError]) -> RegistryError:
    """The first error; where there are more, it says how many and which files."""
    first = errors[0]
    others = [getattr(error, "file", "") or str(error).partition(": ")[0] for error in errors[1:]]
    if others:
        shown = ", ".join(map(str, others[:_SHOWN])) + (", ..." if len(others) > _SHOWN else "")
        first.args = (f"{first} (and {len(others)} more: {shown})",)
    return first


def add_to_batch(
    batch: Batch, recording: Recording, attribution: Attribution, report: IngestReport, *, needs_rank: bool = True
) -> None:
    """Complete a recording's header by options and file name, and put it into the batch.

    Raises:
        ConflictError: An option contradicts what the recording says.
        RecordingError: The recording is not accepted.
    """
    header, is_named = attribution.header_of(recording, needs_rank=needs_rank)
    batch.add(recording, header, is_named=is_named)
    if not is_named and header.run not in report.derived_runs:
        report.derived_runs.append(str(header.run))
    for arch in recording.strange_archs():
        if arch not in report.strange_archs:
            report.strange_archs.append(arch)


def write_batch(store: Store, batch: Batch, options: IngestOptions, report: IngestReport) -> None:
    """Insert what is new of a batch in one transaction, and complete the report."""
    if not batch.pending:
        return
    now = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
    with store.writing() as transaction:
        report.created = transaction.created
        placements, superseded = place_recordings(transaction, batch.pending, options, report)
        transaction.supersede(superseded, now)
        report.new_entries = transaction.insert_batch(batch, placements, now)
    report.new = sum(place.recording_id is None and place.beside is None for place in placements.values())
    report.completed = len({place.recording_id for place in placements.values()} - {None})
    voting = [position for position, place in placements.items() if "votes" in place.kinds]
    timed = (batch.pending[position].timing_count for position, place in placements.items() if "timings" in place.kinds)
    report.timings = sum(timed)
    observing = (position for position, place in placements.items() if "observations" in place.kinds)
    report.observations = sum(batch.pending[position].observation_count for position in observing)
    report.votes = sum(sum(batch.pending[position].vote_counts.values()) for position in voting)
