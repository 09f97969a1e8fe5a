"""Every SELECT over timings, each named after the question it answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import configs, timings


def timings_of(entry_ids: Collection[int], config_ids: Collection[int] | None = None) -> sa.Select[Any]:
    """How fast was which config of these entries, on which recording's rank? In order of entry and config."""
    query = sa.select(timings).where(timings.c.entry_id.in_(list(entry_ids)))
    if config_ids is not None:
        query = query.where(timings.c.config_id.in_(list(config_ids)))
    return query


def config_texts(config_ids: Collection[int]) -> sa.Select[Any]:
    """What are these configs?"""
    return sa.select(configs.c.id, configs.c.text).where(configs.c.id.in_(list(config_ids)))
