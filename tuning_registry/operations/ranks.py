"""Sick ranks: how each rank's votes and timings compare with those of the fleet, and which stand out."""

from __future__ import annotations

import itertools
import statistics
from array import array
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Final

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading, Row
from tuning_registry.db.schema import NO_RANK
from tuning_registry.db.store import Store
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.shapes import Shape, Shapes, shape_of
from tuning_registry.operations.election.tally import check_packages
from tuning_registry.rules.outliers import Spread, spread_of

SLOW: Final = "slow"
FAST: Final = "fast"
DISSENTS: Final = "dissents"
LEAST_FACTOR: Final = 0.05  # of the median factor: ranks closer than that to the fleet are never outliers
LEAST_SHARE: Final = 0.10  # of a rank's votes
_first = itemgetter(0)


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of one run beside the fleet.

    Attributes:
        run: Name of the run.
        rank: Rank in it; None for a recording that is of no rank (a Triton cache folder).
        host, device: As recorded; None when unknown.
        votes: Votes that it cast.
        dissenting: Those for another config than most votes of the entry's version group elect.
        timings: How many (entry, config) its factor is made of.
        factor: The median of its times over the fleet's median of the same (entry, config); None without timings
            that another rank shares. 1.2: it is 20 % slower than the fleet.
        outlier: What sets it apart: `slow`, `fast`, `dissents`.
        reasons: The same in words, with the figures.
    """

    run: str
    rank: int | None
    host: str | None
    device: str | None
    votes: int
    dissenting: int
    timings: int
    factor: float | None
    outlier: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def dissent(self) -> float | None:
        """The share of its votes that dissent; None without votes."""
        return self.dissenting / self.votes if self.votes else None


@dataclass(frozen=True, slots=True)
class Fleet:
    """All ranks of a selection.

    Attributes:
        ranks: Outliers first, then the slowest first.
        factor: Spread of their factors; None when fewer than four have one: then none is slow or fast.
        dissent: Spread of their shares of dissenting votes, likewise.
    """

    ranks: list[Rank]
    factor: Spread | None
    dissent: Spread | None

    @property
    def outliers(self) -> list[Rank]:
        """The ranks that stand out."""
        return [rank for rank in self.ranks if rank.outlier]


@dataclass(slots=True)
class _Count:
    """What one recording adds up to."""

    votes: int = 0
    dissenting: int = 0
    ratios: array[float] = field(default_factory=lambda: array("d"))


def compare_ranks(store: Store, selection: Selection) -> Fleet:
    """Every rank's votes against the winners and its timings against the fleet's medians.

    A rank is an outlier when its factor lies more than 3 scaled MADs, and at least 5 %, from the median factor, or
    its share of dissenting votes more than 3 scaled MADs, and at least 10 points, above the median share
    (`outliers.spread_of` says where the rule comes from). Winners are what the votes elect, whatever is pinned or
    banned. Timings that only one rank has compare with nothing and are left out. Votes and timings are read one entry at a time.

    Raises:
        SelectionError: A package filter names a distribution that owns no recorded kernel.
        DatabaseError: The database cannot be read.
    """
    with store.reading() as reading:
        check_packages(reading, selection)
        shapes = Shapes(reading, selection)
        environments = dict(reading.once(queries.recordings.counting_recordings(selection)))
        elected = reading.rows(queries.votes.winners(selection, reading.environments_that_count(selection)))
        winners = {shape_of(row): row["config_id"] for row in elected}
        counts = {recording: _Count() for recording in environments}
        wanted = winners.keys() if selection.packages else None
        ratios = {recording: count.ratios for recording, count in counts.items()}
        for entry_ids in shapes.spellings.values():
            _count_votes(reading, entry_ids, shapes, environments, winners, counts)
            _add_ratios(reading, entry_ids, shapes, environments, wanted, ratios)
        facts = reading.rows(queries.recordings.facts(selection))
    ranks = [_rank(row, counts[row["id"]]) for row in facts]
    return _judge([rank for rank in ranks if rank.votes or rank.timings])


def _count_votes(
    reading: Reading,
    entry_ids: Sequence[int],
    shapes: Shapes,
    environments: Mapping[int, int],
    winners: Mapping[Shape, int],
    counts: Mapping[int, _Count],
) -> None:
    """Each recording's votes on one key, and whether they are for the winner of its version group."""
    for entry in entry_ids:
        elected: dict[int, int | None] = {}
        for config, recording in reading.bulk(queries.votes.cast_on(entry)):
            environment = environments.get(recording)
            if environment is None:
                continue  # superseded, withdrawn, or filtered out
            if environment not in elected:
                elected[environment] = winners.get(shapes.of(entry, environment))
            winner = elected[environment]
            if winner is not None:  # else a package filter leaves the entry out
                count = counts[recording]
                count.votes += 1
                count.dissenting += config != winner


