"""Reading what a page shows, in the queries of one transaction and those of `compare_ranks` and `find_misses`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tuning_registry.db import queries
from tuning_registry.db.schema import NO_RANK
from tuning_registry.db.store import Store
from tuning_registry.model.kinds import Kind, kind_of
from tuning_registry.model.records import Times
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.reasons import why_elected, why_left_out
from tuning_registry.operations.election.tally import PINNED, EntryVotes, Winner, check_packages
from tuning_registry.operations.election.voters import Voters
from tuning_registry.operations.election.votes_by_shape import Timed
from tuning_registry.operations.election.winners import Election, elect_entries
from tuning_registry.operations.reports.costs import cost_of, timed_of
from tuning_registry.operations.reports.misses import find_misses
from tuning_registry.operations.reports.page.against import compare_with, environments_of
from tuning_registry.operations.reports.page.report import Candidate, Column, Report, ReportEntry, worst_first
from tuning_registry.operations.reports.page.unseen import KernelKeys, what_unseen_keys_get
from tuning_registry.operations.reports.ranks import compare_ranks
from tuning_registry.rules.audits import bits_of, summarize
from tuning_registry.rules.evidence import ByConfig, ByRank, Policy, median_of_medians
from tuning_registry.rules.near_keys import matching_keys

DOTS: Final = 40_000  # timings that a page shows one by one; above, it shows their spread over ranks
_MOST_CHOICES: Final = 250  # choices that `ReportEntry.chosen` tells apart


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What a report is about, apart from the filters.

    Attributes:
        source: Where the data comes from, in words.
        key: Only the entries of this key, or of keys that match this pattern.
        against: Table file or run to compare with.
    """

    source: str = ""
    key: str | None = None
    against: str | None = None


def gather_report(store: Store, selection: Selection, options: ReportOptions | None = None) -> Report:
    """Everything that a page shows about a selection.

    Args:
        store: The database.
        selection: Which votes count.
        options: What else to show, and whether to compare.

    Raises:
        SelectionError: A package filter names a distribution that owns no recorded kernel, or the comparison cannot be
            made.
        FileError: The table to compare with cannot be read.
        TableError: It is not a table, or it is for another architecture.
        DatabaseError: The database cannot be read.
    """
    options = options or ReportOptions()
    comparison = None if options.against is None else compare_with(store, options.against, selection, options.key)
    with store.reading() as reading:
        election = elect_entries(reading, selection, Policy.MAJORITY, every_choice=True)
        check_packages(election.votes)
        gathering = _Gathering(election)
        entries = gathering.entries(options.key)
        columns = gathering.columns
        environments = environments_of(reading, selection)
        if election.votes.timed.sample is not None:
            environments = [*environments, ("timings", str(election.votes.timed.sample))]
    misses = () if selection.packages else find_misses(store, selection)[0]
    if options.key is not None:
        wanted = matching_keys(options.key, (miss.key for miss in misses))
        misses = [miss for miss in misses if miss.key in wanted]
    return Report(
        source=options.source,
        filters=_filters_text(selection, options.key),
        columns=columns,
        entries=sorted(entries, key=worst_first),
        fleet=compare_ranks(store, selection),
        misses=misses,
        unseen=what_unseen_keys_get(
            gathering.kernels, [miss for miss in misses if not miss.recorded], election.overrides
        ),
        environments=environments,
        comparison=comparison,
    )


