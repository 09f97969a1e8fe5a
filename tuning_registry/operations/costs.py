"""What disagreements cost: how far apart the configs are, and what the winner costs those who chose another."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Final

from tuning_registry.db.store import Store
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.measurements import Measurements
from tuning_registry.operations.election.shapes import Shapes
from tuning_registry.operations.election.tally import Entry, split_entries
from tuning_registry.rules.evidence import Gap, compare, slowdowns

CONFLICT: Final = "conflict"
NEAR_TIE: Final = "near-tie"
NOT_TIMED: Final = "not timed"


@dataclass(frozen=True, slots=True)
class CostedEntry:
    """A split entry with what its timings say.

    Attributes:
        entry: The entry with its choices, the winner first.
        gaps: Of every choice but the winner, in the same order; None where no rank timed both.
        cost_percent: 100 times the mean slowdown that the winner means for the ranks that chose otherwise; None
            when none of them timed both.
        failed: How many ranks that chose otherwise saw the winner fail.
    """

    entry: Entry
    gaps: tuple[Gap | None, ...]
    cost_percent: float | None
    failed: int

    @property
    def verdict(self) -> str:
        """`conflict` when some choice lies outside the noise or the winner fails somewhere, else `near-tie`."""
        if self.failed or any(gap is not None and not gap.is_within_noise for gap in self.gaps):
            return CONFLICT
        return NEAR_TIE if any(self.gaps) else NOT_TIMED


def find_costs(store: Store, selection: Selection) -> tuple[list[CostedEntry], int]:
    """Disagreements with their cost, the most costly first; and the number of all entries that have votes.

    Raises:
        SelectionError, DatabaseError: As for `find_disagreements`.
    """
    with store.reading() as reading:
        entries, total = split_entries(reading, selection)
        measurements = Measurements(reading, selection, Shapes(reading, selection, {entry.shape for entry in entries}))
        costed = [_cost(entry, measurements) for entry in entries]
    return sorted(costed, key=_most_costly_first), total


def _most_costly_first(costed: CostedEntry) -> tuple[bool, float]:
    cost = costed.cost_percent
    return (not costed.failed, float("inf") if cost is None else -cost)


def _cost(entry: Entry, measurements: Measurements) -> CostedEntry:
    measured = measurements.of(
        entry.shape, [choice.config_id for choice in entry.choices if choice.config_id is not None]
    )
    times, *timed = (measured.get(choice.config_id or 0, {}) for choice in entry.choices)
    others = entry.choices[1:]
    chosen = {
        recording: by_rank for other, by_rank in zip(others, timed, strict=True) for recording in other.recordings
    }
    lost = slowdowns(times, chosen)
    return CostedEntry(
        entry,
        tuple(compare(times, by_rank, other.recordings) for other, by_rank in zip(others, timed, strict=True)),
        100 * statistics.mean(lost) if lost else None,
        sum(recording in times and times[recording] is None for recording in chosen),
    )
