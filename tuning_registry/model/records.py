"""The values that pass between readers, votes, database and tables: frozen, checked when made."""

from __future__ import annotations

import functools
import itertools
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from tuning_registry.errors import FormatError
from tuning_registry.model.canonical import check_text, describe, text_digest
from tuning_registry.model.names import is_known_arch, normal_arch, normal_distribution

T = TypeVar("T")
# By architecture, then kernel, then shape key.
ByEntry = Mapping[str, Mapping[str, Mapping[str, T]]]


Times = tuple[float, float, float]  # median, 20th and 80th percentile, in milliseconds
FAILED: Final[Times] = (math.nan, math.nan, math.nan)


class Timing(NamedTuple):
    """One candidate (its canonical text) and its times in milliseconds, all None when it failed."""

    config: str
    median_ms: float | None
    p20_ms: float | None
    p80_ms: float | None


@dataclass(frozen=True, slots=True)
class TimedCandidates:
    """The candidates of one entry as one rank timed them, in columns: a fleet's recordings hold millions.

    Attributes:
        configs: Canonical texts, sorted.
        packed_ms: For each, in the same order, its median, 20th and 80th percentile in milliseconds as three
            doubles (`array("d")`), `FAILED` for one that failed.
    """

    configs: tuple[str, ...]
    packed_ms: bytes

    @classmethod
    def from_timings(cls, timings: Iterable[Timing]) -> TimedCandidates:
        """The columns of these rows, in whatever order.

        Raises:
            FormatError: One candidate stands twice.
        """
        rows = sorted(timings, key=lambda timing: timing.config)
        configs = tuple(row.config for row in rows)
        if len(set(configs)) != len(rows):
            raise FormatError("one candidate is timed twice")
        times = (FAILED if m is None or p20 is None or p80 is None else (m, p20, p80) for _, m, p20, p80 in rows)
        return cls(configs, array("d", itertools.chain.from_iterable(times)).tobytes())

    def __len__(self) -> int:
        """Number of candidates."""
        return len(self.configs)

    def __iter__(self) -> Iterator[Timing]:
        """One row a candidate."""
        for text, times in zip(self.configs, self.times_ms, strict=True):
            yield Timing(text, *(times or (None,) * 3))

    @property
    def times_ms(self) -> Sequence[Times | None]:
        """The times in the order of the configs; None for one that failed."""
        flat = array("d", self.packed_ms)
        triples = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        return [None if math.isnan(three[0]) else three for three in triples]

    @property
    def fingerprint(self) -> str:
        """Digest of the candidates (`candidate_set_digest`)."""
        return _digest_of_sorted(self.configs)


def candidate_set_digest(configs: Iterable[str]) -> str:
    """Fingerprint of the candidates an entry was chosen from, pruned ones left out: equal sets have equal ones.

    SHA-256 of the canonical texts, sorted and joined by line ends.
    """
    return _digest_of_sorted(tuple(sorted(configs)))


@functools.lru_cache(maxsize=4096)  # ranks choose from the same few sets over and over
def _digest_of_sorted(configs: tuple[str, ...]) -> str:
    return text_digest("\n".join(configs))


@dataclass(frozen=True, slots=True)
class Observation:
    """A choice that is no vote: its config's canonical text (None: nothing ran) and why it does not vote."""

    config: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Header:
    """What a recording says about itself; None and empty mean that it does not say.

    Attributes:
        run: Name of the job.
        rank: Rank of the process in it, from 0.
        world_size: Number of ranks of the job.
        host: Host name.
        device_name: As the driver names it ("NVIDIA H200").
        device_arch: Architecture of that device.
        multiprocessor_count: Streaming multiprocessors or compute units of the device.
        triton: Triton's version.
        packages: Version by distribution name.
        modules: Distribution name by top-level module ("fla" belongs to "fla-core").
        source: Free text: where the recording comes from.
    """

    run: str | None = None
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    device_name: str | None = None
    device_arch: str | None = None
    multiprocessor_count: int | None = None
    triton: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None

    def __post_init__(self) -> None:
        """Raises FormatError for a value of the wrong type or range."""
        for name in _TEXTS:
            value = getattr(self, name)
            if value is not None and not check_text(value, (name,)) and name in {"run", "triton"}:
                raise FormatError("an empty string; expected a name, or the field absent", (name,))
        for name, least in _COUNTS.items():
            _check_count(getattr(self, name), least, name)
        if self.rank is not None and self.world_size is not None and self.rank >= self.world_size:
            raise FormatError(f"rank {self.rank} of a world of {self.world_size}", ("rank",))
        if self.triton == NOT_STATED:
            raise FormatError(f"{NOT_STATED!r} means not stated; leave the field out", ("triton",))
        object.__setattr__(self, "packages", _normal_packages(self.packages))
        _check_strings(self.modules, "modules")


# Reasons of observations: why a choice is not a vote. Databases hold them.
SINGLE_CANDIDATE: Final = "single candidate"
ALL_FAILED: Final = "every candidate failed"
IMPOSSIBLE_TIME: Final = "impossible time"  # of the winner
ECHO: Final = "echo of Triton's disk cache"
IN_A_CACHE: Final = "winner in a Triton cache"  # nobody knows which rank timed it, or whether one rank did
# Before the reason of an observation: a pinned launch that the table did not decide.
MISS_REASON = "miss: "
NOT_STATED = "none"  # how a filter asks for recordings that do not state a version: no version of its own
_TEXTS = ("run", "host", "device_name", "device_arch", "triton", "source")
_COUNTS = {"rank": 0, "world_size": 1, "multiprocessor_count": 0}
_INT32 = 2**31  # what an INTEGER column of Postgres holds


def _check_count(value: object, least: int, name: str) -> None:
    if value is not None and (type(value) is not int or not least <= value < _INT32):
        raise FormatError(f"expected an integer from {least} to {_INT32 - 1}, found {describe(value)}", (name,))


def _check_strings(value: object, name: str) -> None:
    if not isinstance(value, Mapping):
        raise FormatError(f"expected an object of strings, found {describe(value)}", (name,))
    for key, item in value.items():
        check_text(key, (name, key))
        check_text(item, (name, key))


def _normal_packages(packages: Mapping[str, str]) -> dict[str, str]:
    """Versions under the normal form of each distribution's name."""
    _check_strings(packages, "packages")
    normal: dict[str, str] = {}
    for name, version in packages.items():
        known = normal.setdefault(normal_distribution(name), version)
        if not name or not version or version == NOT_STATED:
            raise FormatError("expected a name and a version, or the package left out", ("packages", name))
        if known != version:
            raise FormatError("the same distribution under two spellings and versions", ("packages", name))
    return normal


@dataclass(frozen=True, slots=True)
class Recording:
    """What one rank of one run chose.

    Attributes:
        file: Where it was read, for messages.
        header: What it says about itself.
        votes: Canonical config text by arch, kernel and key.
        observations: Choices that are no votes.
        timings: Every candidate's timing, by entry.
        candidate_sets: Fingerprint of the candidates an entry was chosen from, where these are not, or not only,
            those that were timed.
    """

    file: str
    header: Header
    votes: ByEntry[str]
    observations: ByEntry[Observation] = field(default_factory=dict)
    timings: ByEntry[TimedCandidates] = field(default_factory=dict)
    candidate_sets: ByEntry[str] = field(default_factory=dict)

    def strange_archs(self) -> list[str]:
        """Architectures that are spelled like no known one: stored as given, worth a word to the user."""
        named = {*self.votes, *self.observations, *self.timings, *self.candidate_sets}
        return sorted(arch for arch in named if not is_known_arch(normal_arch(arch)))
