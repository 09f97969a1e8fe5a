"""What a run weighs: removing it, and dropping what is needed least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tuning_registry.db import packing, queries
from tuning_registry.db.reading import Reading
from tuning_registry.db.roles import DECIDE
from tuning_registry.db.schema import observations, votes
from tuning_registry.db.schema import timings as timing_rows
from tuning_registry.db.store import Store
from tuning_registry.db.timing_blocks import StoredBlock
from tuning_registry.errors import SelectionError, printable
from tuning_registry.model.names import check_text
from tuning_registry.model.results import Result
from tuning_registry.operations.election.timings import draw
from tuning_registry.operations.tables.export_log import list_exports
from tuning_registry.wording import count_of

KEPT: Final = 64  # recordings of a compacted run that keep all of their timings


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunContents(Result):
    """What the database holds of one run, and what was made from it.

    Attributes:
        run: Name of the run.
        recordings: Number of recordings, including superseded and withdrawn ones.
        votes: Their votes.
        timings: Their timings.
        observations: Their observations.
        compactable: Number of timings whose percentiles `compact_run` would drop.
        exports: The exported tables that its votes went into, newest first, one line each.
    """

    run: str
    recordings: int
    votes: int
    timings: int
    observations: int
    compactable: int
    exports: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The contents as JSON holds them."""
        return {name: getattr(self, name) for name in ("run", "recordings", "votes", "timings", "observations",
                                                       "compactable")} | {"exports": list(self.exports)}  # fmt: skip

    def __str__(self) -> str:
        """One readable line."""
        parts = (
            count_of(getattr(self, name), name[:-1]) for name in ("recordings", "votes", "timings", "observations")
        )
        return printable(f"{self.run}: {', '.join(parts)}; exported to {count_of(len(self.exports), 'table')}")


def describe_run(store: Store, run: str) -> RunContents:
    """What the database holds of a run, and what was made from it.

    Raises:
        SelectionError: There is no such run.
        DatabaseError: The database cannot be read.
    """
    made = tuple(str(one) for one in list_exports(store) if run in one.runs)
    with store.reading() as reading:
        every, kept = _recordings_of(reading, run)
        timings = reading.scalars(queries.recordings.rows_of_run(timing_rows, run))[0]
        dropping = every - kept
        compactable = 0
        for row in reading.bulk(queries.timings.blocks_between(min(every), max(every), "has_percentiles")):
            block = StoredBlock(row[:5])
            timings += len(block.configs) * len(every.intersection(block.recordings))
            compactable += len(block.configs) * len(dropping.intersection(block.recordings)) if row[5] else 0
        return RunContents(
            run=run,
            recordings=len(every),
            votes=reading.scalars(queries.recordings.rows_of_run(votes, run))[0],
            timings=timings,
            observations=reading.scalars(queries.recordings.rows_of_run(observations, run))[0],
            compactable=compactable,
            exports=made,
        )


# See docs/decisions.md, D114.
def compact_run(store: Store, run: str) -> int:
    """Drop the percentiles of a run's packed timings, except those of up to 64 recordings. Medians stay exact.

    Winners, costs and tables need medians only; the noise of the timings then rests on fewer recordings.

    Returns:
        How many timings lost their percentiles.

    Raises:
        SelectionError: There is no such run.
        DatabaseError: The database cannot be written.
    """
    _check_there(store, run)
    with store.writing(DECIDE) as transaction:
        every, kept = _recordings_of(transaction, run)
        return packing.drop_percentiles(transaction, every - kept)


def delete_run(store: Store, run: str) -> int:
    """Delete a run with everything that its recordings hold, and the entries that nothing else refers to.

    The log of exports, pins and bans stay.

    Returns:
        How many recordings were deleted.

    Raises:
        SelectionError: There is no such run.
        DatabaseError: The database cannot be written.
    """
    _check_there(store, run)
    with store.writing(DECIDE) as transaction:
        every, _ = _recordings_of(transaction, run)
        packing.take_out(transaction, every)
        transaction.delete_run(run)
    return len(every)


def _check_there(store: Store, run: str) -> None:
    check_text(run, ("run",))
    if store.revision() is None:
        raise store.absent()


def _recordings_of(reading: Reading, run: str) -> tuple[set[int], set[int]]:
    """Ids of all recordings of a run, and of those that keep everything.

    Raises:
        SelectionError: There is no such run.
    """
    ranks = dict(reading.bulk(queries.recordings.every_recording_of(run)))
    if not ranks:
        raise SelectionError(f"there is no run {run!r}; registry runs lists the recorded runs")
    kept = sorted(ranks, key=lambda one: (draw(run, ranks[one]), one))[:KEPT]
    return set(ranks), set(kept)