def _add_ratios(
    reading: Reading,
    entry_ids: Sequence[int],
    shapes: Shapes,
    environments: Mapping[int, int],
    wanted: Container[Shape] | None,
    ratios: Mapping[int, array[float]],
) -> None:
    """Each recording's time over the median of all, for every config of one key in every version group."""
    timed: dict[tuple[Shape, int], list[tuple[int, float]]] = {}
    for entry in entry_ids:
        groups: dict[int, Shape] = {}
        for config, rows in itertools.groupby(reading.bulk(queries.timings.medians_on(entry)), _first):
            for environment, times in _by_environment(rows, environments):
                if environment not in groups:
                    groups[environment] = shapes.of(entry, environment)
                shape = groups[environment]
                if wanted is None or shape in wanted:
                    timed.setdefault((shape, config), []).extend(times)
    for times in timed.values():
        middle = statistics.median([median for _, median in times]) if len(times) > 1 else 0.0
        if middle > 0:
            for recording, median in times:
                ratios[recording].append(median / middle)


def _by_environment(
    rows: Iterable[tuple[int, int, float]], environments: Mapping[int, int]
) -> Iterable[tuple[int, list[tuple[int, float]]]]:
    """`(recording, median)` of the recordings that count. Mostly they are all of one environment."""
    times = [(recording, median) for _, recording, median in rows if recording in environments]
    found = {environments[recording] for recording, _ in times}
    if len(found) == 1:
        return [(found.pop(), times)]
    return [(one, [pair for pair in times if environments[pair[0]] == one]) for one in sorted(found)]


def _rank(row: Row, count: _Count) -> Rank:
    ratios = count.ratios
    return Rank(
        row["run"],
        row["rank"] if row["rank"] != NO_RANK else None,
        row["host"] or None,
        row["device_name"] or None,
        count.votes,
        count.dissenting,
        len(ratios),
        statistics.median(ratios) if ratios else None,
    )


def _judge(ranks: Sequence[Rank]) -> Fleet:
    factor = spread_of([rank.factor for rank in ranks if rank.factor is not None])
    dissent = spread_of([rank.dissent for rank in ranks if rank.dissent is not None])
    judged = [_named(rank, factor, dissent) for rank in ranks]
    return Fleet(sorted(judged, key=_outliers_first), factor, dissent)


def _outliers_first(rank: Rank) -> tuple[bool, float, str, int]:
    return (not rank.outlier, -(rank.factor or 0.0), rank.run, -1 if rank.rank is None else rank.rank)


def _named(rank: Rank, factor: Spread | None, dissent: Spread | None) -> Rank:
    found: dict[str, str] = {}
    if factor is not None and rank.factor is not None:
        least = LEAST_FACTOR * factor.median
        if factor.is_outside(rank.factor, least):
            percent = 100 * (rank.factor / factor.median - 1)
            found[SLOW if percent > 0 else FAST] = (
                f"{abs(percent):.1f} % {'slower' if percent > 0 else 'faster'} than the median of {factor.count:,} ranks "
                f"(limit {100 * factor.limit(least) / factor.median:.1f} %)"
            )
    share = rank.dissent
    if dissent is not None and share is not None and share > dissent.median and dissent.is_outside(share, LEAST_SHARE):
        limit = dissent.median + dissent.limit(LEAST_SHARE)
        found[DISSENTS] = (
            f"{100 * share:.0f} % of its votes dissent, median {100 * dissent.median:.0f} % (limit {100 * limit:.0f} %)"
        )
    return replace(rank, outlier=tuple(found), reasons=tuple(found.values())) if found else rank
