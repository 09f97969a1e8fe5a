"""The outcome of an ingest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tuning_registry.errors import RegistryError
from tuning_registry.model.results import Result
from tuning_registry.wording import count_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FoldReport(Result):
    """What became of hand-ins.

    Attributes:
        hand_ins: How many were folded.
        recordings: Recordings that were not in the database.
        completed: Recordings that were, and got votes, observations or timings that they lacked.
        votes: Votes inserted.
        timings: Timings of candidates inserted.
        refused: Why hand-ins were refused.
    """

    hand_ins: int = 0
    recordings: int = 0
    completed: int = 0
    votes: int = 0
    timings: int = 0
    refused: tuple[str, ...] = ()

    def __add__(self, other: FoldReport) -> FoldReport:
        """Both together."""
        values = {field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        return FoldReport(**values)

    def to_dict(self) -> dict[str, Any]:
        """Every attribute by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"refused": list(self.refused)}

    def __str__(self) -> str:
        """What was folded, then what was refused."""
        parts = [count_of(self.hand_ins, "hand-in"), count_of(self.recordings, "new recording")]
        parts.append(count_of(self.votes, "vote"))
        if self.timings:
            parts.append(count_of(self.timings, "timing"))
        if self.completed:
            parts.append(f"{self.completed:,} completed")
        if self.refused:
            parts.append(f"{len(self.refused):,} refused")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class IngestReport(Result):
    """The outcome of an ingest. Attributes count recordings unless they state otherwise.

    Attributes:
        new: Recordings that were not in the database.
        completed: Recordings that were, and got votes, observations or timings that they lacked.
        already: Recordings that were, with everything that was read.
        replaced: Old recordings that are now superseded.
        withdrawn: Recordings of withdrawn runs and ranks, and withdrawn files of curated choices; left unchanged.
        votes: Votes inserted.
        timings: Timings of candidates inserted.
        observations: Observations inserted.
        files: Files of curated choices that were not in the database.
        curated: Curated choices inserted.
        new_entries: Entries that no recording had before.
        timings_beside: Files of timings in the folders of the recordings that were not named.
        unowned_caches: Triton caches of unknown rank, whose winners do not vote.
        derived_runs: Names of runs that were derived from the files, in order of appearance.
        strange_archs: Architectures with an unknown spelling, stored as given.
        same_content: How many recordings hold the same votes or timings as another run, by that run's name.
        other_sources: Kernels that ranks of one run recorded from functions of different source, by run.
        many_keys: Architecture, name and number of keys of the kernels with more than `MANY_KEYS` of them, if there are
            new entries.
        spellings: Groups of configs that ranks chose for one entry and that Triton cannot tell apart.
        look_alikes: Kernels whose names have characters outside ASCII: other names may look the same.
        broken_formats: What is wrong with formats of other tools that cannot be used.
        created: Whether the ingest created the registry in an empty database.
        skipped: Why recordings were left out.
        folded: What became of pending hand-ins; None if there were none.
    """

    new: int = 0
    completed: int = 0
    already: int = 0
    replaced: int = 0
    withdrawn: int = 0
    votes: int = 0
    timings: int = 0
    observations: int = 0
    files: int = 0
    curated: int = 0
    new_entries: int = 0
    timings_beside: int = 0
    unowned_caches: int = 0
    derived_runs: Sequence[str] = ()
    strange_archs: Sequence[str] = ()
    same_content: Mapping[str, int] = field(default_factory=dict)
    other_sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    many_keys: Sequence[tuple[str, str, int]] = ()
    spellings: Sequence[Sequence[str]] = ()
    look_alikes: Sequence[str] = ()
    broken_formats: Sequence[str] = ()
    created: bool = False
    skipped: Sequence[RegistryError] = ()
    folded: FoldReport | None = None

    def to_dict(self) -> dict[str, Any]:
        """Every attribute by name; errors as their messages."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {
            "derived_runs": list(self.derived_runs),
            "strange_archs": list(self.strange_archs),
            "same_content": dict(self.same_content),
            "other_sources": {run: list(kernels) for run, kernels in self.other_sources.items()},
            "many_keys": [list(found) for found in self.many_keys],
            "broken_formats": list(self.broken_formats),
            "spellings": [list(texts) for texts in self.spellings],
            "look_alikes": list(self.look_alikes),
            "skipped": [str(error) for error in self.skipped],
            "folded": None if self.folded is None else self.folded.to_dict(),
        }

    def __str__(self) -> str:
        """What was ingested, then what was not."""
        parts = [] if self.files and not self.new else [count_of(self.new, "recording"), count_of(self.votes, "vote")]
        if self.files:
            parts.append(f"{count_of(self.files, 'file')} with {count_of(self.curated, 'curated choice')}")
        if self.timings:
            parts.append(count_of(self.timings, "timing"))
        parts.append(count_of(self.new_entries, "new entry"))
        if self.observations:
            parts.append(count_of(self.observations, "observation"))
        others = {
            "already ingested": self.already,
            "completed": self.completed,
            "superseded": self.replaced,
            "withdrawn (not changed; to count them again, use registry runs restore)": self.withdrawn,
            "skipped": len(self.skipped),
        }
        return ", ".join([*parts, *(f"{count:,} {what}" for what, count in others.items() if count)])
