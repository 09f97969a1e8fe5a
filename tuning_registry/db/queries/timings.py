"""Questions about timings."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import sqlalchemy as sa

from tuning_registry.db.schema import candidate_sets, packed_candidate_sets, packed_timings, timings

_HAS_PERCENTILES: Final = sa.func.length(packed_timings.c.percentiles) > 0


def of_entries(entry_ids: Collection[int]) -> sa.Select[Any]:
    """How fast was each config of these entries, for each recording?

    Columns: entry, config and recording id, median, 20th and 80th percentile in ms, null if the candidate failed.
    """
    return sa.select(timings).where(timings.c.entry_id.in_(list(entry_ids)))


def blocks_on(entry_ids: Collection[int], *columns: str) -> sa.Select[Any]:
    """Which blocks hold timings of these entries? Columns of `db.timing_blocks.StoredBlock`.

    Args:
        entry_ids: The entries.
        columns: `medians`, or also `percentiles`; or `has_percentiles`.
    """
    return _block_columns(*columns).where(packed_timings.c.entry_id.in_(list(entry_ids)))


def blocks_of(recording_id: int, entry_ids: Collection[int], *columns: str) -> sa.Select[Any]:
    """Which of the blocks on these entries may hold timings of a recording? Columns as in `blocks_on`."""
    block = packed_timings.c
    return blocks_on(entry_ids, *columns).where(
        block.first_recording <= recording_id, block.last_recording >= recording_id
    )


def blocks_between(first: int, last: int, *columns: str) -> sa.Select[Any]:
    """Which blocks may hold timings of recordings with ids in this range? Columns as in `blocks_on`."""
    block = packed_timings.c
    return _block_columns(*columns).where(block.first_recording <= last, block.last_recording >= first)


def _block_columns(*columns: str) -> sa.Select[Any]:
    names = ("entry_id", "first_recording", "recording_count", "recordings", "configs", *columns)
    return sa.select(*(_HAS_PERCENTILES if name == "has_percentiles" else packed_timings.c[name] for name in names))


def small_blocks(entry_ids: Collection[int], below: int) -> sa.Select[Any]:
    """Which blocks on these entries have fewer recordings than this?

    Columns: first_recording, recording_count, configs, and whether the block has percentiles.
    """
    block = packed_timings.c
    return (
        sa.select(block.first_recording, block.recording_count, block.configs, _HAS_PERCENTILES)
        .where(block.entry_id.in_(list(entry_ids)), block.recording_count < below)
        .order_by(block.entry_id, block.first_recording)
    )


def block(entry_id: int, first_recording: int) -> sa.Select[Any]:
    """One block. Columns as in `blocks_on`."""
    return blocks_on([entry_id], "medians", "percentiles").where(packed_timings.c.first_recording == first_recording)


def rows_on(entry_id: int) -> sa.Select[Any]:
    """Which rows of timings does an entry have outside of blocks? In order of config and recording."""
    return of_entries([entry_id]).order_by(timings.c.config_id, timings.c.recording_id)


def set_rows_on(entry_id: int) -> sa.Select[Any]:
    """Which rows of candidate sets does an entry have outside of blocks? In order. Columns: fingerprint, recording_id."""
    table = candidate_sets.c
    return (
        sa.select(table.fingerprint, table.recording_id)
        .where(table.entry_id == entry_id)
        .order_by(table.fingerprint, table.recording_id)
    )


def row_numbers(table: sa.Table, least: int) -> sa.Select[Any]:
    """Which entries have rows of at least so many recordings in a table? Columns: entry_id, number of rows."""
    recordings = sa.func.count(sa.distinct(table.c.recording_id))
    return sa.select(table.c.entry_id, sa.func.count()).group_by(table.c.entry_id).having(recordings >= least)


def set_blocks_on(entry_ids: Collection[int] | None) -> sa.Select[Any]:
    """Which candidate sets of these (by default all) entries are in blocks?

    Columns: entry_id, fingerprint, first_recording, recording_count, recordings.
    """
    block = packed_candidate_sets.c
    query = sa.select(block.entry_id, block.fingerprint, block.first_recording, block.recording_count, block.recordings)
    return query if entry_ids is None else query.where(block.entry_id.in_(list(entry_ids)))


def set_blocks_of(recording_id: int, entry_ids: Collection[int]) -> sa.Select[Any]:
    """Which blocks may hold a candidate set that a recording chose from on these entries? Columns as in `set_blocks_on`."""
    block = packed_candidate_sets.c
    return set_blocks_on(entry_ids).where(block.first_recording <= recording_id, block.last_recording >= recording_id)


def set_blocks_between(first: int, last: int) -> sa.Select[Any]:
    """Which blocks may hold a candidate set of recordings with ids in this range? Columns as in `set_blocks_on`."""
    block = packed_candidate_sets.c
    return set_blocks_on(None).where(block.first_recording <= last, block.last_recording >= first)


def configs_in_blocks(entry_ids: sa.Select[Any]) -> sa.Select[Any]:
    """Which configs do the blocks on these entries hold, packed?"""
    return sa.select(packed_timings.c.configs).where(packed_timings.c.entry_id.in_(entry_ids)).distinct()


def packed_number() -> sa.Select[Any]:
    """How many timings are in blocks, whether they count or not? Null if there are no blocks."""
    return sa.select(sa.cast(sa.func.sum(packed_timings.c.timing_count), sa.BigInteger))


def who_timed(entry_ids: Collection[int]) -> sa.Select[Any]:
    """Which recording timed which config of these entries, in rows? Columns: entry, config and recording id."""
    columns = (timings.c.entry_id, timings.c.config_id, timings.c.recording_id)
    return sa.select(*columns).where(timings.c.entry_id.in_(list(entry_ids)))


def every_median_on(entry_id: int) -> sa.Select[Any]:
    """What median in ms did each recording measure for each config of this entry? Null if the config failed."""
    columns = (timings.c.config_id, timings.c.recording_id, timings.c.median_ms)
    return sa.select(*columns).where(timings.c.entry_id == entry_id)


def medians_on(entry_id: int, config_ids: Collection[int] | None = None) -> sa.Select[Any]:
    """What median in ms did each recording measure for each (or these) configs of this entry that worked?"""
    query = every_median_on(entry_id).where(timings.c.median_ms.is_not(None))
    return query if config_ids is None else query.where(timings.c.config_id.in_(list(config_ids)))
