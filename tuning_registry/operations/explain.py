"""Everything about an entry: who chose what, how fast it is, what was decided, and why it has its config."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading
from tuning_registry.db.store import Store
from tuning_registry.model.names import ANY_KEY, lookup_key
from tuning_registry.model.records import Times
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.election import Election, Evidence, elect_entries
from tuning_registry.operations.election.reasons import overrides_of, why_elected, why_left_out
from tuning_registry.operations.election.shapes import Shapes
from tuning_registry.operations.election.staleness import find_stale
from tuning_registry.operations.election.tally import Entry, Voters, check_packages
from tuning_registry.operations.overrides import BAN, Override
from tuning_registry.rules.evidence import MAJORITY, ByConfig, median_of_medians
from tuning_registry.rules.near_keys import NearKey, is_same_key, nearest_keys, similar_names

NOTHING: Final = "nothing"  # in `ExplainedEntry.decided_by`: no config


@dataclass(frozen=True, slots=True)
class ExplainedConfig:
    """One config of an entry, chosen or timed.

    Attributes:
        config: Canonical text.
        votes: Votes for it.
        voters: Who chose it: ranks by run.
        median_ms: Median over ranks of their medians; None when it was not timed or mostly failed.
        timed_by: On how many ranks it was timed and worked.
        failed_on: On how many it failed.
        slower_percent: 100 times its median over that of the fastest config, less 1.
        banned_by: Id of the ban that keeps it from being elected; None without.
    """

    config: str
    votes: int
    voters: Mapping[str, Sequence[int]]
    median_ms: float | None
    timed_by: int
    failed_on: int
    slower_percent: float | None
    banned_by: int | None


@dataclass(frozen=True, slots=True)
class DeviceView:
    """What the ranks on one device say about an entry: votes and median of medians (ms) by config."""

    device: str
    votes: Mapping[str, int]
    medians_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ExplainedEntry:
    """An entry of one version group.

    Attributes:
        entry: Arch, kernel, key, version group, votes and staleness.
        config: The config it gets; None: none.
        why: Why, in one sentence.
        decided_by: The policy, `pin`, or `nothing`.
        seen_by: How many recordings have a vote on it.
        recordings: Of how many with votes on the architecture.
        configs: Its config first, then those with most votes, then the fastest.
        overrides: Pins and bans that stand for its key or for `*`.
        observed: How many recordings did not vote on it, by the reason they gave.
        devices: By device, where they differ; else empty.
    """

    entry: Entry
    config: str | None
    why: str
    decided_by: str
    seen_by: int
    recordings: int
    configs: tuple[ExplainedConfig, ...]
    overrides: tuple[Override, ...]
    observed: Mapping[str, int]
    devices: tuple[DeviceView, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was found, and what comes near where it was not.

    Attributes:
        entries: Sorted by kernel, key and version group.
        kernels: The kernels that the name stands for.
        similar: Recorded kernels with a similar name, where it stands for none.
        elsewhere: Other architectures on which the kernel is recorded.
        nearest: Recorded keys that differ least, where nobody voted on the one asked for.
        any_key: What a `*` entry would say for it: the entry, where there is one.
    """

    entries: list[ExplainedEntry]
    kernels: list[str]
    similar: list[str]
    elsewhere: list[str]
    nearest: list[NearKey]
    any_key: ExplainedEntry | None


def explain(store: Store, selection: Selection, key: str | None = None, policy: str = MAJORITY) -> Explanation:
    """Everything about the entries of a kernel, or about one of them.

    Args:
        store: The database.
        selection: Architecture and kernel, and which votes.
        key: Shape key, in any spelling; `?=` keys are compared by position.
        policy: Who decides.

    Raises:
        SelectionError: A package filter names a distribution that owns no recorded kernel.
        DatabaseError: The database cannot be read.
    """
    with store.reading() as reading:
        check_packages(reading, selection)
        election = elect_entries(reading, selection, policy, needs_evidence=True)
        desk = _Desk(reading, selection, policy, election)
        every = desk.entries()
        wanted = [entry for entry in every if key is None or is_same_key(key, entry.key)]
        found = [desk.explain(entry) for entry in wanted]
        if key is None or any(one.config is not None for one in found):
            nearest: list[NearKey] = []
            star = None
        else:
            voted = [entry for entry in every if entry.choices]
            nearest = nearest_keys(key, [entry.key for entry in voted if ANY_KEY not in {key, entry.key}])
            star = next((desk.explain(entry) for entry in voted if entry.key == ANY_KEY), None)
        kernels = sorted({entry.kernel for entry in every})
        similar = (
            []
            if kernels
            else similar_names(str(selection.kernel), reading.scalars(queries.entries.kernels(str(selection.arch))))
        )
        elsewhere = (
            set()
            if found
            else {row["arch"] for row in reading.rows(queries.entries.shapes(replace(selection, arch=None)))}
        )
    return Explanation(found, kernels, similar, sorted(elsewhere - {selection.arch}), nearest, star)


