"""What an ingest is told, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tuning_registry.errors import FormatError, RegistryError, UsageError
from tuning_registry.model.canonical import check_text
from tuning_registry.model.records import Header

# Postgres indexes names; beyond this its B-tree refuses them (2,704 bytes a row).
MAX_RUN_BYTES: Final = 1000


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What the user says about the recordings.

    Attributes:
        run: Name of the run, for recordings that do not state theirs.
        rank: Rank, for one file whose name and content do not state it.
        arch: Architecture of a Triton cache folder that does not say it.
        triton: Triton version, for recordings that do not state it.
        packages: Version by distribution, likewise.
        source: Free text, likewise.
        replace: Let other content of a (run, rank) take the place of the old, which is kept as superseded.
        keep_going: Skip what cannot be taken instead of refusing everything.
        number_files: Take also files that state no rank, each as a run of its own, and name runs by the order
            of their folders rather than by where these are.
        as_run: Name of the run, whatever the recordings say: another job had the same name.
    """

    run: str | None = None
    rank: int | None = None
    arch: str | None = None
    triton: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    replace: bool = False
    keep_going: bool = False
    number_files: bool = False
    as_run: str | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for a value that no recording could state."""
        if self.run is not None and self.as_run is not None:
            raise UsageError("--run names runs that are not stated, --as-run all of them: give one of the two")
        try:
            if self.arch is not None and not check_text(self.arch, ("arch",)):
                raise FormatError("an empty name", ("arch",))
            if self.as_run is not None and not 0 < len(check_text(self.as_run, ("as-run",)).encode()) <= MAX_RUN_BYTES:
                raise FormatError(f"expected a name of at most {MAX_RUN_BYTES} bytes", ("as-run",))
            Header(run=self.run, rank=self.rank, triton=self.triton, packages=self.packages, source=self.source)
        except FormatError as error:
            raise UsageError(f"--{error.path[0]}: {error.what}") from error


@dataclass(slots=True)
class IngestReport:
    """What an ingest did; counts of recordings unless said otherwise."""

    new: int = 0
    votes: int = 0  # votes of the new recordings
    timings: int = 0  # candidates' timings that were inserted
    observations: int = 0  # choices that are no votes
    timings_beside: int = 0  # files of timings beside the recordings that were not named with them
    unowned_caches: int = 0  # Triton cache folders of which no rank is known, so that their winners do not vote
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
