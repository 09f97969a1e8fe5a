"""Recordings and their parts: frozen values, checked when they are made."""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import re
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from tuning_registry.errors import FormatError, describe
from tuning_registry.model.canonical import dump_json, text_digest
from tuning_registry.model.names import check_text, normal_distribution
from tuning_registry.model.origins import Origin

T = TypeVar("T")
# By architecture, then kernel, then shape key.
ByEntry = Mapping[str, Mapping[str, Mapping[str, T]]]


Times = tuple[float, float, float]  # median, 20th and 80th percentile, in milliseconds
# See docs/decisions.md, D102.
SHORTEST_MS: Final = 1e-6  # a nanosecond, about one cycle of a GPU's clock
LONGEST_MS: Final = 1e9  # eleven days
ROUNDING: Final = 1e-6  # by which equal times may differ, as a share: timers interpolate, some in single precision
FAILED: Final[Times] = (math.nan, math.nan, math.nan)
_MEDIAN: Final = struct.Struct("d")  # the first of three


def measured_times(times: Sequence[float]) -> Times | None:
    """The times of one candidate; None if they cannot be a measurement.

    Args:
        times: Median, 20th and 80th percentile, in milliseconds.
    """
    median, p20, p80 = times
    is_ordered = p20 <= median * (1 + ROUNDING) and median <= p80 * (1 + ROUNDING)
    in_range = all(SHORTEST_MS <= time <= LONGEST_MS for time in times)  # false for NaN as well
    return (median, p20, p80) if is_ordered and in_range else None


class Timing(NamedTuple):
    """One candidate (its canonical text) and its times in milliseconds, all None if it failed or has no possible time."""

    config: str
    median_ms: float | None
    p20_ms: float | None
    p80_ms: float | None


@dataclass(frozen=True, slots=True)
class TimedCandidates:
    """The candidates of one entry as one rank timed them; stored as columns, since a fleet records millions.

    Attributes:
        configs: Canonical texts, sorted.
        packed_ms: For each, in the same order, its median, 20th and 80th percentile in milliseconds as three
            doubles (`array("d")`), `FAILED` for one that failed.
    """

    configs: tuple[str, ...]
    packed_ms: bytes

    @classmethod
    def from_timings(cls, timings: Iterable[Timing]) -> TimedCandidates:
        """The columns of these rows, given in any order.

        Raises:
            FormatError: A candidate appears twice.
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
        """One row per candidate."""
        for text, times in zip(self.configs, self.times_ms, strict=True):
            yield Timing(text, *(times or (None,) * 3))

    @property
    def times_ms(self) -> Sequence[Times | None]:
        """The times in the order of the configs; None for a candidate that failed."""
        return unpack_times(self.packed_ms)

    def may_win(self, text: str) -> bool:
        """Whether a candidate has a time here, or is not among those that were timed."""
        position = bisect.bisect_left(self.configs, text)
        if self.configs[position : position + 1] != (text,):
            return True
        (median,) = _MEDIAN.unpack_from(self.packed_ms, position * _MEDIAN.size * 3)
        return not math.isnan(median)

    @property
    def fingerprint(self) -> str:
        """Digest of the candidates (`candidate_set_digest`)."""
        return _digest_of_sorted(self.configs)


def unpack_times(packed_ms: bytes) -> list[Times | None]:
    """The times of each candidate, packed as in `TimedCandidates`; None for a candidate that failed."""
    flat = array("d", packed_ms)
    triples = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return [None if math.isnan(three[0]) else three for three in triples]


def candidate_set_digest(configs: Iterable[str]) -> str:
    """The fingerprint of the candidates that an entry was chosen from, without those that were pruned.

    It is the SHA-256 of the canonical texts, sorted and joined by line ends.
    """
    return _digest_of_sorted(tuple(sorted(configs)))


@functools.lru_cache(maxsize=4096)  # ranks choose from the same few sets again and again
def _digest_of_sorted(configs: tuple[str, ...]) -> str:
    return text_digest("\n".join(configs))


@dataclass(frozen=True, slots=True)
class Observation:
    """A choice that does not vote: its config's canonical text (None if nothing ran) and the reason."""

    config: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What a device and its software report when a recording begins; None if it could not be read. Never checked by a vote.

    Attributes:
        driver: Version of the device's driver.
        cuda: Version of the CUDA (or ROCm) runtime.
        ptxas: Version of the assembler that Triton calls.
        sm_clock_mhz: Maximum clock of the multiprocessors, in MHz.
        memory_clock_mhz: Maximum clock of the memory, in MHz.
        power_limit_w: Power limit, in watts.
    """

    driver: str | None = None
    cuda: str | None = None
    ptxas: str | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_limit_w: int | None = None

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            FormatError: A value has the wrong type or range.
        """
        for name in ("driver", "cuda", "ptxas"):
            if getattr(self, name) is not None:
                check_text(getattr(self, name), (name,))
        for name in ("sm_clock_mhz", "memory_clock_mhz", "power_limit_w"):
            _check_count(getattr(self, name), 0, name)


