"""One recording of a batch, and its parts."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuning_registry.db.schema import NO_RANK
from tuning_registry.model.canonical import dump_json, text_digest
from tuning_registry.model.origins import Origin
from tuning_registry.model.records import Header

# What a recording may hold. Each kind has its own digest, and may arrive in its own file.
KINDS = ("votes", "observations", "timings")


@dataclass(frozen=True, slots=True)
class Environment:
    """The software that a recording states; equal ones share a row."""

    triton: str
    packages: str
    modules: str

    @property
    def digest(self) -> str:
        """Identity of the row."""
        return text_digest(f"{self.triton}\0{self.packages}\0{self.modules}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One recording of a batch.

    Attributes:
        file: The file that it was read from.
        header: Final header: run and rank are set.
        is_named: Whether the run's name was given, not derived from the folder.
        digests: Digest of the content, by kind, independent of how the file spells it. A kind that the recording does
            not hold is absent.
        environment: Its software.
        vote_counts: Number of votes by architecture.
        timing_count: Number of candidates' timings.
        observation_count: Number of observations.
        origin: Whose file it was, if another tool wrote it.
    """

    file: str
    header: Header
    is_named: bool
    digests: Mapping[str, str]
    environment: Environment
    vote_counts: Mapping[str, int]
    timing_count: int = 0
    observation_count: int = 0
    origin: Origin | None = None

    @property
    def identity(self) -> tuple[str, int]:
        """Run and rank; NO_RANK if the rank is unknown."""
        assert self.header.run is not None
        return self.header.run, NO_RANK if self.header.rank is None else self.header.rank


@dataclass(frozen=True, slots=True)
class Curated:
    """The choices of a file that somebody committed.

    Attributes:
        file: The file that they were read from.
        origin: Whose file it is.
        source: Free text about it.
        environment: The software that it is for.
        choices: Numbers of entry and config.
        choices_digest: Digest of the choices, independent of how the file spells them.
    """

    file: str
    origin: Origin
    source: str
    environment: Environment
    choices: Sequence[tuple[int, int]]
    choices_digest: str

    @property
    def place(self) -> tuple[str, ...]:
        """What two states of one file have in common."""
        origin = self.origin
        return origin.tool, origin.project, origin.version, self.source, origin.file, self.environment.digest

    @property
    def digest(self) -> str:
        """Identity of this state of the file."""
        return text_digest(dump_json([*self.place, self.choices_digest]))


@dataclass(frozen=True, slots=True)
class TimedEntry:
    """The timings of one entry's candidates, in columns: 24 bytes per candidate and recording.

    Attributes:
        configs: Numbers of the candidates.
        digest: Of the entry's names and the candidates' texts.
        of_set: Positions in `Batch.pending` of the recordings that chose from this set of candidates.
        fingerprint: Of the set.
        positions: Positions in `Batch.pending` of the recordings that timed exactly these.
        times_ms: For each of them, for each candidate: median, 20th and 80th percentile; NaN if it failed.
    """

    configs: tuple[int, ...]
    digest: bytes
    of_set: array[int]
    fingerprint: str
    positions: array[int] = field(default_factory=lambda: array("i"))
    times_ms: array[float] = field(default_factory=lambda: array("d"))

    def columns_of(self, place: int) -> tuple[array[float], array[float], array[float]]:
        """Medians, 20th and 80th percentiles of one candidate, by position."""
        width = 3 * len(self.configs)
        start = 3 * place
        return self.times_ms[start::width], self.times_ms[start + 1 :: width], self.times_ms[start + 2 :: width]


@dataclass(frozen=True, slots=True)
class Content:
    """What one recording of a batch holds, by number of the entry.

    Attributes:
        votes: Number of the config.
        observations: Number of the config, and the reason.
        timings: The timed candidates, and this recording's times as packed doubles.
        candidate_sets: Entries and fingerprints.
    """

    votes: dict[int, int] = field(default_factory=dict)
    observations: dict[int, tuple[int | None, str]] = field(default_factory=dict)
    timings: dict[int, tuple[TimedEntry, bytes]] = field(default_factory=dict)
    candidate_sets: set[tuple[int, str]] = field(default_factory=set)

    def contains(self, other: Content) -> bool:
        """Whether a recording with this content is a later state of one with the other, or the same."""
        settled = self.votes.keys() & other.observations.keys()  # observed before, and timed anew since
        return (
            other.votes.items() <= self.votes.items()
            and all(entry in settled or self.observations.get(entry) == seen
                    for entry, seen in other.observations.items())
            and all(entry in settled or self._has_timed(entry, *timed) for entry, timed in other.timings.items())
            and all(stated in self.candidate_sets or stated[0] in settled for stated in other.candidate_sets)
        )  # fmt: skip

    def _has_timed(self, entry: int, timed: TimedEntry, times: bytes) -> bool:
        found = self.timings.get(entry)
        return found is not None and found[0] is timed and found[1] == times
