"""Deciding which run and rank a file belongs to, from the options, the file itself and the files in its folder."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TypeVar

from tuning_registry.errors import ConflictError, FormatError
from tuning_registry.formats.recordings import rank_in_name, read_recording
from tuning_registry.formats.stores import Place, place_of
from tuning_registry.model.names import MAX_RUN_BYTES, check_text
from tuning_registry.model.records import Header, Recording
from tuning_registry.operations.ingest.options import IngestOptions

T = TypeVar("T")


class Attribution:
    """The final headers of the recordings of one ingest.

    Args:
        options: What the user states about them. An option that contradicts a file is an error.
    """

    def __init__(self, options: IngestOptions) -> None:
        self._options = options
        self._headers: dict[str, Header] = {}  # of the files read so far
        self._prefixes: dict[Place, dict[str, set[str]]] = {}  # by folder and `.rank<N>.json`
        self._folders: dict[Place, int] = {}  # of the files of unnamed runs, in order of appearance

    def note(self, recording: Recording) -> None:
        """Remember the header of a file, for timings in the same folder that belong to it."""
        self._headers[recording.file] = recording.header

    def comes_before_its_owner(self, recording: Recording) -> bool:
        """Whether this is a file of timings whose recording may be in the folder and has not been noted yet."""
        file = place_of(recording.file)
        prefix, rank = rank_in_name(file.name)
        if rank is None or not holds_timings_alone(recording):
            return False
        tail = file.name[len(prefix) :]
        return any(str(file.parent / f"{p}{tail}") not in self._headers for p in self._other_prefixes(file, prefix))

    def header_of(self, recording: Recording, *, needs_rank: bool = True) -> tuple[Header, bool]:
        """The header of a recording with the options filled in, and whether the run's name was given.

        Raises:
            ConflictError: An option contradicts the recording.
            FormatError: The rank is unknown, or the run's name is too long.
        """
        options, file = self._options, place_of(recording.file)
        prefix, rank = rank_in_name(file.name)
        header = merge_stated(file, with_rank(recording.header, rank), options)
        if header.rank is None and options.number_files:
            header, prefix = replace(header, rank=0), file.name  # each file without a rank is a separate run
        if header.rank is None and needs_rank:
            raise FormatError(
                f"{file}: neither its name (<prefix>.rank<N>.json) nor its content states a rank; give --rank N"
            )
        header, is_named = self._with_run(recording, header, prefix, rank)
        return (header, is_named) if options.as_run is None else (replace(header, run=options.as_run), True)

    def header_of_tool(self, recording: Recording) -> tuple[Header, bool]:
        """The header of a recording that another tool wrote, and whether the run's name was given.

        Without a rank it is not part of a run: a run's name is then derived for its timings. The version of the project
        that ships the file is one of its packages.

        Raises:
            ConflictError: An option contradicts the recording.
        """
        options, file, origin = self._options, place_of(recording.file), recording.origin
        assert origin is not None
        header = merge_stated(file, recording.header, options)
        if origin.project and origin.version:
            header = replace(header, packages={**header.packages, origin.project: origin.version})
        run = None if header.rank is None else options.as_run or header.run
        if run is not None:
            check_run_name(file, run)
            return replace(header, run=run), True
        place = self._folders.setdefault(file.resolve().parent, len(self._folders) + 1)
        run = numbered_run(origin.tool, place) if options.number_files else derived_run(origin.tool, file)
        return replace(header, run=run), options.number_files

    def _with_run(self, recording: Recording, header: Header, prefix: str, rank: int | None) -> tuple[Header, bool]:
        """The header with the name of its run, and whether that name was given."""
        file = place_of(recording.file)
        if header.run is not None:
            check_run_name(file, header.run)
            return header, True
        if rank is not None and holds_timings_alone(recording):
            tail = file.name[len(prefix) :]
            prefix = owner_of_timings(file, prefix, self._other_prefixes(file, prefix))
            owner = self._header_at(file.parent / f"{prefix}{tail}")
            if owner.run is not None:  # the whole header is that of the recording whose timings these are
                check_run_name(file, owner.run)
                return replace(owner, rank=rank), True
        place = self._folders.setdefault(file.resolve().parent, len(self._folders) + 1)
        run = numbered_run(prefix, place) if self._options.number_files else derived_run(prefix, file)
        check_run_name(file, run)
        return replace(header, run=run), self._options.number_files

    def _header_at(self, path: Place) -> Header:
        noted = self._headers.get(str(path))
        return read_recording(path).header if noted is None else noted

    def _other_prefixes(self, file: Place, prefix: str) -> set[str]:
        """Prefixes of the other files of the same rank in the folder, which is listed once."""
        if file.parent not in self._prefixes:
            known = self._prefixes.setdefault(file.parent, {})
            for name in (other.name for other in file.parent.iterdir()):
                found, rank = rank_in_name(name)
                if rank is not None and not name.startswith("."):
                    known.setdefault(name[len(found) :], set()).add(found)
        return self._prefixes[file.parent].get(file.name[len(prefix) :], set()) - {prefix}


def holds_timings_alone(recording: Recording) -> bool:
    """Whether a recording is a file of timings, which states no run."""
    return (
        bool(recording.timings) and not recording.votes and not recording.observations and recording.header.run is None
    )


def with_rank(header: Header, rank: int | None) -> Header:
    """The header with the rank of the file's name, if it states none."""
    return header if header.rank is not None or rank is None else replace(header, rank=rank)


