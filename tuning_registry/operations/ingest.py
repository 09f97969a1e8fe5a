"""Taking recordings into a database, all or nothing."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tuning_registry.canonical import check_text
from tuning_registry.db.batch import KINDS, Batch, Pending
from tuning_registry.db.reading import Row
from tuning_registry.db.store import Store
from tuning_registry.db.writing import Placement, Writing
from tuning_registry.errors import (
    ConflictError,
    FileError,
    FormatError,
    RegistryError,
    SchemaError,
    UsageError,
    printable,
)
from tuning_registry.files import expand_glob, find_below
from tuning_registry.quick_read import QuickReader
from tuning_registry.recordings import rank_in_name
from tuning_registry.records import Header, Recording

# Postgres indexes names; beyond this its B-tree refuses them (2,704 bytes a row).
MAX_RUN_BYTES = 1000
_SHOWN = 5  # files named in an error beside the first


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What the user says about the recordings.

    Attributes:
        run: Name of the run, for recordings that do not state theirs.
        rank: Rank, for one file whose name and content do not state it.
        triton: Triton version, for recordings that do not state it.
        packages: Version by distribution, likewise.
        source: Free text, likewise.
        replace: Let other content of a (run, rank) take the place of the old, which is kept as superseded.
        keep_going: Skip what cannot be taken instead of refusing everything.
        number_files: Take also files that state no rank, each as a run of its own, and name runs by the order
            of their folders rather than by where these are.
    """

    run: str | None = None
    rank: int | None = None
    triton: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    replace: bool = False
    keep_going: bool = False
    number_files: bool = False

    def __post_init__(self) -> None:
        """Raises UsageError for a value that no recording could state."""
        try:
            Header(run=self.run, rank=self.rank, triton=self.triton, packages=self.packages, source=self.source)
        except FormatError as error:
            raise UsageError(f"--{error.path[0]}: {error.what}") from error


@dataclass(slots=True)
class IngestReport:
    """What an ingest did; counts of recordings unless said otherwise."""

    new: int = 0
    votes: int = 0  # votes of the new recordings
    new_entries: int = 0  # entries that no recording had before
    already: int = 0
    completed: int = 0  # recordings that were there and got votes, observations or timings they had not
    replaced: int = 0
    withdrawn: int = 0
    derived_runs: list[str] = field(default_factory=list)
    strange_archs: list[str] = field(default_factory=list)
    same_content: dict[str, int] = field(default_factory=dict)  # other runs that hold some of it, and how many
    created: bool = False  # whether there was no registry in this database before
    skipped: list[RegistryError] = field(default_factory=list)
    folders: dict[Path, int] = field(default_factory=dict)  # of the files of unnamed runs, in order of appearance


