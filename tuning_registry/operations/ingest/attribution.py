"""Whose recording a file is: run, rank and software, from the options, the file itself, and the files beside it."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

from tuning_registry.errors import ConflictError, FormatError
from tuning_registry.formats.recordings import rank_in_name, read_recording
from tuning_registry.model.canonical import check_text
from tuning_registry.model.records import Header, Recording
from tuning_registry.operations.ingest.types import MAX_RUN_BYTES, IngestOptions


class Attribution:
    """The final headers of the recordings of one ingest.

    Args:
        options: What the user says about them. It never overrides what a file says: a conflict is an error.
    """

    def __init__(self, options: IngestOptions) -> None:
        self._options = options
        self._headers: dict[str, Header] = {}  # what each file read so far says of itself
        self._beside: dict[Path, dict[str, set[str]]] = {}  # by folder and `.rank<N>.json`: prefixes
        self._folders: dict[Path, int] = {}  # of the files of unnamed runs, in order of appearance

    def note(self, recording: Recording) -> None:
        """Remember what a file says of itself, for the timings beside it."""
        self._headers[recording.file] = recording.header

    def comes_before_its_owner(self, recording: Recording) -> bool:
        """Whether this is a file of timings, and a recording that it may belong to has not been noted yet."""
        file = Path(recording.file)
        prefix, rank = rank_in_name(file.name)
        if rank is None or not _holds_timings_alone(recording):
            return False
        tail = file.name[len(prefix) :]
        return any(str(file.parent / f"{p}{tail}") not in self._headers for p in self._prefixes_beside(file, prefix))

    def header_of(self, recording: Recording, *, needs_rank: bool = True) -> tuple[Header, bool]:
        """The recording's header with the options filled in, and whether its run's name was given.

        Raises:
            ConflictError: An option contradicts what the recording says.
            FormatError: No rank is known, or the run's name is too long.
        """
        header, is_named = self._own_header(recording, needs_rank=needs_rank)
        as_run = self._options.as_run
        return (header, is_named) if as_run is None else (dataclasses.replace(header, run=as_run), True)

    def _own_header(self, recording: Recording, *, needs_rank: bool) -> tuple[Header, bool]:
        options, header, file = self._options, recording.header, Path(recording.file)
        prefix, rank = rank_in_name(file.name)
        stated = dataclasses.replace(header, rank=header.rank if header.rank is not None else rank)
        changes: dict[str, object] = {}
        for name in ("run", "rank", "triton", "source"):
            asked, says = getattr(options, name), getattr(stated, name)
            if asked is not None and says is not None and says != asked:
                raise ConflictError(f"{file}: --{name} {asked!r}, but the recording says {says!r}")
            changes[name] = says if says is not None else asked
        changes["packages"] = self._packages(header, file)
        if changes["rank"] is None and options.number_files:
            changes["rank"], prefix = 0, file.name  # each nameless file is a run of its own
        if changes["rank"] is None and needs_rank:
            raise FormatError(f"{file}: no rank in its name (<prefix>.rank<N>.json) or content; give --rank N")
        is_named = changes["run"] is not None or options.number_files
        if changes["run"] is None:
            if _holds_timings_alone(recording) and rank is not None:
                prefix, says = self._whose_timings(file, prefix)
                if says.run is not None:  # a version 1 recording: they are its own in everything it says
                    return dataclasses.replace(says, rank=rank), True
            place = self._folders.setdefault(file.resolve().parent, len(self._folders) + 1)
            by_order = prefix if place == 1 else f"{prefix}@{place}"
            changes["run"] = by_order if options.number_files else f"{prefix}@{_folder_digest(file)}"
        run = str(changes["run"])
        try:
            check_text(run)
        except FormatError as fault:
            raise FormatError(f"{file}: the run's name: {fault.what}") from fault
        if len(run.encode()) > MAX_RUN_BYTES:
            raise FormatError(f"{file}: the run's name is longer than {MAX_RUN_BYTES} bytes")
        return dataclasses.replace(header, **changes), is_named  # type: ignore[arg-type]  # checked by Header itself

    def _packages(self, header: Header, file: Path) -> dict[str, str]:
        stated = Header(packages=self._options.packages).packages
        for package, version in stated.items():
            says = header.packages.get(package, version)
            if says != version:
                raise ConflictError(f"{file}: --package {package}={version}, but the recording says {says!r}")
        return {**stated, **header.packages}

    def _prefixes_beside(self, file: Path, prefix: str) -> set[str]:
        """Prefixes of the other files of the same rank in its folder, which is listed once."""
        if file.parent not in self._beside:
            known = self._beside.setdefault(file.parent, {})
            for name in (other.name for other in file.parent.iterdir()):
                found, rank = rank_in_name(name)
                if rank is not None and not name.startswith("."):
                    known.setdefault(name[len(found) :], set()).add(found)
        return self._beside[file.parent].get(file.name[len(prefix) :], set()) - {prefix}

    def _whose_timings(self, file: Path, prefix: str) -> tuple[str, Header]:
        """The prefix under which a file of timings belongs, and what the recording there says of itself.

        That is the recording of the same rank beside it, if there is one, else the file itself.

        Raises:
            FormatError: Several recordings of that rank are beside it.
        """
        tail = file.name[len(prefix) :]
        beside = self._prefixes_beside(file, prefix)
        if len(beside) > 1:
            shown = ", ".join(sorted(beside))
            raise FormatError(f"{file}: timings of which run? Beside it are {shown}; give --run")
        owner = next(iter(beside), prefix)
        path = file.parent / f"{owner}{tail}"
        noted = self._headers.get(str(path))
        return owner, read_recording(path).header if noted is None else noted


def _holds_timings_alone(recording: Recording) -> bool:
    """Whether a recording is a file of timings, which states no run."""
    return (
        bool(recording.timings) and not recording.votes and not recording.observations and recording.header.run is None
    )


def _folder_digest(file: Path) -> str:
    """Short digest of the resolved folder: tells two jobs of one prefix apart without showing the path."""
    return hashlib.sha256(str(file.resolve().parent).encode(errors="surrogateescape")).hexdigest()[:8]
