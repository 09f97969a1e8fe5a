"""Questions that can be asked of any table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import CURRENT, recorded_runs, recordings


def ids_by_digest(table: sa.Table, digests: Iterable[str]) -> sa.Select[Any]:
    """Which of these rows exist? Columns: digest, id."""
    return sa.select(table.c.digest, table.c.id).where(table.c.digest.in_(list(digests)))


def counting_rows(table: sa.Table) -> sa.Select[int]:
    """How many rows does a table have from recordings that count: not superseded and not withdrawn?"""
    return row_count(table).where(table.c.recording_id.not_in(not_counting()))


def not_counting() -> sa.Select[Any]:
    """Which recordings do not count, since they were superseded or withdrawn?"""
    return (
        sa.select(recordings.c.id)
        .join(recorded_runs, recorded_runs.c.id == recordings.c.run_id)
        .where(
            (recordings.c.superseded_at != CURRENT)
            | recordings.c.withdrawn_at.is_not(None)
            | recorded_runs.c.withdrawn_at.is_not(None)
        )
    )


def row_count(table: sa.Table) -> sa.Select[int]:
    """How many rows does a table have?"""
    return sa.select(sa.func.count()).select_from(table)
