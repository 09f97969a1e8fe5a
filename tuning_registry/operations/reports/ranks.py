"""Each rank's votes and timings compared with the fleet's, to find the outliers."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final

from tuning_registry.db import queries
from tuning_registry.db.reading import Row, in_chunks
from tuning_registry.db.schema import NO_RANK
from tuning_registry.db.store import Store
from tuning_registry.errors import printable
from tuning_registry.model.results import Result, rounded
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.tally import check_packages
from tuning_registry.operations.election.timings import MOST_RECORDINGS
from tuning_registry.operations.election.votes_by_shape import (
    Shape,
    VotesByShape,
    by_environment,
    recording_ids,
    shape_of,
)
from tuning_registry.operations.mixed_code import MixedCode, find_mixed_code
from tuning_registry.operations.reports.rank_ratios import Ratios
from tuning_registry.rules.audits import alone
from tuning_registry.rules.outliers import Spread, spread_of
from tuning_registry.wording import count_of

SLOW: Final = "slow"
FAST: Final = "fast"
DISSENTS: Final = "dissents"
OTHER_CODE: Final = "other code"
OTHER_RESULTS: Final = "other results"
LEAST_RATIO: Final = 0.04  # of the median ratio: ranks closer to the fleet are never outliers
LEAST_SHARE: Final = 0.10  # of a rank's votes
_ENTRIES: Final = 50  # whose votes are read at a time


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Rank(Result):
    """One rank of one run compared with the fleet.

    Attributes:
        run: Name of the run.
        rank: Rank in it; None for a recording that belongs to no rank (a Triton cache folder).
        host, device: As recorded; None if unknown.
        votes: Votes that it cast.
        dissenting: Its votes against the winner of the entry's version group.
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
        elected_only: Whether the time ratios are those of elected configs alone, since there are very many recordings.
    """

    ranks: list[Rank]
    time_ratio: Spread | None
    dissent: Spread | None
    elected_only: bool = False

    @property
    def outliers(self) -> list[Rank]:
        """The ranks that are outliers."""
        return [rank for rank in self.ranks if rank.outlier]

    def to_dict(self) -> dict[str, Any]:
        """The fleet as JSON holds it."""
        return {
            "ranks": [rank.to_dict() for rank in self.ranks],
            **({"elected_only": True} if self.elected_only else {}),
        }

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
    ratios: Sequence[float] = ()


def compare_ranks(store: Store, selection: Selection) -> Fleet:
    """Compare every rank's votes with the winners, and its timings with the fleet's medians.

    A rank is an outlier if its time ratio is more than 3 scaled MADs, and at least 5 %, from the median ratio; or if its
    share of dissenting votes is more than 3 scaled MADs, and at least 10 points, above the median share
    (`outliers.spread_of` cites the rule); or if it ran a kernel from other code than most ranks of its run; or if its
    audits differ from those of most ranks of equal inputs. Winners are decided by votes alone, without pins and bans. Timings
    that only one rank has are left out. Votes and timings are read a few entries at a time. Of more than 1,024 recordings,
    only the times of the elected config of each entry are compared.

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
        ratios = Ratios(counts)
        elected_only, counting = len(counts) > MOST_RECORDINGS, votes.environments.keys()
        for entry_ids in votes.spellings.values():
            _add_ratios(votes, entry_ids, counting, winners, ratios, elected_only=elected_only)
        cast, dissenting = _count_votes(votes, winners)
        for recording, number in cast.items():
            counts[recording].votes, counts[recording].dissenting = number, dissenting[recording]
        for recording, its in ratios.by_recording().items():
            counts[recording].ratios = its
        facts = reading.rows(queries.recordings.facts(selection))
        mixed = find_mixed_code(reading, selection)
        _count_results(votes, counts)
    _count_other_code(mixed, facts, counts)
    ranks = [_rank(row, counts[row["id"]]) for row in facts]
    fleet = _judge([rank for rank in ranks if rank.votes or rank.timings or rank.audited])
    shown = [rank for rank in fleet.ranks if rank.rank in asked] if asked else fleet.ranks
    return replace(fleet, ranks=shown, elected_only=elected_only and fleet.time_ratio is not None)


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


def _count_votes(votes: VotesByShape, winners: Mapping[Shape, int]) -> tuple[Counter[int], Counter[int]]:
    """Each recording's votes, and those that are not for the winner of the entry's version group."""
    cast: Counter[int] = Counter()
    dissenting: Counter[int] = Counter()
    elected: dict[tuple[int, int], int | None] = {}
    for part in in_chunks([entry for spellings in votes.spellings.values() for entry in spellings], _ENTRIES):
        for entry, config, text in votes.reading.bulk(queries.votes.who_voted(votes.selection, part)):
            ids = recording_ids(text)
            for environment, voters in by_environment(ids, list(map(votes.environments.get, ids))).items():
                if (entry, environment) not in elected:
                    elected[entry, environment] = winners.get(votes.shape_in(entry, environment))
                winner = elected[entry, environment]
                if winner is not None:  # else a package filter leaves the entry out
                    cast.update(voters)
                    if config != winner:
                        dissenting.update(voters)
    return cast, dissenting


# See docs/decisions.md, D113.
def _add_ratios(
    votes: VotesByShape,
    entry_ids: Sequence[int],
    counting: AbstractSet[int],
    winners: Mapping[Shape, int],
    ratios: Ratios,
    *,
    elected_only: bool,
) -> None:
    """Each recording's time over the median of all, for every config of one key in every version group.

    With `elected_only`, for the elected config alone, if there is one.
    """
    timed: dict[tuple[Shape, int], tuple[list[int], list[float]]] = {}
    for entry in entry_ids:
        groups = {one: votes.shape_in(entry, one) for one in votes.environment_ids}
        elected = {winners[shape] for shape in groups.values() if shape in winners}
        wanted = elected if elected_only and elected else None
        for config, recordings, medians in votes.timed.columns(entry, counting, wanted):
            whose = list(map(votes.environments.get, recordings))
            for environment, places in by_environment(range(len(recordings)), whose).items():
                shape = groups[environment]
                if votes.selection.packages and shape not in winners:
                    continue
                found = timed.setdefault((shape, config), ([], []))
                is_whole = len(places) == len(recordings)
                found[0].extend(recordings if is_whole else [recordings[place] for place in places])
                found[1].extend(medians if is_whole else [medians[place] for place in places])
    for recordings, medians in timed.values():
        middle = statistics.median(medians) if len(medians) > 1 else 0.0
        if middle > 0:
            ratios.add(recordings, [median / middle for median in medians])


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
