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
from tuning_registry.db.batch import Batch, Pending
from tuning_registry.db.reading import Row
from tuning_registry.db.store import Store
from tuning_registry.db.writing import Writing
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
        number_files: Use a file's position as the rank where nothing else states one, and name runs by the
            order of their folders rather than by where these are.
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
    replaced: int = 0
    withdrawn: int = 0
    derived_runs: list[str] = field(default_factory=list)
    strange_archs: list[str] = field(default_factory=list)
    same_content: dict[str, int] = field(default_factory=dict)  # other runs that hold some of it, and how many
    created: bool = False  # whether there was no registry in this database before
    skipped: list[RegistryError] = field(default_factory=list)
    folders: dict[Path, int] = field(default_factory=dict)  # of the files of unnamed runs, in order of appearance


def find_files(paths: Sequence[str | Path]) -> list[Path]:
    """The files that paths, folders and glob patterns name; each once, in a stable order.

    A folder stands for every `*.json` below it, hidden ones left out.

    Raises:
        FileError: A path does not exist, or names no file.
    """
    found: dict[Path, None] = {}
    for given in map(str, paths):
        path = Path(given)
        if os.path.isdir(path):  # noqa: PTH112  # false where Path.is_dir raises; reading then says why
            below = find_below(path, ".json")
            if not below:
                raise FileError(f"{printable(given)}: no .json file in this folder")
        else:
            below = expand_glob(path)
        found.update(dict.fromkeys(below))
    return list({os.path.realpath(file): file for file in reversed(found)}.values())[::-1]


def ingest(
    store: Store,
    paths: Sequence[str | Path],
    options: IngestOptions | None = None,
    track: Callable[[Sequence[Path]], Iterator[Path]] = iter,
) -> IngestReport:
    """Take the recordings in `paths` into the database, in one transaction.

    Files are read before the write lock is taken. Unless `keep_going`, one bad recording refuses all,
    and the database is as it was.

    Args:
        store: Where to.
        paths: Files, folders, glob patterns.
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
            _refuse(error, options, report)
    write_batch(store, batch, options, report)
    return report


def add_to_batch(batch: Batch, recording: Recording, options: IngestOptions, report: IngestReport) -> None:
    """Complete a recording's header by options and file name, and put it into the batch.

    Raises:
        ConflictError: An option contradicts what the recording says.
        RecordingError: The recording is not accepted.
    """
    header, is_named = _final_header(recording, options, len(batch.pending), report.folders)
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
        accepted, superseded = _sort_out(transaction, batch.pending, options, report)
        transaction.supersede(superseded, now)
        report.new_entries = transaction.insert_batch(batch, accepted, now)
    report.new = len(accepted)
    report.votes = sum(sum(batch.pending[position].vote_counts.values()) for position in accepted)


def _final_header(
    recording: Recording, options: IngestOptions, position: int, folders: dict[Path, int]
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
    for package, version in options.packages.items():
        says = header.packages.get(package, version)
        if says != version:
            raise ConflictError(f"{_shown(file)}: --package {package}={version}, but the recording says {says!r}")
    changes["packages"] = {**options.packages, **header.packages}
    if changes["rank"] is None and options.number_files:
        changes["rank"] = position
    if changes["rank"] is None:
        raise FormatError(f"{_shown(file)}: no rank in its name (<prefix>.rank<N>.json) or content; give --rank N")
    is_named = changes["run"] is not None
    if not is_named:
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
) -> tuple[list[int], list[int]]:
    """Which recordings to insert (positions) and which older ones they supersede (ids)."""
    run_names = sorted({record.identity[0] for record in pending})
    runs = transaction.runs_by_name(run_names)
    current = transaction.current_recordings(run_names)
    digests = sorted({record.votes_digest for record in pending if record.vote_counts})
    copies = transaction.same_content(digests)
    seen: dict[tuple[str, int], Pending] = {}
    accepted: list[int] = []
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
            if old is not None and _is_same(record, old):
                report.already += 1
            elif old is not None and not options.replace:
                raise _other_content(record, old)
            else:
                _check_copy(record, copies, report)
                accepted.append(position)
                if old is not None:
                    superseded.append(old["id"])
                    report.replaced += 1
            seen[record.identity] = record
        except RegistryError as error:
            _refuse(error, options, report)
    return accepted, superseded


def _check_twin(record: Pending, other: Pending) -> None:
    if (record.votes_digest, record.timings_digest) != (other.votes_digest, other.timings_digest):
        run, rank = record.identity
        raise ConflictError(
            f"{_shown(record.file)}: rank {rank} of run {printable(run)!r} is also in {_shown(other.file)}, "
            "with other content; ingest them as runs of their own (--run)"
        )


def _is_same(record: Pending, old: Row) -> bool:
    """Whether the database already holds this recording; what a recording leaves unsaid is no difference."""
    if (record.votes_digest, record.timings_digest) != (old["votes_digest"], old["timings_digest"]):
        return False
    says, packages = record.header, json.loads(old["packages"])
    return (
        (says.triton is None or says.triton == old["triton"])
        and (says.source is None or says.source == old["source"])
        and all(packages.get(name) == version for name, version in says.packages.items())
    )


def _other_content(record: Pending, old: Row) -> ConflictError:
    run, rank = record.identity
    same_votes = record.votes_digest == old["votes_digest"]
    what = "the same votes under other versions or source" if same_votes else "other content"
    return ConflictError(
        f"{_shown(record.file)}: rank {rank} of run {printable(run)!r} is there already, with {what}; "
        "--replace supersedes it, --run gives this one a run of its own"
    )


def _check_copy(record: Pending, copies: dict[tuple[str, int], list[Row]], report: IngestReport) -> None:
    """Refuse the same content under the same rank of another unnamed run: a copied folder, most likely.

    Where one of the two runs was named on purpose, both count, and the report says so.
    """
    run, rank = record.identity
    if not record.vote_counts:
        return
    others = copies.setdefault((record.votes_digest, rank), [])
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