@dataclass(frozen=True, slots=True)
class Header:
    """The facts that a recording states about itself; None or an empty value means that it does not state one.

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
        source: Free text about the origin of the recording.
        id: 32 hexadecimal digits, drawn once per process and attempt: two states of one recording have the same.
        attempt: How often the launcher had restarted the job.
        local_rank: Rank on the host, from 0.
        device_uuid: Identity of the device, as the driver reports it.
        hardware: What the device and its software report.
        sources: SHA-256 of the source of each kernel's function, by kernel.
        extra: What a later version adds, by name; kept, and otherwise ignored.
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
    id: str | None = None
    attempt: int | None = None
    local_rank: int | None = None
    device_uuid: str | None = None
    hardware: Hardware = field(default_factory=Hardware)
    sources: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            FormatError: A value has the wrong type or range.
        """
        for name in _TEXTS:
            value = getattr(self, name)
            if value is not None and not check_text(value, (name,)) and name in {"run", "triton"}:
                raise FormatError("an empty string; expected a name", (name,))
        for name, least in _COUNTS.items():
            _check_count(getattr(self, name), least, name)
        if self.rank is not None and self.world_size is not None and self.rank >= self.world_size:
            raise FormatError(f"rank {self.rank} in a job of {self.world_size} ranks", ("rank",))
        if self.triton == NOT_STATED:
            raise FormatError(f"{NOT_STATED!r} means that no version is stated; leave the field out", ("triton",))
        object.__setattr__(self, "packages", _normal_packages(self.packages))
        _check_strings(self.modules, "modules")
        if self.id is not None and not _ID.fullmatch(self.id):
            raise FormatError(f"expected 32 hexadecimal digits, found {describe(self.id)}", ("id",))
        _check_sources(self.sources)
        _check_extra(self.extra)


# Reasons of observations: why a choice does not vote. Databases store them.
SINGLE_CANDIDATE: Final = "single candidate"
ALL_FAILED: Final = "every candidate failed"
IMPOSSIBLE_TIME: Final = "impossible time"  # of the winner
ECHO: Final = "echo of Triton's disk cache"
IN_A_CACHE: Final = "winner in a Triton cache"  # it is unknown which rank timed it, or whether a single one did
# Prefix of the reason of an observation of a pinned launch that the table did not decide.
MISS_REASON = "miss: "
_NEAREST: Final = "; nearest "  # after the reason of a miss: the recorded key by which it was decided
NOT_STATED = "none"  # how a filter selects recordings that do not state a version; not a version itself
NO_TEXT: Final = "config that a recording cannot hold"  # a launch option out of range, for instance
IN_SHARE: Final = "not all candidates timed"  # by this rank, since ranks shared the work
TWO_SOURCES: Final = "two functions of this name"  # in one process: nobody can tell whose choice it is
_TEXTS = ("run", "host", "device_name", "device_arch", "triton", "source", "id", "device_uuid")
_COUNTS = {"rank": 0, "world_size": 1, "multiprocessor_count": 0, "attempt": 0, "local_rank": 0}
_ID: Final = re.compile(r"[0-9a-f]{32}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_INT32 = 2**31  # the limit of an INTEGER column in Postgres


def miss_text(reason: str, nearest: str = "") -> str:
    """The reason of an observation of a miss.

    Args:
        reason: Why no entry of the table decided.
        nearest: The recorded key that was nearest, if `nearest` decided instead.
    """
    return MISS_REASON + reason + (_NEAREST + nearest if nearest else "")


def parse_miss(text: str) -> tuple[str, str]:
    """Reason and nearest key of an observation of a miss; the inverse of `miss_text`."""
    reason, _, nearest = text.removeprefix(MISS_REASON).partition(_NEAREST)
    return reason, nearest


def _check_count(value: object, least: int, name: str) -> None:
    if value is not None and (type(value) is not int or not least <= value < _INT32):
        raise FormatError(f"expected an integer from {least} to {_INT32 - 1}, found {describe(value)}", (name,))


def _check_strings(value: object, name: str) -> None:
    if not isinstance(value, Mapping):
        raise FormatError(f"expected an object of strings, found {describe(value)}", (name,))
    for key, item in value.items():
        check_text(key, (name, key))
        check_text(item, (name, key))


def _check_sources(sources: object) -> None:
    _check_strings(sources, "sources")
    assert isinstance(sources, Mapping)
    for kernel, digest in sources.items():
        if not kernel or not _HASH.fullmatch(digest):
            raise FormatError(f"expected a SHA-256 by kernel, found {describe(digest)}", ("sources", kernel))


def _check_extra(extra: object) -> None:
    if not isinstance(extra, Mapping):
        raise FormatError(f"expected an object, found {describe(extra)}", ("extra",))
    try:
        dump_json(extra)
    except (TypeError, ValueError, RecursionError):
        raise FormatError("expected JSON with finite numbers", ("extra",)) from None


def _normal_packages(packages: Mapping[str, str]) -> dict[str, str]:
    """Versions under the normal form of each distribution's name."""
    _check_strings(packages, "packages")
    normal: dict[str, str] = {}
    for name, version in packages.items():
        known = normal.setdefault(normal_distribution(name), version)
        if not name or not version or version == NOT_STATED:
            raise FormatError("expected a name and a version; omit a package that has none", ("packages", name))
        if known != version:
            raise FormatError(
                "this distribution appears under two spellings with different versions", ("packages", name)
            )
    return normal


@dataclass(frozen=True, slots=True)
class Recording:
    """The choices of one rank of one run.

    Attributes:
        file: The file it was read from, for messages.
        header: The facts that it states about itself.
        votes: Canonical config text by arch, kernel and key.
        observations: Choices that do not vote.
        timings: Every candidate's timing, by entry.
        candidate_sets: Fingerprint of the candidates that an entry was chosen from, if these are not exactly the
            candidates that were timed.
        device: The device that its entries are for; empty unless its source is per device.
        origin: Whose file it is, if another tool wrote it. Its votes count only if it has a rank.
    """

    file: str
    header: Header
    votes: ByEntry[str]
    observations: ByEntry[Observation] = field(default_factory=dict)
    timings: ByEntry[TimedCandidates] = field(default_factory=dict)
    candidate_sets: ByEntry[str] = field(default_factory=dict)
    device: str = ""
    origin: Origin | None = None