class _Gathering:
    """Reads one entry after another.

    Attributes:
        columns: The ranks that voted.
        kernels: By architecture and kernel, what the rule for unseen keys works on; complete after `entries`.
    """

    def __init__(self, election: Election) -> None:
        self._election = election
        self._votes = election.votes
        every = election.every_entry
        self._voters = Voters(self._votes, {entry.shape for entry in every})
        facts = self._votes.reading.rows(queries.recordings.facts(self._votes.selection))
        voted = {
            recording
            for entry in every
            for choice in entry.choices
            for recording in self._voters.recordings(entry.shape, choice.config_id)
        }
        facts = sorted(
            (row for row in facts if row["id"] in voted),
            key=lambda row: (row["run"], row["host"] or "", row["rank"], row["id"]),
        )
        self._column_of = {row["id"]: number for number, row in enumerate(facts)}
        self.columns = [
            Column(
                run=row["run"],
                rank=None if row["rank"] == NO_RANK else row["rank"],
                host=row["host"] or None,
                device=row["device_name"] or None,
            )
            for row in facts
        ]
        self._newest = self._newest_groups(every)
        self._shows_dots = len(self.columns) * len(every) * 10 <= DOTS
        self.kernels: dict[tuple[str, str], KernelKeys] = {}

    def _newest_groups(self, every: Sequence[EntryVotes]) -> dict[Any, tuple[str, str, str, str]]:
        """The version group with the newest recording, by architecture, owning package and device."""
        newest: dict[Any, tuple[int, tuple[str, str, str, str]]] = {}
        for entry in every:
            ids = [max(self._voters.recordings(entry.shape, c.config_id), default=0) for c in entry.choices]
            place = entry.arch, entry.package, entry.device
            newest[place] = max(newest.get(place, (0, entry.group)), (max(ids, default=0), entry.group))
        return {place: group for place, (_, group) in newest.items()}

    def entries(self, key: str | None) -> list[ReportEntry]:
        """The entries of a key, or of a pattern, or all of them."""
        every = self._election.every_entry
        stale = self._votes.stale
        wanted = None if key is None else matching_keys(key, (entry.key for entry in every))
        current = {
            (e.shape[:3], e.device) for e in every if e.votes and e.group == self._newest[e.arch, e.package, e.device]
        }
        found = []
        for entry in every:
            timed = timed_of(entry, self._votes)
            candidates = self._candidates(entry, timed.times)
            newest = self._newest[entry.arch, entry.package, entry.device]
            is_old = bool(entry.votes) and (entry.shape[:3], entry.device) not in current
            if isinstance(entry, Winner) and _in_a_table(entry) and (entry.group == newest or not entry.votes):
                self._note_kernel(entry, candidates)
            if wanted is None or entry.key in wanted:
                other = newest[:3] if is_old else ()  # the versions, since the device is the same
                found.append(self._entry(entry, timed, candidates, stale.get(entry.shape, 0), other))
        return found

    def _entry(
        self,
        entry: EntryVotes,
        timed: Timed,
        candidates: tuple[Candidate, ...],
        stale: int,
        newest: tuple[str, ...],
    ) -> ReportEntry:
        audits = self._votes.audits.get(entry.shape, {})
        entry = replace(
            entry,
            bits=bits_of(audits, [choice.config for choice in entry.choices]),
            choices=tuple(
                replace(choice, recordings=self._voters.recordings(entry.shape, choice.config_id))
                for choice in entry.choices
            ),
        )
        overrides = self._election.overrides
        cost = cost_of(entry, timed) if entry.choices else None
        is_split = entry.config_count > 1
        has_config = isinstance(entry, Winner)
        return ReportEntry(
            entry=entry,
            config=entry.config if isinstance(entry, Winner) else None,
            why=why_elected(entry, overrides, Policy.MAJORITY, timed.times)
            if isinstance(entry, Winner)
            else why_left_out(entry, overrides),
            is_overridden=isinstance(entry, Winner) and entry.decided_by == PINNED,
            cost=cost if is_split else None,
            fleet=cost.fleet if cost and has_config else None,
            fastest=cost.fastest if cost and has_config else None,
            candidates=candidates,
            chosen=self._chosen(entry),
            stale=stale,
            newest=newest,
        )

    def _chosen(self, entry: EntryVotes) -> bytes:
        chosen = bytearray(len(self.columns))
        for place, choice in enumerate(entry.choices):
            for recording in choice.recordings:
                chosen[self._column_of[recording]] = min(place, _MOST_CHOICES) + 1
        return bytes(chosen)

    def _candidates(self, entry: EntryVotes, times: ByConfig) -> tuple[Candidate, ...]:
        places = {choice.config: (place, choice.count) for place, choice in enumerate(entry.choices)}
        banned = self._election.overrides.banned(entry.arch, entry.kernel, entry.key)
        audited = {one.config: one for one in summarize(self._votes.audits.get(entry.shape, {}))}
        found = []
        for config in {**dict.fromkeys(places), **dict.fromkeys(times)}:
            by_rank = times.get(config, {})
            place, votes = places.get(config, (None, 0))
            candidate = self._candidate(config, place, votes, by_rank, is_banned=config in banned)
            found.append(replace(candidate, audited=audited[config]) if config in audited else candidate)
        return tuple(sorted(found, key=_chosen_first))

    def _candidate(self, config: str, place: int | None, votes: int, by_rank: ByRank, *, is_banned: bool) -> Candidate:
        median = median_of_medians(by_rank)
        worked = [one for _, one in sorted(by_rank.items()) if one is not None]
        return Candidate(
            config=config,
            place=place,
            votes=votes,
            median_ms=median if math.isfinite(median) else None,
            spread_ms=_spread([one[0] for one in worked]) if worked else None,
            by_rank=tuple(map(_with_range, worked)) if self._shows_dots else (),
            timed_by=len(worked),
            failed_on=len(by_rank) - len(worked),
            is_banned=is_banned,
            audited=None,
        )

    def _note_kernel(self, entry: Winner, candidates: Sequence[Candidate]) -> None:
        """Remember what the rule for unseen keys takes from an entry."""
        kernel = self.kernels.setdefault((entry.arch, entry.kernel), KernelKeys())
        kernel.winners[entry.key] = entry.config
        kernel.medians[entry.key] = {
            one.config: math.inf if one.median_ms is None else one.median_ms
            for one in candidates
            if one.timed_by or one.failed_on
        }


def _in_a_table(entry: Winner) -> bool:
    """Whether a canonical table may hold an entry, so that the rule for unseen keys uses it."""
    return kind_of(entry.config) is Kind.TRITON and not entry.device


def _with_range(times: Times) -> Times:
    """Times to draw: percentiles that were not kept are the median."""
    return times if not math.isnan(times[1]) else (times[0], times[0], times[0])


def _spread(medians: list[float]) -> tuple[float, float, float, float, float]:
    medians.sort()
    last = len(medians) - 1
    return (medians[0], medians[round(0.2 * last)], medians[last // 2], medians[round(0.8 * last)], medians[last])


def _chosen_first(one: Candidate) -> tuple[float, float, bytes]:
    return (
        math.inf if one.place is None else one.place,
        math.inf if one.median_ms is None else one.median_ms,
        one.config.encode(),
    )


def _filters_text(selection: Selection, key: str | None) -> str:
    chosen = {
        "arch": selection.arch,
        "kernel": selection.kernel,
        "key": key,
        "run": ", ".join(selection.runs),
        "rank": ", ".join(map(str, selection.ranks)),
        "source": selection.source,
        "triton": selection.triton,
        "package": ", ".join(f"{name}={version}" for name, version in selection.packages.items()),
    }
    return "; ".join(f"{name} {value}" for name, value in chosen.items() if value)
