"""Counting and logging pinned launches that the table did not decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tuning_registry.formats.matching import AMBIGUOUS, WHY_AMBIGUOUS
from tuning_registry.log import warn
from tuning_registry.model.names import lookup_key
from tuning_registry.runtime.guard import warn_once
from tuning_registry.runtime.policies.policy import AutotunePolicy

FAULT: Final = "fault"  # the reason of a miss: in this package, before the table could be asked
_LOGGED: Final = 20  # a job may miss thousands of keys on each rank
_WHY: Final[Mapping[str, str]] = {
    "no table": "there is no table for this architecture",
    "no kernel": "the table does not have this kernel",
    "no key": "the table does not have this key",
    "unusable entry": "the table's entry for this key cannot be used",
    "banned": "the table bans every candidate",
    "not a candidate": "the table's config is not a candidate of the kernel",
    AMBIGUOUS: WHY_AMBIGUOUS,
    "pruned away": "the kernel's pruning dropped the table's config",
    "unsupported key": "the key has no stable text",
    "does not run": "the table's config does not run here",
    FAULT: "a fault in tuning_registry, described in this log",
}
_INSTEAD: Final[Mapping[str, str]] = {
    "nearest": "choosing by the nearest recorded keys",
    "min_cost": "launching the candidate with the lowest static estimate",
    "block_sizes": "launching by the policy's block_sizes",
    "timed": "Triton tunes it",
    "error": "the launch is refused",
}


class Miss(NamedTuple):
    """A pinned launch that the table did not decide.

    Attributes:
        arch: Architecture.
        kernel: Qualified kernel name.
        key: Shape key; empty if the call has none.
        reason: `no table`, `no kernel`, `no key`, `unusable entry`, `banned`, `not a candidate`, `ambiguous config`,
            `pruned away`, `unsupported key` or `fault` (in this package; see the log).
        source: What decided instead: `nearest`, `block_sizes`, `min_cost` or `timed`; `error` if the launch was refused.
        nearest: The recorded key that is nearest, if the source is `nearest`; else empty.
    """

    arch: str
    kernel: str
    key: str
    reason: str
    source: str
    nearest: str = ""

    @property
    def place(self) -> tuple[str, str, str]:
        """Arch, kernel and key, in the spelling that all equal keys share; as `Choice.place`."""
        return self.arch, self.kernel, lookup_key(self.key)

    @property
    def instead(self) -> str:
        """What decided instead, with the key that it came from."""
        return f"{self.source} {self.nearest}" if self.nearest else self.source


class MissLog:
    """The misses under one policy: each is counted once, and the first twenty are logged with their keys.

    Safe under threads, forks and signal handlers, without a lock: a miss is one entry of a dict.

    Args:
        policy: The policy.
        describe_table: Describes the table of an architecture, for the log.
    """

    def __init__(self, policy: AutotunePolicy, describe_table: Callable[[str], str]) -> None:
        self._policy = policy
        self._describe_table = describe_table
        self._misses: dict[tuple[str, str, str], Miss] = {}

    def note(self, miss: Miss) -> bool:
        """Count and log a miss; False if this kernel and key missed before."""
        if self._misses.setdefault((miss.arch, miss.kernel, miss.key), miss) is not miss:
            return False
        number = len(self._misses)
        if number <= _LOGGED:
            warn("miss (%s) for %s, key %s, on %s: %s; %s", miss.reason, miss.kernel, miss.key or "(none)",
                 miss.arch or "(unknown)", _WHY.get(miss.reason, miss.reason), self._instead(miss))  # fmt: skip
        elif number == _LOGGED + 1:
            warn("further misses are counted but not logged; coverage_report() lists them all, and so does "
                 "registry misses if this job has a record path")  # fmt: skip
        if miss.reason != FAULT:
            warn_once(("missed", miss.arch), "the keys were looked up in %s", self._describe_table(miss.arch))
        return True

    def all(self) -> tuple[Miss, ...]:
        """Every miss once, in order of occurrence."""
        return tuple(self._misses.copy().values())

    def is_tuned(self, arch: str, kernel: str, key: str) -> bool:
        """Whether a key was missed and left to Triton."""
        miss = self._misses.get((arch, kernel, key))
        return miss is not None and miss.source == "timed"

    def _instead(self, miss: Miss) -> str:
        instead = _INSTEAD[miss.source]
        if miss.nearest:
            return f"{instead} (nearest: {miss.nearest})"
        if miss.source == "min_cost" and self._policy.block_sizes_of(miss.kernel):
            instead += " (no candidate has the policy's block_sizes)"
        return instead
