"""Questions about timings."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import timings


def of_entries(entry_ids: Collection[int], config_ids: Collection[int] | None = None) -> sa.Select[Any]:
    """How fast was each config of these entries, for each recording?

    Columns: entry, config and recording id, median, 20th and 80th percentile in ms, null if the candidate failed.
    """
    query = sa.select(timings).where(timings.c.entry_id.in_(list(entry_ids)))
    if config_ids is not None:
        query = query.where(timings.c.config_id.in_(list(config_ids)))
    return query


def every_median_on(entry_id: int) -> sa.Select[Any]:
    """What median in ms did each recording measure for each config of this entry? Null if the config failed."""
    columns = (timings.c.config_id, timings.c.recording_id, timings.c.median_ms)
    return sa.select(*columns).where(timings.c.entry_id == entry_id)


def medians_on(entry_id: int) -> sa.Select[Any]:
    """What median in ms did each recording measure for each config of this entry that worked? In order of config."""
    return (
        sa.select(timings.c.config_id, timings.c.recording_id, timings.c.median_ms)
        .where(timings.c.entry_id == entry_id, timings.c.median_ms.is_not(None))
        .order_by(timings.c.config_id)
    )
