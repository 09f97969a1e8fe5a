"""Everything about an entry: its votes, timings and overrides, and why it has its config."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading
from tuning_registry.db.store import Store
from tuning_registry.model.globs import is_glob, matches_kernel
from tuning_registry.model.names import ANY_KEY, is_positional, lookup_key, positional_key
from tuning_registry.model.records import Times
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.reasons import what_bans_leave, why_elected, why_left_out
from tuning_registry.operations.election.tally import PINNED, EntryVotes, Winner, check_packages
from tuning_registry.operations.election.voters import Voters
from tuning_registry.operations.election.winners import Election, elect_entries
from tuning_registry.operations.reports.explained import (
    NOTHING,
    DeviceView,
    ExplainedConfig,
    ExplainedEntry,
    Explanation,
)
from tuning_registry.operations.reports.unseen import predict_launches
from tuning_registry.rules.audits import AuditedConfig, summarize
from tuning_registry.rules.evidence import ByConfig, Policy, median_of_medians
from tuning_registry.rules.near_keys import NearKey, matching_keys, nearest_keys
from tuning_registry.rules.overrides import Override
from tuning_registry.rules.similar_names import similar_names


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
        exact = _exact_keys(key)
        if exact:
            # A kernel may have hundreds of thousands of keys: read the others only if this one has no config.
            found = _explain(reading, replace(selection, lookup_keys=exact), key, policy)
            if any(one.config is not None for one in found.entries):
                return found
        return _explain(reading, selection, key, policy)


def _exact_keys(key: str | None) -> tuple[str, ...]:
    """The lookup spellings that a key can have in the database, and `*`; none for a pattern or a key without names."""
    if key is None or is_glob(key) or is_positional(key):
        return ()
    return tuple(dict.fromkeys((lookup_key(key), positional_key(key), ANY_KEY)))


def _explain(reading: Reading, selection: Selection, key: str | None, policy: str) -> Explanation:
    election = elect_entries(reading, selection, policy, every_choice=True)
    check_packages(election.votes)
    explainer = _Explainer(election, policy)
    every = explainer.entries
    wanted = None if key is None else matching_keys(key, (entry.key for entry in every))
    found = explainer.explain([entry for entry in every if wanted is None or entry.key in wanted])
    kernels = sorted({entry.kernel for entry in every})
    is_decided = key is None or any(one.config is not None for one in found)
    return Explanation(
        entries=found,
        kernels=kernels,
        similar=[] if kernels else _similar_kernels(reading, selection),
        elsewhere=[] if found else _other_archs(reading, selection),
        nearest=[] if is_decided else _nearest(every, str(key)),
        any_key=None if is_decided else explainer.any_key(),
        predicted=() if is_decided else tuple(predict_launches(election, str(key))),
        sample=election.votes.timed.sample,
    )


def _similar_kernels(reading: Reading, selection: Selection) -> list[str]:
    known = reading.scalars(queries.entries.kernels(str(selection.arch)))
    others = [name for name in known if not matches_kernel(str(selection.kernel), name)]
    return similar_names(str(selection.kernel), others) if len(others) == len(known) else []


def _other_archs(reading: Reading, selection: Selection) -> list[str]:
    rows = reading.rows(queries.entries.shapes(replace(selection, arch=None)))
    archs = {row["arch"] for row in rows}
    return [] if selection.arch in archs else sorted(archs)  # known here, but no vote passes the filters


def _nearest(every: Sequence[EntryVotes], key: str) -> list[NearKey]:
    """The keys with votes that differ least from a key; a `*` entry is not near any key."""
    return nearest_keys(key, [entry.key for entry in every if entry.choices and ANY_KEY not in {key, entry.key}])


class _Explainer:
    """Explains one entry after another from facts that are read once.

    Args:
        election: The entries with votes or pins.
        policy: The requested policy.
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
        if selection.curated:
            everything = replace(selection, kernel=None, lookup_keys=())
            self._recordings += len({row["origin_id"] for row in reading.rows(queries.origins.choices(everything))})
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
                EntryVotes(
                    arch=arch, kernel=kernel, key=spelt, triton=triton, package=package, version=version, device=device
                )
                for triton, package, version, device in sorted(groups)
            ]
            timed = [entry for entry in silent if self._votes.was_timed(entry.shape)]
            if not timed and (kernel, key) in self._observed:  # observations belong to no version group
                timed = [EntryVotes(arch=arch, kernel=kernel, key=spelt)] if silent else []
            found += timed
        return found

    def explain(self, entries: Sequence[EntryVotes]) -> list[ExplainedEntry]:
        """Explain some of `entries`."""
        voters = Voters(self._votes, {entry.shape for entry in entries if entry.choices})
        return [self._one(entry, voters) for entry in entries]

    def any_key(self) -> ExplainedEntry | None:
        """The `*` entry, if there is one."""
        star = [entry for entry in self.entries if entry.choices and entry.key == ANY_KEY]
        return self.explain(star[:1])[0] if star else None

    def _one(self, entry: EntryVotes, voters: Voters) -> ExplainedEntry:
        overrides = self._election.overrides
        touching = overrides.touching(entry.arch, entry.kernel, entry.key)
        times = self._votes.timings_by_config(entry.shape)
        config, decided_by = None, NOTHING
        if isinstance(entry, Winner):
            config, decided_by = entry.config, entry.decided_by
            why = why_elected(entry, overrides, self._policy, times)
        else:
            why = self._why_left_out(entry, times) if entry.choices else "it has no votes"
        return ExplainedEntry(
            entry=entry,
            config=config,
            why=why,
            decided_by=decided_by,
            recordings=self._recordings,
            stale=self._votes.stale.get(entry.shape, 0),
            configs=_configs(entry, config, times, touching, voters, self._audited(entry)),
            overrides=touching,
            observed=self._observed.get((entry.kernel, lookup_key(entry.key)), {}),
            devices=self._by_device(entry, times, voters),
        )

    def _audited(self, entry: EntryVotes) -> dict[str, AuditedConfig]:
        return {one.config: one for one in summarize(self._votes.audits.get(entry.shape, {}))}

    def _why_left_out(self, entry: EntryVotes, times: ByConfig) -> str:
        """Why bans leave an entry without a config, and what its launches get instead."""
        left = what_bans_leave(entry, self._election.overrides, times, self._star_config(entry))
        return f"{why_left_out(entry, self._election.overrides)}; {left.text}"

    def _star_config(self, entry: EntryVotes) -> str | None:
        """The config of the `*` entry in the entry's version group."""
        stars = (one for one in self._election.entries if (one.kernel, one.key) == (entry.kernel, ANY_KEY))
        return next((one.config for one in stars if one.group == entry.group or one.decided_by == PINNED), None)

    def _by_device(self, entry: EntryVotes, times: ByConfig, voters: Voters) -> tuple[DeviceView, ...]:
        votes: dict[str, dict[str, int]] = {}
        timed: dict[str, dict[str, dict[int, Times | None]]] = {}
        for choice in entry.choices:
            for recording in voters.recordings(entry.shape, choice.config_id):
                counted = votes.setdefault(self._devices.get(recording, entry.device), {})
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
    entry: EntryVotes,
    elected: str | None,
    times: ByConfig,
    overrides: Sequence[Override],
    voters: Voters,
    audited: Mapping[str, AuditedConfig],
) -> tuple[ExplainedConfig, ...]:
    """Every config that was chosen or timed, the elected one first."""
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
                banned_by=next((one.id for one in overrides if one.bans(config)), None),
                audited=audited.get(config),
            )
        )
    found.sort(key=lambda one: (one.config != elected, -one.votes, one.median_ms or math.inf, one.config.encode()))
    return tuple(found)


def _finite_medians(times: ByConfig) -> dict[str, float]:
    """The median of medians of every config that worked on most ranks."""
    medians = {config: median_of_medians(by_rank) for config, by_rank in times.items()}
    return {config: median for config, median in medians.items() if math.isfinite(median)}
