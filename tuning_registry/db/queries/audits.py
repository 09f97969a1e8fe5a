"""Questions about audits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.queries.selected import counting_recordings, entries_chosen
from tuning_registry.db.schema import audit_blocks, audits, entries
from tuning_registry.model.selection import Selection


def entries_held(recording_ids: Collection[int]) -> sa.Select[Any]:
    """Which entries of these recordings are audited? Columns: recording_id, digest (of the entry)."""
    return (
        sa.select(audits.c.recording_id, entries.c.digest)
        .join(entries, entries.c.id == audits.c.entry_id)
        .where(audits.c.recording_id.in_(list(recording_ids)))
    )


def of_recordings(selection: Selection) -> sa.Select[Any]:
    """What did each counting recording find about each entry? Columns: entry, recording and block id, and the key."""
    counting = counting_recordings(selection).subquery("counting")
    query = (
        sa.select(audits.c.entry_id, audits.c.recording_id, audits.c.block_id, entries.c.key)
        .join(counting, counting.c.id == audits.c.recording_id)
        .join(entries, entries.c.id == audits.c.entry_id)
        .order_by(audits.c.entry_id, audits.c.recording_id)
    )
    chosen = entries_chosen(selection)
    return query if chosen is None else query.where(audits.c.entry_id.in_(chosen))


def blocks(block_ids: Collection[int]) -> sa.Select[Any]:
    """What do these blocks hold?"""
    return sa.select(audit_blocks).where(audit_blocks.c.id.in_(list(block_ids)))
