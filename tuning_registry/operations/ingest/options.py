"""What the user states about the recordings of one ingest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuning_registry.errors import FormatError, UsageError
from tuning_registry.model.names import MAX_RUN_BYTES, check_text
from tuning_registry.model.records import Header


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """What the user states about the recordings.

    Attributes:
        run: Name of the run, for recordings that do not state one.
        rank: Rank, for one file whose name and content do not state it.
        arch: Architecture, for a Triton cache or a file of another tool that does not state it.
        device: Device, for a file of another tool that does not state it.
        format: Name of the format of all files (`registry formats`); by default each is found by its content.
        triton: Triton version, for recordings that do not state it.
        packages: Version by distribution, for recordings that do not state it.
        source: Free text, for recordings that do not state it.
        replace: Let a recording with other content supersede the one of the same run and rank, which is kept.
        keep_going: Skip files that cannot be ingested instead of rejecting all.
        number_files: Accept files that state no rank, each as a separate run, and name runs by the order of their
            folders instead of by the folders' paths.
        as_run: Name of the run that overrides the one in the recordings, for a second job with the same name.
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
    device: str | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for a value that no recording could state."""
        if self.run is not None and self.as_run is not None:
            raise UsageError(
                "--run and --as-run cannot be combined: --run applies to recordings that state no run, --as-run to all of them"
            )
        try:
            for name in ("arch", "device", "format"):
                value = getattr(self, name)
                if value is not None and not check_text(value, (name,)):
                    raise FormatError("an empty name", (name,))
            if self.as_run is not None and not 0 < len(check_text(self.as_run, ("as-run",)).encode()) <= MAX_RUN_BYTES:
                raise FormatError(f"expected a name of at most {MAX_RUN_BYTES} bytes", ("as-run",))
            Header(run=self.run, rank=self.rank, triton=self.triton, packages=self.packages, source=self.source)
        except FormatError as error:
            raise UsageError(f"--{error.path[0]}: {error.what}") from error
