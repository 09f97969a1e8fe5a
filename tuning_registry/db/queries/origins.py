"""Questions about where choices come from, and about curated choices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import environments, origins


def of_tools(tools: Iterable[str]) -> sa.Select[Any]:
    """Which files of these tools are there, whether they count or not? `environment` is the digest of the environment."""
    return (
        sa.select(origins, environments.c.digest.label("environment"))
        .join(environments, environments.c.id == origins.c.environment_id)
        .where(origins.c.tool.in_(sorted(tools)))
    )
