"""Questions about pins, bans and lifts."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import configs, override_events


def history() -> sa.Select[Any]:
    """What was pinned, banned and lifted, in order?"""
    return (
        sa.select(
            *(column for column in override_events.c if column.name != "config_id"), configs.c.text.label("config")
        )
        .join(configs, configs.c.id == override_events.c.config_id)
        .order_by(override_events.c.id)
    )
