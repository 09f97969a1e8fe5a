"""Everything about an entry: its votes, timings and overrides, and why it has its config."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from tuning_registry.db import queries
from tuning_registry.db.store import Store
from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import parse_config
from tuning_registry.model.names import ANY_KEY, lookup_key
from tuning_registry.model.records import Times
from tuning_registry.model.results import Result, rounded
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.reasons import why_elected, why_left_out
from tuning_registry.operations.election.tally import EntryVotes, Winner, check_packages
from tuning_registry.operations.election.voters import Voters
from tuning_registry.operations.election.winners import Election, elect_entries
from tuning_registry.rules.evidence import ByConfig, Policy, median_of_medians
from tuning_registry.rules.near_keys import NearKey, matching_keys, nearest_keys
from tuning_registry.rules.overrides import BAN, Override
from tuning_registry.rules.similar_names import similar_names

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
    """

    config: str
    votes: int
    voters: Mapping[str, Sequence[int]]
    median_ms: float | None
    timed_by: int
    failed_on: int
    slower_percent: float | None
    banned_by: int | None

    def to_dict(self) -> dict[str, Any]:
        """The config as JSON holds it."""
        return {
            "config": parse_config(self.config),
            "votes": self.votes,
            "runs": {run: list(ranks) for run, ranks in self.voters.items()},
            "median_ms": self.median_ms,
            "timed_by_ranks": self.timed_by,
            "failed_on_ranks": self.failed_on,
            "slower_than_fastest_percent": rounded(self.slower_percent),
            "banned_by_override": self.banned_by,
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
                    "config": parse_config(text),
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
            "config": parse_config(self.config) if self.config else None,
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
        kernels: The kernels that the name matches.
        similar: Recorded kernels with a similar name, if it matches none.
        elsewhere: Other architectures on which the kernel is recorded.
        nearest: Recorded keys that differ least, if the key has no votes.
        any_key: The `*` entry that would serve the key, if there is one.
    """

    entries: list[ExplainedEntry]
    kernels: list[str]
    similar: list[str]
    elsewhere: list[str]
    nearest: list[NearKey]
    any_key: ExplainedEntry | None

    def to_dict(self) -> dict[str, Any]:
        """The explanation as JSON holds it."""
        return {
            "entries": [entry.to_dict() for entry in self.entries],
            "similar_kernels": self.similar,
            "recorded_on": self.elsewhere,
            "nearest_keys": [near.key for near in self.nearest],
        }

    def __str__(self) -> str:
        """One line per entry."""
        return "\n".join(map(str, self.entries)) or "never recorded"


def explain(store: Store, selection: Selection, key: str | None = None, policy: str = Policy.MAJORITY) -> Explanation:
    """Explain the entries of a kernel, or one of them.

    Args:
        store: The database.
        selection: Architecture and kernel, and which votes.
        key: Shape key, in any spelling, or a pattern; `?=` keys are compared by position. None for every key.
        policy: Who decides.

    Raises:
        SelectionError: A package filter names a distribution that owns no recorded kernel.
        DatabaseError: The database cannot be read.
    """
    with store.reading() as reading:
        election = elect_entries(reading, selection, policy, every_choice=True)
        check_packages(election.votes)
        explainer = _Explainer(election, policy)
        every = explainer.entries
        wanted = None if key is None else matching_keys(key, (entry.key for entry in every))
        found = explainer.explain([entry for entry in every if wanted is None or entry.key in wanted])
        nearest: list[NearKey] = []
        star: list[ExplainedEntry] = []
        if key is not None and not any(one.config is not None for one in found):
            voted = [entry for entry in every if entry.choices]
            nearest = nearest_keys(key, [entry.key for entry in voted if ANY_KEY not in {key, entry.key}])
            star = explainer.explain([entry for entry in voted if entry.key == ANY_KEY][:1])
        kernels = sorted({entry.kernel for entry in every})
        similar: list[str] = []
        if not kernels:
            known = reading.scalars(queries.entries.kernels(str(selection.arch)))
            similar = similar_names(str(selection.kernel), known)
        elsewhere: set[str] = set()
        if not found:
            rows = reading.rows(queries.entries.shapes(replace(selection, arch=None)))
            elsewhere = {row["arch"] for row in rows} - {selection.arch}
    return Explanation(
        entries=found,
        kernels=kernels,
        similar=similar,
        elsewhere=sorted(elsewhere),
        nearest=nearest,
        any_key=star[0] if star else None,
    )


class _Explainer:
    """Explains one entry after another from facts that are read once.

    Args:
        election: The entries with votes or pins.
        policy: The policy that was asked for.
    """

    def __init__(self, election: Election, policy: str) -> None:
        self._election = election
        self._policy = policy
        self._votes = election.votes
        reading, selection = self._votes.reading, self._votes.selection
        self._recordings = sum(
            row["arch"] == selection.arch and row["vote_count"] > 0
            for row in reading.rows(queries.recordings.archs_recorded(selection))
        )
        self._devices = {
            row["id"]: row["device_name"] or "" for row in reading.rows(queries.recordings.facts(selection))
        }
        self._observed: dict[tuple[str, str], dict[str, int]] = {}
        self._spelt: dict[tuple[str, str], str] = {}
        for row in reading.rows(queries.observations.reasons_observed(selection)):
            place = row["kernel"], row["lookup_key"]
            self._observed.setdefault(place, {})[row["reason"]] = int(row["n"])
            self._spelt[place] = min(row["key"], self._spelt.get(place, row["key"]))

    @cached_property
    def entries(self) -> list[EntryVotes]:
        """Every entry that has a vote, a pin, a timing or an observation."""
        every = [*self._election.every_entry, *self._without_votes()]
        return sorted(every, key=lambda e: (e.kernel.encode(), e.key.encode(), e.group))

    def _without_votes(self) -> list[EntryVotes]:
        """Entries that have no vote but were timed or observed."""
        there = {entry.shape[1:3] for entry in self._election.every_entry}
        environments = set(self._votes.environments.values())
        found: list[EntryVotes] = []
        for (arch, kernel, key), entry_ids in self._votes.spellings.items():
            if (kernel, key) in there:
                continue
            spelt = self._spelt.get((kernel, key), key)
            groups = {
                self._votes.shape_in(entry, environment)[3:] for entry in entry_ids for environment in environments
            }
            silent = [
                EntryVotes(arch=arch, kernel=kernel, key=spelt, triton=triton, package=package, version=version)
                for triton, package, version in sorted(groups)
            ]
            timed = [entry for entry in silent if self._votes.timings(entry.shape)]
            if not timed and (kernel, key) in self._observed:  # observations belong to no version group
                timed = [EntryVotes(arch=arch, kernel=kernel, key=spelt)] if silent else []
            found += timed
        return found

    def explain(self, entries: Sequence[EntryVotes]) -> list[ExplainedEntry]:
        """Explain some of `entries`."""
        voters = Voters(self._votes, {entry.shape for entry in entries if entry.choices})
        return [self._one(entry, voters) for entry in entries]

    def _one(self, entry: EntryVotes, voters: Voters) -> ExplainedEntry:
        overrides = self._election.overrides
        touching = overrides.touching(entry.arch, entry.kernel, entry.key)
        times = self._votes.timings_by_config(entry.shape)
        config, decided_by = None, NOTHING
        if isinstance(entry, Winner):
            config, decided_by = entry.config, entry.decided_by
            why = why_elected(entry, overrides, self._policy, times)
        else:
            why = why_left_out(entry, overrides) if entry.choices else "it has no votes"
        return ExplainedEntry(
            entry=entry,
            config=config,
            why=why,
            decided_by=decided_by,
            recordings=self._recordings,
            stale=self._votes.stale.get(entry.shape, 0),
            configs=_configs(entry, config, times, touching, voters),
            overrides=touching,
            observed=self._observed.get((entry.kernel, lookup_key(entry.key)), {}),
            devices=self._by_device(entry, times, voters),
        )

    def _by_device(self, entry: EntryVotes, times: ByConfig, voters: Voters) -> tuple[DeviceView, ...]:
        votes: dict[str, dict[str, int]] = {}
        timed: dict[str, dict[str, dict[int, Times | None]]] = {}
        for choice in entry.choices:
            for recording in voters.recordings(entry.shape, choice.config_id):
                counted = votes.setdefault(self._devices[recording], {})
                counted[choice.config] = counted.get(choice.config, 0) + 1
        for config, by_rank in times.items():
            for recording, measured in by_rank.items():
                timed.setdefault(self._devices[recording], {}).setdefault(config, {})[recording] = measured
        devices = sorted({*votes, *timed})
        if len(devices) < 2:
            return ()
        return tuple(
            DeviceView(device=device, votes=votes.get(device, {}), medians_ms=_finite_medians(timed.get(device, {})))
            for device in devices
        )


def _configs(
    entry: EntryVotes, elected: str | None, times: ByConfig, overrides: Sequence[Override], voters: Voters
) -> tuple[ExplainedConfig, ...]:
    """Every config that was chosen or timed, the elected one first."""
    bans = {one.config: one.id for one in overrides if one.action == BAN}
    medians = _finite_medians(times)
    fastest = min(medians.values(), default=math.inf)
    chosen = {choice.config: choice for choice in entry.choices}
    found = []
    for config in {*chosen, *times}:
        choice, median, by_rank = chosen.get(config), medians.get(config), times.get(config, {})
        found.append(
            ExplainedConfig(
                config=config,
                votes=choice.count if choice else 0,
                voters=voters.ranks_by_run(entry.shape, choice.config_id) if choice else {},
                median_ms=median,
                timed_by=sum(one is not None for one in by_rank.values()),
                failed_on=sum(one is None for one in by_rank.values()),
                slower_percent=None if median is None or fastest <= 0 else 100 * (median / fastest - 1),
                banned_by=bans.get(config),
            )
        )
    found.sort(key=lambda one: (one.config != elected, -one.votes, one.median_ms or math.inf, one.config.encode()))
    return tuple(found)


def _finite_medians(times: ByConfig) -> dict[str, float]:
    """The median of medians of every config that worked on most ranks."""
    medians = {config: median_of_medians(by_rank) for config, by_rank in times.items()}
    return {config: median for config, median in medians.items() if math.isfinite(median)}