class _Desk:
    """Everything that explaining one entry after another needs, read once."""

    def __init__(self, reading: Reading, selection: Selection, policy: str, election: Election) -> None:
        self._policy = policy
        self._election = election
        choices = queries.votes.choices(selection, reading.environments_that_count(selection))
        self._voters = Voters(reading, selection, reading.rows(choices))
        self._stale = find_stale(reading, selection)
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
        self._left_out = {entry.shape for entry in election.left_out}
        self._entries = sorted(
            [*election.entries, *election.left_out, *self._without_votes(reading, selection)],
            key=lambda e: (e.kernel.encode(), e.key.encode(), e.group),
        )
        self._evidence = Evidence(reading, selection, self._entries)

    def entries(self) -> list[Entry]:
        """Every entry that has a vote, a pin, a timing or an observation."""
        return self._entries

    def _without_votes(self, reading: Reading, selection: Selection) -> list[Entry]:
        """Entries on which no vote counts, but that were timed or observed."""
        there = {entry.shape[1:3] for entry in (*self._election.entries, *self._election.left_out)}
        shapes = Shapes(reading, selection)
        environments = set(reading.environments_that_count(selection))
        silent: dict[tuple[str, str], list[Entry]] = {}
        for (arch, kernel, key), entry_ids in shapes.spellings.items():
            if (kernel, key) not in there:
                spelt = self._spelt.get((kernel, key), key)
                groups = {shapes.of(entry, environment)[3:] for entry in entry_ids for environment in environments}
                silent[kernel, key] = [
                    Entry(arch, kernel, spelt, *group, (), 0, 0, decided_by=NOTHING) for group in sorted(groups)
                ]
        evidence = Evidence(reading, selection, [entry for entries in silent.values() for entry in entries])
        found: list[Entry] = []
        for place, entries in silent.items():
            timed = [entry for entry in entries if evidence.of(entry.shape)]
            if not timed and place in self._observed:  # observations are of no version group
                timed = [replace(entry, triton="", package="", version="") for entry in entries[:1]]
            found += timed
        return found

    def explain(self, entry: Entry) -> ExplainedEntry:
        """All about one of `entries`."""
        overrides = self._election.overrides
        times = self._evidence.of(entry.shape)
        is_elected = bool(entry.choices) and entry.shape not in self._left_out
        if is_elected:
            why = why_elected(entry, overrides, self._policy, times)
        else:
            why = why_left_out(entry, overrides) if entry.choices else "none: no vote counts on it"
        touching = overrides_of(entry, overrides)
        return ExplainedEntry(
            replace(entry, stale=self._stale.get(entry.shape, 0)),
            entry.choices[0].config if is_elected else None,
            why,
            entry.decided_by if is_elected else NOTHING,
            entry.votes,  # a recording has one vote on an entry
            self._recordings,
            self._configs(entry, times, touching, is_elected=is_elected),
            touching,
            self._observed.get((entry.kernel, lookup_key(entry.key)), {}),
            self._by_device(entry, times),
        )

    def _configs(
        self, entry: Entry, times: ByConfig, overrides: Sequence[Override], *, is_elected: bool
    ) -> tuple[ExplainedConfig, ...]:
        bans = {o.config: o.id for o in overrides if o.action == BAN}
        medians = {config: median_of_medians(by_rank) for config, by_rank in times.items()}
        fastest = min(medians.values(), default=math.inf)
        chosen = {choice.config: choice for choice in entry.choices}
        found = []
        for config in {*chosen, *times}:
            choice = chosen.get(config)
            median = medians.get(config, math.inf)
            voters = self._voters.ranks_by_run(entry.shape, choice.config_id) if choice else {}
            here = times.get(config, {}).values()
            found.append(
                ExplainedConfig(
                    config,
                    choice.count if choice else 0,
                    voters,
                    median if math.isfinite(median) else None,
                    sum(one is not None for one in here),
                    sum(one is None for one in here),
                    100 * (median / fastest - 1) if math.isfinite(median) and fastest > 0 else None,
                    bans.get(config),
                )
            )
        first = entry.choices[0].config if is_elected else None
        return tuple(
            sorted(found, key=lambda c: (c.config != first, -c.votes, c.median_ms or math.inf, c.config.encode()))
        )

    def _by_device(self, entry: Entry, times: ByConfig) -> tuple[DeviceView, ...]:
        votes: dict[str, dict[str, int]] = {}
        timed: dict[str, dict[str, dict[int, Times | None]]] = {}
        for choice in entry.choices:
            for recording in self._voters.recordings(entry.shape, choice.config_id):
                counted = votes.setdefault(self._devices[recording], {})
                counted[choice.config] = counted.get(choice.config, 0) + 1
        for config, by_rank in times.items():
            for recording, measured in by_rank.items():
                timed.setdefault(self._devices[recording], {}).setdefault(config, {})[recording] = measured
        devices = sorted({*votes, *timed})
        if len(devices) < 2:
            return ()
        return tuple(
            DeviceView(
                device,
                votes.get(device, {}),
                {config: value for config, by_rank in timed.get(device, {}).items()
                 if math.isfinite(value := median_of_medians(by_rank))},
            )
            for device in devices
        )  # fmt: skip
