"""Every SELECT over runs and recordings, each named after the question it answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.queries import counting_recordings
from tuning_registry.db.schema import (
    CURRENT,
    environment_modules,
    environments,
    recorded_runs,
    recording_archs,
    recordings,
)
from tuning_registry.model.selection import Selection


def ids_by_digest(table: sa.Table, digests: Iterable[str]) -> sa.Select[Any]:
    """Which of these rows are there already? Columns: digest, id."""
    return sa.select(table.c.digest, table.c.id).where(table.c.digest.in_(list(digests)))


def runs_by_name(names: Iterable[str]) -> sa.Select[Any]:
    """Which of these runs are there, named or not, withdrawn or not?"""
    return sa.select(recorded_runs).where(recorded_runs.c.name.in_(list(names)))


def current_recordings(run_names: Iterable[str]) -> sa.Select[Any]:
    """What has each rank of these runs recorded?"""
    return (
        sa.select(
            recordings.c.id,
            recorded_runs.c.name.label("run"),
            recordings.c.rank,
            recordings.c.votes_digest,
            recordings.c.observations_digest,
            recordings.c.timings_digest,
            recordings.c.source,
            environments.c.triton,
            environments.c.packages,
            environments.c.modules,
        )
        .join(recorded_runs, recorded_runs.c.id == recordings.c.run_id)
        .join(environments, environments.c.id == recordings.c.environment_id)
        .where(recorded_runs.c.name.in_(list(run_names)), recordings.c.superseded_at == CURRENT)
    )


def same_content(kind: str, digests: Iterable[str]) -> sa.Select[Any]:
    """Which current recordings hold this content of a kind, also of withdrawn runs, which may be restored?

    Columns: digest, rank, run, is_named.
    """
    digest = recordings.c[f"{kind}_digest"]
    return (
        sa.select(
            digest.label("digest"),
            recordings.c.rank,
            recorded_runs.c.name.label("run"),
            recorded_runs.c.is_named,
        )
        .join(recorded_runs, recorded_runs.c.id == recordings.c.run_id)
        .where(
            digest.in_(list(digests)),
            recordings.c.superseded_at == CURRENT,
        )
        .order_by(recordings.c.id)
    )


def recording_facts(selection: Selection) -> sa.Select[Any]:
    """What do the counting recordings say of themselves? One row a recording, runs in order of age."""
    counting = counting_recordings(selection).subquery("counting")
    return (
        sa.select(
            recordings.c.id,
            recorded_runs.c.name.label("run"),
            recordings.c.rank,
            recordings.c.source,
            recordings.c.host,
            recordings.c.device_name,
            recordings.c.multiprocessor_count,
            environments.c.triton,
            environments.c.packages,
        )
        .join(counting, counting.c.id == recordings.c.id)
        .join(recorded_runs, recorded_runs.c.id == recordings.c.run_id)
        .join(environments, environments.c.id == recordings.c.environment_id)
        .order_by(recordings.c.id)
    )


def all_runs() -> sa.Select[Any]:
    """Which runs are there, and what do their current recordings say? One row a recording, newest first."""
    return (
        sa.select(
            recorded_runs.c.name.label("run"),
            recorded_runs.c.withdrawn_at,
            recordings.c.id,
            recordings.c.rank,
            recordings.c.world_size,
            recordings.c.host,
            recordings.c.device_name,
            recordings.c.source,
            recordings.c.ingested_at,
            environments.c.triton,
            environments.c.packages,
        )
        .join(recordings, (recordings.c.run_id == recorded_runs.c.id) & (recordings.c.superseded_at == CURRENT))
        .join(environments, environments.c.id == recordings.c.environment_id)
        .order_by(recordings.c.ingested_at.desc(), recordings.c.id.desc())
    )


def archs_recorded(selection: Selection) -> sa.Select[Any]:
    """How many votes has each counting recording on each architecture? Columns: recording_id, arch, vote_count."""
    counting = counting_recordings(selection).subquery("counting")
    return sa.select(recording_archs).join(counting, counting.c.id == recording_archs.c.recording_id)


def all_archs() -> sa.Select[Any]:
    """Which architectures has each recording votes on, whether it counts or not?"""
    return sa.select(recording_archs)


def packages_known() -> sa.Select[Any]:
    """Which distributions own a kernel's module, by any recording?"""
    return sa.select(environment_modules.c.package).distinct().order_by(environment_modules.c.package)


def counting_rows(table: sa.Table) -> sa.Select[int]:
    """How many rows has a table, without those of recordings that do not count: superseded, or of a withdrawn run?"""
    left_out = (
        sa.select(recordings.c.id)
        .join(recorded_runs, recorded_runs.c.id == recordings.c.run_id)
        .where((recordings.c.superseded_at != CURRENT) | recorded_runs.c.withdrawn_at.is_not(None))
    )
    return row_count(table).where(table.c.recording_id.not_in(left_out))


def row_count(table: sa.Table) -> sa.Select[int]:
    """How many rows has a table?"""
    return sa.select(sa.func.count()).select_from(table)
