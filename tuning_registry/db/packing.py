"""Packing rows of timings and candidate sets into blocks, and taking recordings out of blocks.

Recordings arrive one at a time or by the thousand. Timings of few recordings are rows. Where `LEAST` recordings of an
entry have timed the same candidates, they become a block, and blocks of similar size become a larger one, so that a timing is
rewritten a few times at most. All of this is exact, and happens under the write lock.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from tuning_registry.db import queries, schema
from tuning_registry.db.reading import Reading, in_chunks
from tuning_registry.db.timing_blocks import StoredBlock, TimingBlock, join_blocks
from tuning_registry.db.writing import Writing
from tuning_registry.model.packed_times import pack_ids, unpack_ids

LEAST: Final = 64  # recordings of a new block
MOST: Final = 1024  # blocks with as many or more are not joined with others
_JOINED: Final = 4  # blocks of similar size that become one


def is_due(recording_ids: Collection[int]) -> bool:
    """Whether an ingest of these recordings also packs: about once for every `LEAST` recordings."""
    return bool(recording_ids) and min(recording_ids) // LEAST != (max(recording_ids) + 1) // LEAST


def even_parts(recording_ids: Sequence[int]) -> Iterator[slice]:
    """Parts of recordings for blocks: as few as possible, of equal size."""
    number = math.ceil(len(recording_ids) / MOST)
    bounds = [len(recording_ids) * part // number for part in range(number + 1)]
    return itertools.starmap(slice, itertools.pairwise(bounds))


def insert_timing_blocks(transaction: Writing, entry_id: int, blocks: Iterable[TimingBlock]) -> None:
    """Insert blocks of an entry."""
    transaction.insert_many(schema.packed_timings, [dict(block.row(entry_id)) for block in blocks])


def insert_set_blocks(transaction: Writing, entry_id: int, fingerprint: str, recording_ids: Sequence[int]) -> None:
    """Insert one block: these recordings, ascending, chose the entry's config from this set of candidates."""
    transaction.insert_many(
        schema.packed_candidate_sets,
        [
            {
                "entry_id": entry_id,
                "fingerprint": fingerprint,
                "first_recording": recording_ids[0],
                "last_recording": recording_ids[-1],
                "recording_count": len(recording_ids),
                "recordings": pack_ids(recording_ids),
            }
        ],
    )


def entries_to_pack(reading: Reading) -> list[tuple[int, int]]:
    """Entries that may have rows to pack, and how many rows."""
    found: dict[int, int] = {}
    for table in (schema.timings, schema.candidate_sets):
        for entry, number in reading.bulk(queries.timings.row_numbers(table, LEAST)):
            found[entry] = found.get(entry, 0) + number
    return sorted(found.items())


def pack_entries(transaction: Writing, entry_ids: Iterable[int]) -> None:
    """Pack the rows of these entries as far as there are enough recordings, one entry in memory at a time."""
    for entry in entry_ids:
        _pack_timings(transaction, entry)
        _pack_sets(transaction, entry)
        _join_timings(transaction, entry)
        _join_sets(transaction, entry)


def _pack_timings(transaction: Writing, entry: int) -> None:
    by_recording: dict[int, list[tuple[Any, ...]]] = {}
    for row in transaction.bulk(queries.timings.rows_on(entry)):
        by_recording.setdefault(row[2], []).append(row)
    by_configs: dict[tuple[int, ...], list[int]] = {}
    for recording in sorted(by_recording):
        by_configs.setdefault(tuple(row[1] for row in by_recording[recording]), []).append(recording)
    packed = {configs: recordings for configs, recordings in by_configs.items() if len(recordings) >= LEAST}
    for configs, recordings in packed.items():
        blocks = (_block_of(configs, recordings[part], by_recording) for part in even_parts(recordings))
        insert_timing_blocks(transaction, entry, blocks)
    _delete_rows(transaction, schema.timings, entry, packed.values(), keeps=len(packed) < len(by_configs))


def _block_of(
    configs: tuple[int, ...], recordings: Sequence[int], rows: dict[int, list[tuple[Any, ...]]]
) -> TimingBlock:
    columns = [
        array("d", [math.nan if time is None else time for time in [rows[one][place][figure] for one in recordings]])
        for figure in (3, 4, 5)
        for place in range(len(configs))
    ]
    return TimingBlock(configs, recordings, columns)


def _pack_sets(transaction: Writing, entry: int) -> None:
    by_fingerprint: dict[str, list[int]] = {}
    for fingerprint, recording in transaction.bulk(queries.timings.set_rows_on(entry)):
        by_fingerprint.setdefault(fingerprint, []).append(recording)
    packed = {text: recordings for text, recordings in by_fingerprint.items() if len(recordings) >= LEAST}
    for fingerprint, recordings in packed.items():
        insert_set_blocks(transaction, entry, fingerprint, recordings)
        table = schema.candidate_sets
        keeps = _where(table, entry, recordings) if len(packed) < len(by_fingerprint) else [table.c.entry_id == entry]
        for where in keeps:
            transaction.connection.execute(sa.delete(table).where(where, table.c.fingerprint == fingerprint))


