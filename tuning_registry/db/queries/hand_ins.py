"""Questions about hand-ins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import PENDING, REFUSED, hand_ins


def counts() -> sa.Select[Any]:
    """How many hand-ins are there, and since when? Columns: state, number, oldest."""
    return sa.select(
        hand_ins.c.state, sa.func.count().label("number"), sa.func.min(hand_ins.c.received_at).label("oldest")
    ).group_by(hand_ins.c.state)


def claim(version: int, limit: int) -> sa.Select[Any]:
    """Which pending hand-ins of at most this version came first? Columns: id, size in bytes.

    On Postgres the rows are locked, and rows that another transaction has locked are left out.
    """
    return (
        sa.select(hand_ins.c.id, sa.func.length(hand_ins.c.payload).label("size"))
        .where(hand_ins.c.state == PENDING, hand_ins.c.version <= version)
        .order_by(hand_ins.c.received_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )


def payloads(ids: Sequence[str]) -> sa.Select[Any]:
    """What do these hand-ins hold? Columns: id, payload."""
    return sa.select(hand_ins.c.id, hand_ins.c.payload).where(hand_ins.c.id.in_(list(ids)))


def refused() -> sa.Select[Any]:
    """Which hand-ins were refused, and why? Oldest first. Columns: id, received_at, error."""
    return (
        sa.select(hand_ins.c.id, hand_ins.c.received_at, hand_ins.c.error)
        .where(hand_ins.c.state == REFUSED)
        .order_by(hand_ins.c.received_at, hand_ins.c.id)
    )
