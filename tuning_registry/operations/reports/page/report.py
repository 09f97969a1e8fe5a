"""What a page shows, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tuning_registry.errors import printable
from tuning_registry.model.names import bare_name
from tuning_registry.model.records import Times
from tuning_registry.model.results import Result, rounded
from tuning_registry.operations.election.tally import EntryVotes
from tuning_registry.operations.reports.costs import CONFLICT, DisagreementCost, most_costly_first
from tuning_registry.operations.reports.misses import MissedEntry
from tuning_registry.operations.reports.ranks import Fleet
from tuning_registry.rules.audits import AuditedConfig
from tuning_registry.rules.evidence import Slowdown
from tuning_registry.rules.near_keys import NearKey
from tuning_registry.rules.table_diff import EntryChange
from tuning_registry.wording import count_of

UNANIMOUS: Final = "unanimous"  # in `ReportEntry.verdict`, next to those of `costs`


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A rank of a run that voted: one column of `ReportEntry.chosen`. `rank`, `host` and `device` may be unknown."""

    run: str
    rank: int | None
    host: str | None
    device: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A config of an entry that was chosen or timed.

    Attributes:
        config: Canonical text.
        place: Its place among the entry's choices, 0 for the elected one; None if nobody chose it.
        votes: Votes for it.
        median_ms: The median over ranks of their medians; None if it was not timed or failed on most ranks.
        spread_ms: Of the ranks' medians: minimum, 20th percentile, median, 80th percentile and maximum; None if it
            worked on no rank.
        by_rank: `(median, p20, p80)` in ms of each rank on which it worked, in the order of the recordings; empty if
            there are more than a page can show.
        timed_by: Number of ranks on which it was timed and worked.
        failed_on: Number of ranks on which it failed.
        is_banned: Whether a ban keeps it from being elected.
        audited: What audits say about its results; None if it was not audited.
    """

    config: str
    place: int | None
    votes: int
    median_ms: float | None
    spread_ms: tuple[float, float, float, float, float] | None
    by_rank: tuple[Times, ...]
    timed_by: int
    failed_on: int
    is_banned: bool
    audited: AuditedConfig | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportEntry:
    """An entry of one version group with everything that a page shows of it.

    Attributes:
        entry: Arch, kernel, key, version group and choices, the elected config first.
        config: The config that it gets; None if every chosen config is banned.
        why: The reason, in one sentence.
        is_overridden: Whether a pin decided.
        cost: What the disagreement costs; None if the ranks agree.
        fleet: How much slower the elected config is, over all ranks, than the fastest one; None if it was not timed.
        fastest: Canonical text of that config; None likewise.
        candidates: The elected config first, then the other choices, then the others by time.
        chosen: One byte per column of the report: 0 if the rank did not vote, else 1 plus the place of its choice.
        stale: Number of recordings that chose from other candidates than the newest one.
        newest: The version group of the newest recording, if the entry was only recorded with others; empty otherwise.
    """

    entry: EntryVotes
    config: str | None
    why: str
    is_overridden: bool
    cost: DisagreementCost | None
    fleet: Slowdown | None
    fastest: str | None
    candidates: tuple[Candidate, ...]
    chosen: bytes
    stale: int
    newest: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """`conflict`, `near-tie` or `not timed` if ranks disagree; otherwise `unanimous`."""
        return UNANIMOUS if self.cost is None else self.cost.verdict

    @property
    def is_slower(self) -> bool:
        """Whether the elected config is slower over all ranks than the fastest one, by more than the noise."""
        return self.fleet is not None and not self.fleet.is_within_noise

    @property
    def dissenting(self) -> int:
        """Votes against the elected config."""
        return self.entry.votes - (self.entry.choices[0].count if self.entry.choices else 0)

    @property
    def is_stale(self) -> bool:
        """Whether votes are older than the newest recording: from other candidates, or from other versions alone."""
        return bool(self.newest or self.stale)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenKey:
    """A key without votes, and what a job launches for it under the rule for unseen keys.

    Attributes:
        key: The key.
        missed_by: How many ranks of pinned jobs asked for it; 0 if it is an example that nobody asked for.
        config: Canonical text of the config that a pinned job launches; None if no recorded key can be compared.
        nearest: The recorded key that is nearest, with the fields in which it differs; None unless that decides.
    """

    key: str
    missed_by: int
    config: str | None
    nearest: NearKey | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenKeys:
    """What unseen keys get, for one kernel.

    Attributes:
        arch, kernel: The kernel.
        recorded: How many keys were recorded.
        any_key: The config of the `*` entry, which serves every key; None if there is none.
        keys: Missed keys, then examples.
        left_out: Of recorded keys, each treated as if nobody had recorded it: how much slower, in percent, the rule's
            choice is there than the fastest config. Empty without timings of two keys, or with more than 500 keys.
    """

    arch: str
    kernel: str
    recorded: int
    any_key: str | None
    keys: tuple[UnseenKey, ...]
    left_out: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What changed since another table or run.

    Attributes:
        name: The table file or run that was given.
        votes: What it is compared with, in words.
        changes: From the table to what would be exported now.
        entries: Entries of the table that would be exported now.
        environments: `(what, before, now)` for each property of the environments: Triton, packages, devices, ...
    """

    name: str
    votes: str
    changes: Sequence[EntryChange]
    entries: int
    environments: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(Result):
    """Everything that a page shows about a selection of votes.

    Attributes:
        source: Where the data comes from, in words: a database or files.
        filters: The filters, in words; empty if there are none.
        columns: The ranks that voted, sorted by run, host and rank.
        entries: Those with the most dissenting votes first.
        fleet: The ranks compared with each other.
        misses: Entries that pinned jobs did not find in their tables.
        unseen: What unseen keys get, by architecture and kernel.
        environments: `(what, value)`: Triton, packages, devices, ...
        comparison: What changed since another table or run; None if nothing was compared.
    """

    source: str
    filters: str
    columns: Sequence[Column]
    entries: Sequence[ReportEntry]
    fleet: Fleet
    misses: Sequence[MissedEntry]
    unseen: Sequence[UnseenKeys]
    environments: Sequence[tuple[str, str]]
    comparison: Comparison | None

    def with_verdict(self, verdict: str) -> list[ReportEntry]:
        """The entries with this verdict, in order."""
        return [one for one in self.entries if one.verdict == verdict]

    @property
    def is_mixed(self) -> bool:
        """Whether the entries come from several architectures or version groups, so that a key may appear twice."""
        places = {(one.entry.kernel, one.entry.key) for one in self.entries}
        return len(places) < len(self.entries)

    @property
    def disagreements(self) -> list[ReportEntry]:
        """The entries on which ranks disagree, the most costly first."""
        split = [(one.cost, one) for one in self.entries if one.cost is not None]
        return [one for _, one in sorted(split, key=lambda pair: most_costly_first(pair[0]))]

    def to_dict(self) -> dict[str, Any]:
        """The totals, and the disagreements with their costs, as JSON holds them."""
        return {
            "source": self.source,
            "filters": self.filters,
            "ranks": len(self.columns),
            "entries": len(self.entries),
            "disagreements": [one.cost.to_dict() for one in self.disagreements if one.cost is not None],
            "slower_than_fastest": [
                {**one.entry.head(), "percent": rounded(one.fleet.percent)}
                for one in self.entries
                if one.is_slower and one.fleet
            ],
            "outliers": [rank.to_dict() for rank in self.fleet.outliers],
            "misses": [miss.to_dict() for miss in self.misses],
        }

    def __str__(self) -> str:
        """One readable line."""
        return printable(
            f"{count_of(len(self.entries), 'entry')} of {count_of(len(self.columns), 'rank')}: "
            f"{count_of(len(self.disagreements), 'disagreement')}, "
            f"{count_of(len(self.with_verdict(CONFLICT)), 'conflict')} beyond the noise"
        )


def worst_first(entry: ReportEntry) -> tuple[float, int, bytes, bytes, tuple[str, ...]]:
    """The order of entries: by their share of dissenting votes, then by how many configs were chosen."""
    one = entry.entry
    share = entry.dissenting / one.votes if one.votes else 0.0
    return (-share, -one.config_count, bare_name(one.kernel).encode(), one.key.encode(), one.group)


def by_place(columns: Sequence[Column], chosen: bytes) -> Mapping[int, list[int]]:
    """The columns that made each choice, by its place."""
    found: dict[int, list[int]] = {}
    for number, place in enumerate(chosen[: len(columns)]):
        if place:
            found.setdefault(place - 1, []).append(number)
    return found