def merge_stated(file: Place, header: Header, options: IngestOptions) -> Header:
    """The header with the options filled in.

    Raises:
        ConflictError: An option contradicts the header.
    """
    given = Header(packages=options.packages).packages
    for package, version in given.items():
        stated = header.packages.get(package, version)
        if stated != version:
            raise ConflictError(f"{file}: --package {package}={version}, but the recording states {stated!r}")
    return replace(
        header,
        run=_one_of(file, "run", header.run, options.run),
        rank=_one_of(file, "rank", header.rank, options.rank),
        triton=_one_of(file, "triton", header.triton, options.triton),
        source=_one_of(file, "source", header.source, options.source),
        packages={**given, **header.packages},
    )


def _one_of(file: Place, name: str, stated: T | None, asked: T | None) -> T | None:
    if asked is not None and stated is not None and stated != asked:
        raise ConflictError(f"{file}: --{name} {asked!r}, but the recording states {stated!r}")
    return asked if stated is None else stated


def owner_of_timings(file: Place, prefix: str, others: set[str]) -> str:
    """The prefix of the recording that a file of timings belongs to: the only other one of its rank, or its own.

    Raises:
        FormatError: There are several.
    """
    if len(others) > 1:
        raise FormatError(f"{file}: these timings may belong to any of {', '.join(sorted(others))}; give --run")
    return next(iter(others), prefix)


def derived_run(prefix: str, file: Place) -> str:
    """A run's name from its files: the prefix and a digest of the folder.

    The digest tells two jobs with one prefix apart without showing the path.
    """
    folder = str(file.resolve().parent).encode(errors="surrogateescape")
    return f"{prefix}@{hashlib.sha256(folder).hexdigest()[:8]}"


def numbered_run(prefix: str, place: int) -> str:
    """A run's name that does not depend on the folder's path, only on its place among the folders."""
    return prefix if place == 1 else f"{prefix}@{place}"


def check_run_name(file: Place, run: str) -> None:
    """Refuse a name that a database cannot hold.

    Raises:
        FormatError: It is too long, or not text.
    """
    try:
        check_text(run)
    except FormatError as fault:
        raise FormatError(f"{file}: the run's name: {fault.what}") from fault
    if len(run.encode()) > MAX_RUN_BYTES:
        raise FormatError(f"{file}: the run's name is longer than {MAX_RUN_BYTES} bytes")
