"""What the user states about the recordings of one ingest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuning_registry.errors import FormatError, UsageError
from tuning_registry.model.canonical import check_text
from tuning_registry.model.names import MAX_RUN_BYTES
from tuning_registry.model.records import Header


@dataclass(frozen=True, slots=True, kw_only=True)
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
