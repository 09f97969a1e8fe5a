"""Every SELECT that goes through the votes or timings rank by rank, each named after the question it answers."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import timings, votes


def votes_cast(entry_id: int) -> sa.Select[Any]:
    """Which recording chose which config of this entry, whether it counts or not?

    Not joined to the recordings: the caller knows which ones count, and half a million rows leave faster alone.
    """
    return sa.select(votes.c.config_id, votes.c.recording_id).where(votes.c.entry_id == entry_id)


def medians_of(entry_id: int) -> sa.Select[Any]:
    """What median in ms did which recording measure for which config of this entry, where it worked? By config."""
    return (
        sa.select(timings.c.config_id, timings.c.recording_id, timings.c.median_ms)
        .where(timings.c.entry_id == entry_id, timings.c.median_ms.is_not(None))
        .order_by(timings.c.config_id)
    )
