"""The cost of disagreements: how much slower the elected config is than what ranks chose, and than the fastest."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

from tuning_registry.db.store import Store
from tuning_registry.errors import printable
from tuning_registry.model.canonical import load_config
from tuning_registry.model.results import Result, rounded
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.tally import ConfigVotes, EntryVotes, split_entries
from tuning_registry.operations.election.timings import Sample
from tuning_registry.operations.election.votes_by_shape import Timed, VotesByShape
from tuning_registry.rules.evidence import (
    ByConfig,
    Gap,
    Slowdown,
    compare,
    slowdown_of_dissenters,
    slowdown_of_fleet,
    slower_for,
)

CONFLICT: Final = "conflict"
NEAR_TIE: Final = "near-tie"
NOT_TIMED: Final = "not timed"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DisagreementCost(Result):
    """A disagreement with what its timings say.

    Attributes:
        entry: The entry with its choices, the winner first.
        gaps: For every choice but the winner, in the same order; None if no rank timed both.
        dissenters: How much slower the winner is, for the ranks that chose otherwise, than their own choice; None if
            none of them timed both.
        fleet: How much slower the winner is, over all ranks, than the fastest config; None if it was not timed.
        fastest: Canonical text of that config; None likewise.
        failed: How many ranks that chose otherwise saw the winner fail.
        sample: Which part of the timings the figures rest on; None if on all.
        compacted: Whether the noise figures rest on a part of the ranks, since a run was compacted.
    """

    entry: EntryVotes
    gaps: tuple[Gap | None, ...]
    dissenters: Slowdown | None
    fleet: Slowdown | None
    fastest: str | None
    failed: int
    sample: Sample | None = None
    compacted: bool = False

    @property
    def approximations(self) -> list[str]:
        """What the figures rest on, in words, if it is a part of the timings."""
        noise = "noise figures rest on the ranks whose percentiles were kept, since a run was compacted (registry runs compact)"
        return [*([str(self.sample)] if self.sample else []), *([noise] if self.compacted else [])]

    @property
    def verdict(self) -> str:
        """`conflict` if a choice differs by more than the noise or the winner fails somewhere; otherwise `near-tie`."""
        if self.failed or any(gap is not None and not gap.is_within_noise for gap in self.gaps):
            return CONFLICT
        return NEAR_TIE if any(self.gaps) else NOT_TIMED

    def to_dict(self) -> dict[str, Any]:
        """The disagreement as JSON holds it, with the cost of every choice."""
        choices = [
            choice.to_dict() | gap_fields(gap)
            for choice, gap in zip(self.entry.choices, (None, *self.gaps), strict=True)
        ]
        return {**self.entry.head(), **self.cost_fields(), "choices": choices,
                "total_votes": self.entry.votes, "tie": self.entry.is_tie, "bits": str(self.entry.bits), **self.entry.versions()}  # fmt: skip

    def cost_fields(self) -> dict[str, Any]:
        """The verdict and the figures of the whole entry."""
        return {
            "verdict": self.verdict,
            **_slowdown_fields("winner_slower_for_dissenters", self.dissenters),
            **_slowdown_fields("winner_slower_than_fastest", self.fleet),
            "fastest_config": None if self.fastest is None else load_config(self.fastest),
            "winner_failed_on_dissenters": self.failed,
            **(self.sample.to_dict() if self.sample else {}),
            **({"noise_of_compacted_run": True} if self.compacted else {}),
        }

    def __str__(self) -> str:
        """One readable line."""
        entry = self.entry
        cost = f", {self.dissenters.percent:.1f} % slower for the ranks that chose otherwise" if self.dissenters else ""
        return printable(f"{entry.arch} {entry.kernel} {entry.key}: {self.verdict}{cost}")


def gap_fields(gap: Gap | None) -> dict[str, Any]:
    """The figures of one choice, all None for the winner and for choices that no rank timed with it."""
    return {
        "slower_than_winner_percent": rounded(gap.slower_percent) if gap else None,
        "noise_percent": rounded(gap.noise_percent) if gap else None,
        "winner_slower_percent": rounded(gap.winner_slower_percent) if gap else None,
        "timed_by_ranks": gap.ranks if gap else None,
    }


def _slowdown_fields(name: str, slowdown: Slowdown | None) -> dict[str, Any]:
    return {
        f"{name}_percent": rounded(slowdown.percent) if slowdown else None,
        f"{name}_noise_percent": rounded(slowdown.noise_percent) if slowdown else None,
        f"{name}_beyond_noise": None if slowdown is None else not slowdown.is_within_noise,
    }


def find_costs(store: Store, selection: Selection) -> tuple[list[DisagreementCost], int]:
    """Disagreements with their cost, the most costly first; and the number of all entries that have votes.

    Raises:
        SelectionError, DatabaseError: As for `find_disagreements`.
    """
    with store.reading() as reading:
        votes = VotesByShape(reading, selection)
        entries, total = split_entries(votes)
        costed = [cost_of(entry, timed_of(entry, votes, every_config=False)) for entry in entries]
    return sorted(costed, key=most_costly_first), total


def most_costly_first(found: DisagreementCost) -> tuple[bool, float]:
    """The order of disagreements: winners that fail somewhere first, then by what the winner costs dissenters."""
    return (not found.failed, -found.dissenters.percent if found.dissenters else math.inf)


def timed_of(entry: EntryVotes, votes: VotesByShape, *, every_config: bool = True) -> Timed:
    """The timings of an entry, and those of the ranks that did not choose the winner.

    Args:
        entry: The entry with the recordings behind each choice.
        votes: Its votes.
        every_config: Whether the times of configs are needed that nobody chose and that are not the fastest.
    """
    winner, *others = entry.choices or (ConfigVotes(config=""),)
    groups = {choice.config_id: choice.recordings for choice in others if choice.config_id is not None}
    if groups and winner.config_id is not None:
        groups[winner.config_id] = ()
    chosen = {choice.config_id for choice in entry.choices if choice.config_id is not None}
    return votes.timings_with(entry.shape, groups, None if every_config else chosen)


def cost_of(entry: EntryVotes, timed: Timed) -> DisagreementCost:
    """What an entry's disagreement costs.

    Args:
        entry: The entry with the recordings behind each choice, the winner first.
        timed: Its timings (`timed_of`).
    """
    winner, *others = entry.choices
    times, own = timed.times, timed.more
    mine = own.get(winner.config, {})
    chosen = {
        recording: own.get(other.config, {}) for other in others for recording in other.recordings if recording in mine
    }
    fleet = slowdown_of_fleet(winner.config, times, timed.medians)
    return DisagreementCost(
        entry=entry,
        gaps=tuple(_gap(winner.config, other, times, own) for other in others),
        dissenters=slowdown_of_dissenters(mine, chosen),
        fleet=None if fleet is None else fleet[1],
        fastest=None if fleet is None else fleet[0],
        failed=sum(mine[recording] is None for recording in chosen),
        sample=timed.sample,
        compacted=timed.compacted,
    )


def _gap(winner: str, other: ConfigVotes, times: ByConfig, own: ByConfig) -> Gap | None:
    """How a choice compares with the winner: over the ranks of `times`, and over those that chose it in `own`."""
    mine, its = own.get(winner, {}), own.get(other.config, {})
    if own is times:
        return compare(mine, its, other.recordings)
    gap = compare(times.get(winner, {}), times.get(other.config, {}), ())
    if gap is None:
        return compare(mine, its, other.recordings)
    return replace(gap, winner_slower_percent=slower_for(mine, its, other.recordings))
