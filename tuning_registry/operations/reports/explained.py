"""The results of `explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import load_config
from tuning_registry.model.results import Result, rounded
from tuning_registry.operations.election.tally import EntryVotes
from tuning_registry.operations.election.timings import Sample
from tuning_registry.operations.reports.audits import audited_fields
from tuning_registry.operations.reports.unseen import PredictedLaunch
from tuning_registry.rules.audits import AuditedConfig
from tuning_registry.rules.near_keys import NearKey
from tuning_registry.rules.overrides import Override

NOTHING: Final = "nothing"  # in `ExplainedEntry.decided_by`: the entry has no config


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedConfig:
    """One config of an entry that was chosen or timed.

    Attributes:
        config: Canonical text.
        votes: Votes for it.
        voters: The ranks that chose it, by run.
        median_ms: Median over ranks of their medians; None if it was not timed or failed on most ranks.
        timed_by: Number of ranks on which it was timed and worked.
        failed_on: Number of ranks on which it failed.
        slower_percent: 100 times its median over that of the fastest config, less 1.
        banned_by: Id of the ban that keeps it from being elected; None if it is not banned.
        audited: What audits found about it; None if it was not audited.
    """

    config: str
    votes: int
    voters: Mapping[str, Sequence[int]]
    median_ms: float | None
    timed_by: int
    failed_on: int
    slower_percent: float | None
    banned_by: int | None
    audited: AuditedConfig | None = None

    def to_dict(self) -> dict[str, Any]:
        """The config as JSON holds it."""
        return {
            "config": load_config(self.config),
            "votes": self.votes,
            "runs": {run: list(ranks) for run, ranks in self.voters.items()},
            "median_ms": self.median_ms,
            "timed_by_ranks": self.timed_by,
            "failed_on_ranks": self.failed_on,
            "slower_than_fastest_percent": rounded(self.slower_percent),
            "banned_by_override": self.banned_by,
            "audit": None if self.audited is None else audited_fields(self.audited),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceView:
    """An entry as the ranks on one device see it: votes and median of medians (ms) by config."""

    device: str
    votes: Mapping[str, int]
    medians_ms: Mapping[str, float]

    @property
    def configs(self) -> list[str]:
        """Canonical texts, those with most votes first."""
        return sorted({*self.votes, *self.medians_ms}, key=lambda text: (-self.votes.get(text, 0), text))

    def to_dict(self) -> dict[str, Any]:
        """The view as JSON holds it."""
        return {
            "device": self.device or None,
            "configs": [
                {
                    "config": load_config(text),
                    "votes": self.votes.get(text, 0),
                    "median_ms": self.medians_ms.get(text),
                }
                for text in self.configs
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExplainedEntry(Result):
    """An entry of one version group.

    Attributes:
        entry: Arch, kernel, key, version group and votes.
        config: The config it gets; None if it gets none.
        why: The reason, in one sentence.
        decided_by: The policy, `pin`, or `nothing`.
        recordings: Number of recordings with votes on the architecture.
        stale: Number of recordings that chose from other candidates than the newest one.
        configs: Its config first, then those with most votes, then the fastest.
        overrides: Pins and bans of its key or of `*`.
        observed: Number of recordings that did not vote on it, by the reason that they state.
        devices: Votes and timings by device; empty if all are from one device.
    """

    entry: EntryVotes
    config: str | None
    why: str
    decided_by: str
    recordings: int
    stale: int
    configs: tuple[ExplainedConfig, ...]
    overrides: tuple[Override, ...]
    observed: Mapping[str, int]
    devices: tuple[DeviceView, ...]

    def to_dict(self) -> dict[str, Any]:
        """The explanation as JSON holds it."""
        return {
            **self.entry.head(),
            "config": load_config(self.config) if self.config else None,
            "why": self.why,
            "decided_by": str(self.decided_by),
            "total_votes": self.entry.votes,
            "recordings_on_arch": self.recordings,
            "stale_recordings": self.stale,
            "configs": [one.to_dict() for one in self.configs],
            "overrides": [one.to_dict() for one in self.overrides],
            "observations": dict(self.observed),
            "devices": [one.to_dict() for one in self.devices],
            **self.entry.versions(),
        }

    def __str__(self) -> str:
        """One readable line."""
        shown = short_config(self.config) if self.config else "no config"
        return printable(f"{self.entry.arch} {self.entry.kernel} {self.entry.key}: {shown}: {self.why}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Explanation(Result):
    """The entries that were found, with suggestions if none was.

    Attributes:
        entries: Sorted by kernel, key and version group.
        kernels: The kernels that the name matches; if one key was asked for and has a config, those that have the key.
        similar: Recorded kernels with a similar name, if it matches none.
        elsewhere: Other architectures on which the kernel is recorded.
        nearest: Recorded keys that differ least, if the key has no votes.
        any_key: The `*` entry that would serve the key, if there is one.
        predicted: What jobs launch for a key without a config, for each kernel without a `*` entry.
        sample: Which part of the timings the figures rest on; None if on all.
    """

    entries: list[ExplainedEntry]
    kernels: list[str]
    similar: list[str]
    elsewhere: list[str]
    nearest: list[NearKey]
    any_key: ExplainedEntry | None
    predicted: tuple[PredictedLaunch, ...] = ()
    sample: Sample | None = None

    def to_dict(self) -> dict[str, Any]:
        """The explanation as JSON holds it."""
        return {
            "entries": [entry.to_dict() for entry in self.entries],
            "similar_kernels": self.similar,
            "recorded_on": self.elsewhere,
            "nearest_keys": [near.key for near in self.nearest],
            "predicted_launches": [one.to_dict() for one in self.predicted],
            **(self.sample.to_dict() if self.sample else {}),
        }

    def __str__(self) -> str:
        """One line per entry and prediction."""
        return "\n".join(map(str, (*self.entries, *self.predicted))) or "never recorded"