def find_files(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The files that paths, folders and glob patterns name; each once, in a stable order.

    A folder stands for every `*.json` below it, hidden ones left out.

    Raises:
        FileError: A path does not exist, or names no file.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    found: dict[Path, None] = {}
    for path in (match for given in several for match in expand_glob(Path(given))):
        below = [path]
        if os.path.isdir(path):  # noqa: PTH112  # false where Path.is_dir raises; reading then says why
            below = find_below(path, ".json")
            if not below:
                raise FileError(f"{printable(str(path))}: no .json file in this folder")
        found.update(dict.fromkeys(below))
    return list({os.path.realpath(file): file for file in reversed(found)}.values())[::-1]


def ingest(
    store: Store,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    options: IngestOptions | None = None,
    track: Callable[[Sequence[Path]], Iterator[Path]] = iter,
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
    if options.rank is not None and len(files) > 1:
        raise UsageError(f"--rank names one recording, but there are {len(files)} files")
    report = IngestReport()
    batch = Batch()
    reader = QuickReader()
    for file in track(files):
        try:
            add_to_batch(batch, reader.read(file), options, report)
        except RegistryError as error:
            report.skipped.append(error)
    if report.skipped and not options.keep_going:
        raise _first_of(report.skipped)
    write_batch(store, batch, options, report)
    return report


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


def add_to_batch(batch: Batch, recording: Recording, options: IngestOptions, report: IngestReport) -> None:
    """Complete a recording's header by options and file name, and put it into the batch.

    Raises:
        ConflictError: An option contradicts what the recording says.
        RecordingError: The recording is not accepted.
    """
    header, is_named = _final_header(recording, options, report.folders)
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
        placements, superseded = _sort_out(transaction, batch.pending, options, report)
        transaction.supersede(superseded, now)
        report.new_entries = transaction.insert_batch(batch, placements, now)
    report.new = sum(place.recording_id is None for place in placements.values())
    report.completed = len(placements) - report.new
    voting = [position for position, place in placements.items() if "votes" in place.kinds]
    report.votes = sum(sum(batch.pending[position].vote_counts.values()) for position in voting)


def _final_header(recording: Recording, options: IngestOptions, folders: dict[Path, int]) -> tuple[Header, bool]:
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
    stated_packages = Header(packages=options.packages).packages
    for package, version in stated_packages.items():
        says = header.packages.get(package, version)
        if says != version:
            raise ConflictError(f"{_shown(file)}: --package {package}={version}, but the recording says {says!r}")
    changes["packages"] = {**stated_packages, **header.packages}
    if changes["rank"] is None and options.number_files:
        changes["rank"], prefix = 0, file.name  # each nameless file is a run of its own
    if changes["rank"] is None:
        raise FormatError(f"{_shown(file)}: no rank in its name (<prefix>.rank<N>.json) or content; give --rank N")
    is_named = changes["run"] is not None or options.number_files
    if changes["run"] is None:
        place = folders.setdefault(file.resolve().parent, len(folders) + 1)
        by_order = prefix if place == 1 else f"{prefix}@{place}"
        changes["run"] = by_order if options.number_files else f"{prefix}@{_folder_digest(file)}"
    run = str(changes["run"])
    if len(check_text(run, ("run",)).encode()) > MAX_RUN_BYTES:
        raise FormatError(f"{_shown(file)}: the run's name is longer than {MAX_RUN_BYTES} bytes")
    return dataclasses.replace(header, **changes), is_named  # type: ignore[arg-type]  # checked by Header itself


def _folder_digest(file: Path) -> str:
    """Short digest of the resolved folder: tells two jobs of one prefix apart without showing the path."""
    return hashlib.sha256(str(file.resolve().parent).encode(errors="surrogateescape")).hexdigest()[:8]


def _sort_out(
    transaction: Writing, pending: Sequence[Pending], options: IngestOptions, report: IngestReport
) -> tuple[dict[int, Placement], list[int]]:
    """What to insert where, by position, and the ids of older recordings that are superseded."""
    run_names = sorted({record.identity[0] for record in pending})
    runs = transaction.runs_by_name(run_names)
    current = transaction.current_recordings(run_names)
    digests = sorted({record.digests["votes"] for record in pending if record.vote_counts})
    copies = transaction.same_content(digests)
    seen: dict[tuple[str, int], Pending] = {}
    placements: dict[int, Placement] = {}
    superseded: list[int] = []
    for position, record in enumerate(pending):
        try:
            if record.identity in seen:
                _check_twin(record, seen[record.identity])
                report.already += 1
                continue
            run = runs.get(record.identity[0])
            if run is not None and run["withdrawn_at"]:
                report.withdrawn += 1
                continue
            old = current.get(record.identity)
            place = _place(record, old, replace=options.replace)
            if not place.kinds:
                report.already += 1
            else:
                _check_copy(record, copies, report)
                placements[position] = place
                if old is not None and place.recording_id is None:
                    superseded.append(old["id"])
                    report.replaced += 1
            seen[record.identity] = record
        except RegistryError as error:
            _refuse(error, options, report)
    return placements, superseded


def _place(record: Pending, old: Row | None, *, replace: bool) -> Placement:
    """Where a recording goes: a new one, what the old one lacks, or nothing when all of it is there.

    Raises:
        ConflictError: The database holds something else for this (run, rank), and `replace` is not set.
    """
    if old is None:
        return Placement(frozenset(record.digests))
    held = {kind: old[f"{kind}_digest"] for kind in KINDS if old[f"{kind}_digest"]}
    differing = sorted(kind for kind in held if record.digests.get(kind, held[kind]) != held[kind])
    if not differing and _says_nothing_else(record, old):
        return Placement(frozenset(record.digests.keys() - held.keys()), old["id"])
    run, rank = record.identity
    lost = sorted(held.keys() - record.digests.keys())
    if replace and lost:
        raise ConflictError(
            f"{_shown(record.file)}: holds no {' or '.join(lost)}, which rank {rank} of run {printable(run)!r} has; "
            "--replace takes the place of a whole recording"
        )
    if replace:
        return Placement(frozenset(record.digests))
    what = f"other {' and '.join(differing)}" if differing else "the same content under other versions or source"
    raise ConflictError(
        f"{_shown(record.file)}: rank {rank} of run {printable(run)!r} is there already, with {what}; "
        "--replace supersedes it, --run gives this one a run of its own"
    )


def _check_twin(record: Pending, other: Pending) -> None:
    """Refuse a second file of one (run, rank) unless it says exactly what the first one says."""
    if (record.digests, record.environment, record.header.source) != (
        other.digests,
        other.environment,
        other.header.source,
    ):
        run, rank = record.identity
        raise ConflictError(
            f"{_shown(record.file)}: rank {rank} of run {printable(run)!r} is also in {_shown(other.file)}, with other "
            "content or versions; ingest them one after the other, or as runs of their own (--run)"
        )


def _says_nothing_else(record: Pending, old: Row) -> bool:
    """Whether versions and source are as the database has them; what a recording leaves unsaid is no difference."""
    says, packages, modules = record.header, json.loads(old["packages"]), json.loads(old["modules"])
    return (
        (says.triton is None or says.triton == old["triton"])
        and (says.source is None or says.source == old["source"])
        and all(packages.get(name) == version for name, version in says.packages.items())
        and all(modules.get(name) == owner for name, owner in says.modules.items())
    )


def _check_copy(record: Pending, copies: dict[tuple[str, int], list[Row]], report: IngestReport) -> None:
    """Refuse the same content under the same rank of another unnamed run: a copied folder, most likely.

    Where one of the two runs was named on purpose, both count, and the report says so.
    """
    run, rank = record.identity
    if not record.vote_counts:
        return
    others = copies.setdefault((record.digests["votes"], rank), [])
    for other in others:
        if other["run"] == run:
            continue
        if not record.is_named and not other["is_named"]:
            raise ConflictError(
                f"{_shown(record.file)}: rank {rank} of {printable(other['run'])!r} has exactly this content: "
                "probably a copy; if it is another run, name it with --run"
            )
        report.same_content[other["run"]] = report.same_content.get(other["run"], 0) + 1
    others.append({"run": run, "is_named": record.is_named})


def _refuse(error: RegistryError, options: IngestOptions, report: IngestReport) -> None:
    if not options.keep_going or isinstance(error, SchemaError):
        raise error
    report.skipped.append(error)


def _shown(file: str | Path) -> str:
    return printable(str(file))