def _delete_rows(
    transaction: Writing, table: sa.Table, entry: int, groups: Iterable[Sequence[int]], *, keeps: bool
) -> None:
    """Delete the rows of an entry: those of some recordings if it `keeps` others, or else all."""
    recordings = [recording for group in groups for recording in group]
    for where in _where(table, entry, recordings) if keeps else [table.c.entry_id == entry]:
        if recordings:
            transaction.connection.execute(sa.delete(table).where(where))


def _where(table: sa.Table, entry: int, recordings: Sequence[int]) -> Iterator[sa.ColumnElement[bool]]:
    for part in in_chunks(recordings):
        yield (table.c.entry_id == entry) & table.c.recording_id.in_(part)


def _join_timings(transaction: Writing, entry: int) -> None:
    """Join blocks of similar size that have timed the same candidates."""
    while True:
        small = transaction.bulk(queries.timings.small_blocks([entry], MOST))
        firsts = _alike((tuple(same), count, first) for first, count, *same in small)
        if firsts is None:
            return
        parts = [_block(transaction, entry, first) for first in firsts]
        joined = join_blocks([part.load() for part in parts])
        for part in parts:
            _delete_block(transaction, part)
        insert_timing_blocks(transaction, entry, [joined])


def _join_sets(transaction: Writing, entry: int) -> None:
    """Join blocks of similar size that have the same fingerprint. Their recordings take little space, at any number."""
    while True:
        blocks = {(row[1], row[2]): row for row in transaction.bulk(queries.timings.set_blocks_on([entry]))}
        firsts = _alike((text, row[3], (text, first)) for (text, first), row in blocks.items())
        if firsts is None:
            return
        parts = [blocks[key] for key in firsts]
        block = schema.packed_candidate_sets.c
        where = (block.fingerprint == parts[0][1]) & block.first_recording.in_([row[2] for row in parts])
        transaction.connection.execute(sa.delete(schema.packed_candidate_sets).where(block.entry_id == entry, where))
        recordings = sorted(one for row in parts for one in unpack_ids(*row[2:]))
        insert_set_blocks(transaction, entry, parts[0][1], recordings)


def _alike(blocks: Iterable[tuple[Any, int, Any]]) -> list[Any] | None:
    """The keys of blocks of similar size to join; None if there are not enough.

    Args:
        blocks: What must be equal, number of recordings, and key of each block.
    """
    levels: dict[tuple[Any, int], list[Any]] = {}
    for same, count, key in blocks:
        level = ((max(count, LEAST) // LEAST).bit_length() - 1) // 2  # a fourfold size each, since 4 are joined
        found = levels.setdefault((same, level), [])
        found.append(key)
        if len(found) >= _JOINED:
            return found
    return None


def drop_percentiles(transaction: Writing, recording_ids: Collection[int]) -> int:
    """Drop the percentiles of recordings, as far as they are in blocks. Medians stay.

    Returns:
        How many timings lost them.
    """
    if not recording_ids:
        return 0
    ids, dropped = set(recording_ids), 0
    for row in list(transaction.bulk(queries.timings.blocks_between(min(ids), max(ids)))):
        if ids.isdisjoint(StoredBlock(row).recordings):
            continue
        stored = _block(transaction, row[0], row[1])
        if not stored.has_percentiles:
            continue
        whole = stored.load()
        without, rest = whole.medians_of(ids), whole.without(ids)
        _delete_block(transaction, stored)
        insert_timing_blocks(transaction, stored.entry_id, [without] if rest is None else [without, rest])
        dropped += len(without.recordings) * len(without.configs)
    return dropped


def _block(transaction: Writing, entry: int, first: int) -> StoredBlock:
    (row,) = transaction.bulk(queries.timings.block(entry, first))
    return StoredBlock(row)


def _delete_block(transaction: Writing, block: StoredBlock) -> None:
    table = schema.packed_timings
    where = (table.c.entry_id == block.entry_id) & (table.c.first_recording == block.key[0])
    transaction.connection.execute(sa.delete(table).where(where))


def take_out(transaction: Writing, recording_ids: Collection[int]) -> None:
    """Take the timings and candidate sets of recordings out of all blocks."""
    if not recording_ids:
        return
    ids = set(recording_ids)
    for row in list(transaction.bulk(queries.timings.blocks_between(min(ids), max(ids)))):
        if ids.isdisjoint(StoredBlock(row).recordings):
            continue
        stored = _block(transaction, row[0], row[1])
        rest = stored.load().without(ids)
        _delete_block(transaction, stored)
        insert_timing_blocks(transaction, stored.entry_id, [] if rest is None else [rest])
    _take_out_sets(transaction, ids)


def _take_out_sets(transaction: Writing, recording_ids: Collection[int]) -> None:
    """Take the candidate sets of recordings out of all blocks."""
    table = schema.packed_candidate_sets
    span = (min(recording_ids), max(recording_ids))
    for entry, fingerprint, first, count, packed in list(transaction.bulk(queries.timings.set_blocks_between(*span))):
        held = unpack_ids(first, count, packed)
        rest = [one for one in held if one not in recording_ids]
        if len(rest) == len(held):
            continue
        transaction.connection.execute(
            sa.delete(table).where(
                table.c.entry_id == entry, table.c.fingerprint == fingerprint, table.c.first_recording == first
            )
        )
        if rest:
            insert_set_blocks(transaction, entry, fingerprint, rest)
