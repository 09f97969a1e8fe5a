"""Medians in columns, against the plain definitions over a time per rank."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import config, version_2, write_recording
from tests.helpers import take
from tuning_registry.db import queries, schema
from tuning_registry.db.store import Store
from tuning_registry.db.timing_blocks import StoredBlock, TimingBlock
from tuning_registry.model.packed_times import places_of
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.medians import join_medians, medians_of_block, medians_of_rows
from tuning_registry.operations.election.votes_by_shape import VotesByShape
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.rules.evidence import (
    Policy,
    median_of_medians,
    median_over_ranks,
    worst_slowdowns,
    worst_slowdowns_in,
)

A, B = config(B=1), config(B=2)

time = st.none() | st.sampled_from([0.5, 1.0, 1.5, 2.0, 0.1 + 0.2])
# Groups of ranks, in a block or in rows: which configs they timed, and their times.
groups = st.lists(
    st.tuples(st.booleans(), st.sets(st.integers(0, 3), min_size=1)).flatmap(
        lambda made: st.tuples(
            st.just(made[0]),
            st.just(sorted(made[1])),
            st.lists(st.lists(time, min_size=len(made[1]), max_size=len(made[1])), min_size=1, max_size=5),
        )
    ),
    min_size=1,
    max_size=4,
)


@given(groups, st.data())
def test_columns_say_what_a_time_per_rank_says(found: list[Any], data: Any) -> None:
    plain: dict[int, dict[int, float | None]] = {}
    ids = itertools.count(7)
    parts = []
    for is_block, configs, rows in found:
        recordings = list(itertools.islice(ids, len(rows)))
        read: Sequence[int] = range(len(rows))
        if is_block:
            columns = [array("d", [math.nan if one is None else one for one in by]) for by in zip(*rows, strict=True)]
            row = TimingBlock(tuple(configs), recordings, columns).row(1)
            names = ("entry_id", "first_recording", "recording_count", "recordings", "configs", "medians")
            read = sorted(data.draw(st.sets(st.sampled_from(read), min_size=1)))
            places = None if len(read) == len(rows) else places_of(read)
            block = StoredBlock([row[name] for name in names])
            parts.append(medians_of_block(block, [recordings[place] for place in read], places))
        else:
            timed = [
                (one, rank, median)
                for rank, by in zip(recordings, rows, strict=True)
                for one, median in zip(configs, by, strict=True)
            ]
            parts.append(medians_of_rows(data.draw(st.permutations(timed))))
        for place in read:
            for one, median in zip(configs, rows[place], strict=True):
                plain.setdefault(one, {})[recordings[place]] = median
    times = {str(one): {rank: None if m is None else (m, m, m) for rank, m in by.items()} for one, by in plain.items()}
    joined = join_medians(parts)
    assert joined.is_by_recording
    assert worst_slowdowns_in({str(one): column for one, column in joined.columns.items()}) == worst_slowdowns(times)
    for one, column in joined.columns.items():
        assert median_over_ranks(column, joined.timed[one]) == median_of_medians(times[str(one)])


def test_a_rank_that_timed_two_spellings_of_a_key_counts_once_at_worst(store: Store, tmp_path: Path) -> None:
    """Ingest refuses such a recording today, but a database may hold it."""
    for rank, key in enumerate(("M=1", "M=1.0")):
        timed = {"sm90": {"p.k": {key: [[A, [1.0, 0.9, 1.1]], [B, [0.5, 0.4, 0.6]]]}}}
        document = version_2({"sm90": {"p.k": {key: A}}}, rank, rank=rank, run="r", triton="3.6.0", timings=timed)
        take(store, write_recording(tmp_path / f"{rank}.json", document), run=None)
    with store.writing() as transaction:
        (first, second) = transaction.rows(sa.select(schema.entries.c.id).order_by(schema.entries.c.key))
        rows = transaction.rows(queries.timings.of_entries([first["id"]]))
        again = [{**row, "entry_id": second["id"], "median_ms": 5 * row["median_ms"] ** 2} for row in rows]
        transaction.insert_many(schema.timings, again)
    (winner,) = find_winners(store, Selection(), Policy.MINIMAX)
    with store.reading() as reading:
        votes = VotesByShape(reading, Selection())
        times = votes.timings_by_config(winner.shape)
        assert votes.median_columns(winner.shape) is None
    assert {len(by_rank) for by_rank in times.values()} == {2}
    assert worst_slowdowns(times)[winner.config] == min(worst_slowdowns(times).values())
