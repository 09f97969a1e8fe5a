"""Taking recordings into a database, all or nothing."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tuning_registry.canonical import check_text
from tuning_registry.db.batch import Batch
from tuning_registry.db.store import Store
from tuning_registry.errors import ConflictError, FileError, FormatError, RegistryError, UsageError, printable
from tuning_registry.files import expand_glob, find_below
from tuning_registry.operations.ingest_types import IngestOptions, IngestReport
from tuning_registry.operations.placement import place_recordings
from tuning_registry.quick_read import QuickReader
from tuning_registry.recordings import rank_in_name, read_recording
from tuning_registry.records import Header, Recording
from tuning_registry.triton_cache import TritonCache, group_by_cache, is_hashed, is_result, read_cache

__all__ = ["IngestOptions", "IngestReport", "add_to_batch", "find_files", "ingest", "write_batch"]

# Postgres indexes names; beyond this its B-tree refuses them (2,704 bytes a row).
MAX_RUN_BYTES = 1000
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
                raise FileError(f"{printable(str(path))}: no .json file in this folder" if not there else
                                f"{printable(str(path))}: a Triton cache without autotune results; Triton keeps them "
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
    report = IngestReport()
    batch = Batch()
    reader = QuickReader()
    late: list[Path] = []  # files of timings whose recording comes after them; read again rather than kept
    for source in track(sources):
        try:
            if isinstance(source, TritonCache):
                _add_cache(batch, source, options, report)
                continue
            recording = reader.read(source)
            report.headers[recording.file] = recording.header
            if _comes_before_its_owner(recording, report):
                late.append(source)
            else:
                add_to_batch(batch, recording, options, report)
        except RegistryError as error:
            report.skipped.append(error)
    for source in late:
        try:
            add_to_batch(batch, reader.read(source), options, report)
        except RegistryError as error:
            report.skipped.append(error)
    if report.skipped and not options.keep_going:
        raise _first_of(report.skipped)
    write_batch(store, batch, options, report)
    return report


def _add_cache(batch: Batch, cache: TritonCache, options: IngestOptions, report: IngestReport) -> None:
    known = options.rank is not None
    recording = read_cache(cache, arch=options.arch, triton=options.triton, votes=known)
    add_to_batch(batch, recording, options, report, needs_rank=False)
    report.unowned_caches += not known


def _first_of(errors: Sequence[RegistryError]) -> RegistryError:
    """The first error; where there are more, it says how many and which files."""
    first = errors[0]
    others = [getattr(error, "file", "") or str(error).partition(": ")[0] for error in errors[1:]]
    if others:
        shown = ", ".join(printable(str(other)) for other in others[:_SHOWN]) + (
            ", ..." if len(others) > _SHOWN else ""
        )
        first.args = (f"{first} (and {len(others)} more: {shown})",)
    return first


def add_to_batch(
    batch: Batch, recording: Recording, options: IngestOptions, report: IngestReport, *, needs_rank: bool = True
) -> None:
    """Complete a recording's header by options and file name, and put it into the batch.

    Raises:
        ConflictError: An option contradicts what the recording says.
        RecordingError: The recording is not accepted.
    """
    header, is_named = _final_header(recording, options, report, needs_rank=needs_rank)
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


def _final_header(
    recording: Recording, options: IngestOptions, report: IngestReport, *, needs_rank: bool
) -> tuple[Header, bool]:
    """The recording's header with the options filled in, and whether its run's name was given.

    An option never overrides what the file says: a conflict is an error.
    """
    header, file = recording.header, Path(recording.file)
    prefix, rank = rank_in_name(file.name)
    stated = dataclasses.replace(header, rank=header.rank if header.rank is not None else rank)
    changes: dict[str, object] = {}
    for name in ("run", "rank", "triton", "source"):
        asked, says = getattr(options, name), getattr(stated, name)
        if asked is not None and says is not None and says != asked:
            raise ConflictError(f"{_shown(file)}: --{name} {asked!r}, but the recording says {says!r}")
        changes[name] = says if says is not None else asked
    changes["packages"] = _with_packages(header, options, file)
    if changes["rank"] is None and options.number_files:
        changes["rank"], prefix = 0, file.name  # each nameless file is a run of its own
    if changes["rank"] is None and needs_rank:
        raise FormatError(f"{_shown(file)}: no rank in its name (<prefix>.rank<N>.json) or content; give --rank N")
    is_named = changes["run"] is not None or options.number_files
    if changes["run"] is None:
        if _holds_timings_alone(recording) and rank is not None:
            prefix, says = _whose_timings(file, prefix, report)
            if says.run is not None:  # a version 1 recording: they are its own in everything it says
                return dataclasses.replace(says, rank=rank), True
        place = report.folders.setdefault(file.resolve().parent, len(report.folders) + 1)
        by_order = prefix if place == 1 else f"{prefix}@{place}"
        changes["run"] = by_order if options.number_files else f"{prefix}@{_folder_digest(file)}"
    run = str(changes["run"])
    if len(check_text(run, ("run",)).encode()) > MAX_RUN_BYTES:
        raise FormatError(f"{_shown(file)}: the run's name is longer than {MAX_RUN_BYTES} bytes")
    return dataclasses.replace(header, **changes), is_named  # type: ignore[arg-type]  # checked by Header itself


def _with_packages(header: Header, options: IngestOptions, file: Path) -> dict[str, str]:
    stated = Header(packages=options.packages).packages
    for package, version in stated.items():
        says = header.packages.get(package, version)
        if says != version:
            raise ConflictError(f"{_shown(file)}: --package {package}={version}, but the recording says {says!r}")
    return {**stated, **header.packages}


def _holds_timings_alone(recording: Recording) -> bool:
    """Whether a recording is a file of timings, which states no run."""
    return (
        bool(recording.timings) and not recording.votes and not recording.observations and recording.header.run is None
    )


def _comes_before_its_owner(recording: Recording, report: IngestReport) -> bool:
    """Whether this is a file of timings, and a recording that it may belong to has not been read yet."""
    file = Path(recording.file)
    prefix, rank = rank_in_name(file.name)
    if rank is None or not _holds_timings_alone(recording):
        return False
    tail = file.name[len(prefix) :]
    return any(str(file.parent / f"{p}{tail}") not in report.headers for p in _prefixes_beside(file, prefix, report))


def _prefixes_beside(file: Path, prefix: str, report: IngestReport) -> set[str]:
    """Prefixes of the other files of the same rank in its folder, which is listed once."""
    if file.parent not in report.beside:
        known = report.beside.setdefault(file.parent, {})
        for name in (other.name for other in file.parent.iterdir()):
            found, rank = rank_in_name(name)
            if rank is not None and not name.startswith("."):
                known.setdefault(name[len(found) :], set()).add(found)
    return report.beside[file.parent].get(file.name[len(prefix) :], set()) - {prefix}


def _whose_timings(file: Path, prefix: str, report: IngestReport) -> tuple[str, Header]:
    """The prefix under which a file of timings belongs, and what the recording there says of itself.

    That is the recording of the same rank beside it, if there is one, else the file itself.

    Raises:
        FormatError: Several recordings of that rank are beside it.
    """
    tail = file.name[len(prefix) :]
    beside = _prefixes_beside(file, prefix, report)
    if len(beside) > 1:
        raise FormatError(
            f"{_shown(file)}: timings of which run? Beside it are {', '.join(map(printable, sorted(beside)))}; give --run"
        )
    owner = next(iter(beside), prefix)
    path = file.parent / f"{owner}{tail}"
    known_header = report.headers.get(str(path))
    return owner, read_recording(path).header if known_header is None else known_header


def _folder_digest(file: Path) -> str:
    """Short digest of the resolved folder: tells two jobs of one prefix apart without showing the path."""
    return hashlib.sha256(str(file.resolve().parent).encode(errors="surrogateescape")).hexdigest()[:8]


def _shown(file: str | Path) -> str:
    return printable(str(file))
