"""Each rank's votes and timings compared with the fleet's, to find the outliers."""

from __future__ import annotations

import itertools
import statistics
from array import array
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Final

from tuning_registry.db import queries
from tuning_registry.db.reading import Row
from tuning_registry.db.schema import NO_RANK
from tuning_registry.db.store import Store
from tuning_registry.errors import printable
from tuning_registry.model.results import Result, rounded
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.tally import check_packages
from tuning_registry.operations.election.votes_by_shape import Shape, VotesByShape, by_environment, shape_of
from tuning_registry.operations.mixed_code import MixedCode, find_mixed_code
from tuning_registry.rules.audits import alone
from tuning_registry.rules.outliers import Spread, spread_of
from tuning_registry.wording import count_of

SLOW: Final = "slow"
FAST: Final = "fast"
DISSENTS: Final = "dissents"
OTHER_CODE: Final = "other code"
OTHER_RESULTS: Final = "other results"
LEAST_RATIO: Final = 0.05  # of the median ratio: ranks closer to the fleet are never outliers
LEAST_SHARE: Final = 0.10  # of a rank's votes
_first = itemgetter(0)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Rank(Result):
    """One rank of one run compared with the fleet.

    Attributes:
        run: Name of the run.
        rank: Rank in it; None for a recording that belongs to no rank (a Triton cache folder).
        host, device: As recorded; None if unknown.
        votes: Votes that it cast.
        dissenting: Its votes for another config than the winner of the entry's version group.
        timings: Number of (entry, config) pairs behind `time_ratio`.
        time_ratio: The median of its times over the fleet's median of the same (entry, config). 1.2 means 20 %
            slower than the fleet. None if it shares no timing with another rank.
        other_code: Number of kernels that it recorded from other code than most ranks of its run.
        audited: Number of audited results that it shares with ranks of equal inputs.
        other_results: Number of those in which most of these ranks agree on other bits: a suspect GPU.
        outlier: Why it is an outlier: `slow`, `fast`, `dissents`, `other code`, `other results`.
        reasons: The same in words, with the figures.
    """

    run: str
    rank: int | None
    host: str | None
    device: str | None
    votes: int
    dissenting: int
    timings: int
    time_ratio: float | None
    other_code: int = 0
    audited: int = 0
    other_results: int = 0
    outlier: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def dissent(self) -> float | None:
        """The share of its votes that dissent; None without votes."""
        return self.dissenting / self.votes if self.votes else None

    @property
    def slowdown_percent(self) -> float | None:
        """By how many percent it is slower than the fleet's median (negative: faster); None without timings."""
        return None if self.time_ratio is None else 100 * (self.time_ratio - 1)

    def to_dict(self) -> dict[str, Any]:
        """The rank as JSON holds it."""
        return {
            "run": self.run,
            "rank": self.rank,
            "host": self.host,
            "device": self.device,
            "votes": self.votes,
            "dissenting_votes": self.dissenting,
            "timings": self.timings,
            "slowdown_percent": rounded(self.slowdown_percent),
            "other_code": self.other_code,
            "audited_results": self.audited,
            "other_results": self.other_results,
            "outlier": list(self.outlier),
            "reasons": list(self.reasons),
        }

    def __str__(self) -> str:
        """One readable line."""
        name = f"rank {self.rank} of {self.run}" if self.rank is not None else f"{self.run} (no rank)"
        return printable(f"{name}: {'; '.join(self.reasons) or 'not an outlier'}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Fleet(Result):
    """All ranks of a selection.

    Attributes:
        ranks: Outliers first, then the slowest first.
        time_ratio: Spread of their time ratios; None if fewer than four ranks have one, so that none is slow or fast.
        dissent: Spread of their shares of dissenting votes; None likewise.
    """

    ranks: list[Rank]
    time_ratio: Spread | None
    dissent: Spread | None

    @property
    def outliers(self) -> list[Rank]:
        """The ranks that are outliers."""
        return [rank for rank in self.ranks if rank.outlier]

    def to_dict(self) -> dict[str, Any]:
        """The fleet as JSON holds it."""
        return {"ranks": [rank.to_dict() for rank in self.ranks]}

    def __str__(self) -> str:
        """One readable line."""
        return f"{count_of(len(self.ranks), 'rank')}, {count_of(len(self.outliers), 'outlier')}"


@dataclass(slots=True)
class _Count:
    """The counts of one recording."""

    votes: int = 0
    dissenting: int = 0
    other_code: int = 0
    audited: int = 0
    other_results: int = 0
    ratios: array[float] = field(default_factory=lambda: array("d"))


def compare_ranks(store: Store, selection: Selection) -> Fleet:
    """Compare every rank's votes with the winners, and its timings with the fleet's medians.

    A rank is an outlier if its time ratio is more than 3 scaled MADs, and at least 5 %, from the median ratio; or if its
    share of dissenting votes is more than 3 scaled MADs, and at least 10 points, above the median share
    (`outliers.spread_of` cites the rule); or if it ran a kernel from other code than most ranks of its run; or if its
    audits differ from those of most ranks of equal inputs. Winners are decided by votes alone, without pins and bans. Timings
    that only one rank has are left out. Votes and timings are read one entry at a time.

    The `ranks` of the selection choose which ranks are returned. They are still compared with all others.

    Raises:
        SelectionError: A package filter names a distribution that owns no recorded kernel.
        DatabaseError: The database cannot be read.
    """
    asked, selection = selection.ranks, replace(selection, ranks=())
    with store.reading() as reading:
        votes = VotesByShape(reading, selection)
        check_packages(votes)
        winners = {shape_of(row): row["config_id"] for row in votes.winners()}
        counts = {recording: _Count() for recording in votes.environments}
        wanted = winners.keys() if selection.packages else None
        for entry_ids in votes.spellings.values():
            _count_votes(votes, entry_ids, winners, counts)
            _add_ratios(votes, entry_ids, wanted, counts)
        facts = reading.rows(queries.recordings.facts(selection))
        mixed = find_mixed_code(reading, selection)
        _count_results(votes, counts)
    _count_other_code(mixed, facts, counts)
    ranks = [_rank(row, counts[row["id"]]) for row in facts]
    fleet = _judge([rank for rank in ranks if rank.votes or rank.timings or rank.audited])
    return replace(fleet, ranks=[rank for rank in fleet.ranks if rank.rank in asked]) if asked else fleet


def _count_results(votes: VotesByShape, counts: Mapping[int, _Count]) -> None:
    """For each recording, the audited results that others of equal inputs have too, and those that most of them do not."""
    for audits in votes.audits.values():
        for recording, (shared, differing) in alone(audits).items():
            counts[recording].audited += shared
            counts[recording].other_results += differing


def _count_other_code(mixed: Iterable[MixedCode], facts: Iterable[Row], counts: Mapping[int, _Count]) -> None:
    """For each recording, the kernels whose code most ranks of its run do not have."""
    by_place = {(row["run"], row["rank"]): counts[row["id"]] for row in facts}
    for kernel in mixed:
        for rank in kernel.minority:
            by_place[kernel.run, rank].other_code += 1


def _count_votes(
    votes: VotesByShape, entry_ids: Sequence[int], winners: Mapping[Shape, int], counts: Mapping[int, _Count]
) -> None:
    """Each recording's votes on one key, and whether they are for the winner of its version group."""
    for entry in entry_ids:
        elected: dict[int, int | None] = {}
        for config, recording in votes.reading.bulk(queries.votes.cast_on(entry)):
            environment = votes.environments.get(recording)
            if environment is None:
                continue  # superseded, withdrawn, or filtered out
            if environment not in elected:
                elected[environment] = winners.get(votes.shape_in(entry, environment))
            winner = elected[environment]
            if winner is not None:  # else a package filter leaves the entry out
                count = counts[recording]
                count.votes += 1
                count.dissenting += config != winner


def _add_ratios(
    votes: VotesByShape, entry_ids: Sequence[int], wanted: Container[Shape] | None, counts: Mapping[int, _Count]
) -> None:
    """Each recording's time over the median of all, for every config of one key in every version group."""
    timed: dict[tuple[Shape, int], list[tuple[int, float]]] = {}
    for entry in entry_ids:
        groups: dict[int, Shape] = {}
        for config, rows in itertools.groupby(votes.reading.bulk(queries.timings.medians_on(entry)), _first):
            medians = [(recording, median) for _, recording, median in rows]
            whose = [votes.environments.get(recording) for recording, _ in medians]
            for environment, times in by_environment(medians, whose).items():
                if environment not in groups:
                    groups[environment] = votes.shape_in(entry, environment)
                shape = groups[environment]
                if wanted is None or shape in wanted:
                    timed.setdefault((shape, config), []).extend(times)
    for times in timed.values():
        middle = statistics.median([median for _, median in times]) if len(times) > 1 else 0.0
        if middle > 0:
            for recording, median in times:
                counts[recording].ratios.append(median / middle)


def _rank(row: Row, count: _Count) -> Rank:
    return Rank(
        run=row["run"],
        rank=row["rank"] if row["rank"] != NO_RANK else None,
        host=row["host"] or None,
        device=row["device_name"] or None,
        votes=count.votes,
        dissenting=count.dissenting,
        timings=len(count.ratios),
        time_ratio=statistics.median(count.ratios) if count.ratios else None,
        other_code=count.other_code,
        audited=count.audited,
        other_results=count.other_results,
    )


def _judge(ranks: Sequence[Rank]) -> Fleet:
    time_ratio = spread_of([rank.time_ratio for rank in ranks if rank.time_ratio is not None])
    dissent = spread_of([rank.dissent for rank in ranks if rank.dissent is not None])
    judged = [_judged(rank, time_ratio, dissent) for rank in ranks]
    return Fleet(ranks=sorted(judged, key=_outliers_first), time_ratio=time_ratio, dissent=dissent)


def _outliers_first(rank: Rank) -> tuple[bool, float, str, int]:
    return (not rank.outlier, -(rank.time_ratio or 0.0), rank.run, -1 if rank.rank is None else rank.rank)


def _judged(rank: Rank, time_ratio: Spread | None, dissent: Spread | None) -> Rank:
    """The rank with the reasons for which it is an outlier."""
    found = {**_time_reason(rank.time_ratio, time_ratio), **_dissent_reason(rank.dissent, dissent)}
    if rank.other_results:
        found[OTHER_RESULTS] = (
            f"{rank.other_results:,} of {count_of(rank.audited, 'audited result')} differ from those of most ranks"
        )
    if rank.other_code:
        found[OTHER_CODE] = f"other code than most ranks of the run for {count_of(rank.other_code, 'kernel')}"
    return replace(rank, outlier=tuple(found), reasons=tuple(found.values())) if found else rank


def _time_reason(ratio: float | None, spread: Spread | None) -> dict[str, str]:
    if spread is None or ratio is None:
        return {}
    least = LEAST_RATIO * spread.median
    if not spread.is_outside(ratio, least):
        return {}
    percent = 100 * (ratio / spread.median - 1)
    how = "slower" if percent > 0 else "faster"
    limit = 100 * spread.limit(least) / spread.median
    reason = f"{abs(percent):.1f} % {how} than the median of {spread.count:,} ranks (limit {limit:.1f} %)"
    return {SLOW if percent > 0 else FAST: reason}


def _dissent_reason(share: float | None, spread: Spread | None) -> dict[str, str]:
    if spread is None or share is None or share <= spread.median or not spread.is_outside(share, LEAST_SHARE):
        return {}
    limit = 100 * (spread.median + spread.limit(LEAST_SHARE))
    return {
        DISSENTS: f"{100 * share:.0f} % of its votes dissent; the median is {100 * spread.median:.0f} % (limit {limit:.0f} %)"
    }
