"""Questions about recordings and their runs."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.queries.selected import counting_recordings, current_origins
from tuning_registry.db.schema import (
    CURRENT,
    NO_RANK,
    environments,
    hardware,
    recorded_runs,
    recording_archs,
    recordings,
)
from tuning_registry.model.selection import Selection


def whose_recordings(selection: Selection) -> sa.Select[Any]:
    """Which run and rank is each counting recording of? Columns: run, rank, id, environment id; sorted by them.

    Curated choices that count as votes have the name and version of their project as run, and no rank.
    """
    counting = counting_recordings(selection).subquery("counting")
    if selection.curated:
        found = current_origins(selection).subquery("found")
        curated = sa.select(
            _project_name(found).label("name"),
            sa.literal(NO_RANK).label("rank"),
            (-found.c.id).label("id"),
            found.c.environment_id,
        )
        ranked = whose_recordings(dataclasses.replace(selection, curated=False)).order_by(None)
        everyone = sa.union_all(ranked, curated).subquery("everyone")
        return sa.select(everyone).order_by(everyone.c.name, everyone.c.rank, everyone.c.id)
    return (
        sa.select(recorded_runs.c.name, recordings.c.rank, recordings.c.id, recordings.c.environment_id)
        .join(counting, counting.c.id == recordings.c.id)
        .join(recorded_runs, recorded_runs.c.id == recordings.c.run_id)
        .order_by(recorded_runs.c.name, recordings.c.rank, recordings.c.id)
    )


def _project_name(found: sa.FromClause) -> sa.ColumnElement[str]:
    """How an origin is named: the project, or else the tool, with its version and source."""
    project = sa.case((found.c.project != "", found.c.project), else_=found.c.tool)
    more = (sa.case((part != "", sa.literal(" ") + part), else_="") for part in (found.c.version, found.c.source))
    return functools.reduce(operator.add, more, project)


def facts(selection: Selection) -> sa.Select[Any]:
    """What do the headers of the counting recordings state? Oldest ingest first."""
    if selection.curated:
        recorded = facts(dataclasses.replace(selection, curated=False)).order_by(None)
        everyone = sa.union_all(recorded, _facts_of_origins(selection)).subquery("everyone")
        return sa.select(everyone).order_by(everyone.c.id)
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


def _facts_of_origins(selection: Selection) -> sa.Select[Any]:
    """What is known of the files whose curated choices count, in the columns of `facts`."""
    found = current_origins(selection).subquery("found")
    nothing = sa.cast(sa.null(), sa.Text)
    return sa.select(
        (-found.c.id).label("id"),
        _project_name(found).label("run"),
        sa.literal(NO_RANK).label("rank"),
        found.c.source,
        nothing.label("host"),
        nothing.label("device_name"),
        sa.cast(sa.null(), sa.Integer).label("multiprocessor_count"),
        found.c.triton,
        environments.c.packages,
    ).join(environments, environments.c.id == found.c.environment_id)


def hardware_of(selection: Selection) -> sa.Select[Any]:
    """Which hardware do the counting recordings state? One row per set of properties, without ids."""
    counting = counting_recordings(selection).subquery("counting")
    columns = [column for column in hardware.c if column.name not in {"id", "digest"}]
    return (
        sa.select(*columns)
        .join(recordings, recordings.c.hardware_id == hardware.c.id)
        .join(counting, counting.c.id == recordings.c.id)
        .distinct()
    )


def extras(selection: Selection) -> sa.Select[Any]:
    """What do counting recordings state beyond the fields of their version? Columns: environment_id, extra (JSON)."""
    counting = counting_recordings(selection).subquery("counting")
    return (
        sa.select(counting.c.environment_id, recordings.c.extra)
        .join(counting, counting.c.id == recordings.c.id)
        .where(recordings.c.extra.is_not(None))
        .order_by(recordings.c.id)
    )


def archs_recorded(selection: Selection) -> sa.Select[Any]:
    """How many votes does each counting recording have on each architecture?

    Columns: recording_id, arch, vote_count.
    """
    counting = counting_recordings(selection).subquery("counting")
    return sa.select(recording_archs).join(counting, counting.c.id == recording_archs.c.recording_id)


def all_archs() -> sa.Select[Any]:
    """Which architectures does each recording have votes on, whether it counts or not?"""
    return sa.select(recording_archs)


def current(ranks: Iterable[int], run_names: Iterable[str]) -> sa.Select[Any]:
    """What did these ranks of these runs record?"""
    return _current().where(recorded_runs.c.name.in_(list(run_names)), recordings.c.rank.in_(list(ranks)))


def current_of_processes(process_ids: Iterable[str]) -> sa.Select[Any]:
    """What did each of these processes record, under whatever run and rank?"""
    return _current().where(recordings.c.process_id.in_(list(process_ids)))


def _current() -> sa.Select[Any]:
    return (
        sa.select(
            recordings.c.id,
            recorded_runs.c.name.label("run"),
            sa.func.coalesce(recorded_runs.c.withdrawn_at, recordings.c.withdrawn_at).label("withdrawn_at"),
            recordings.c.rank,
            recordings.c.world_size,
            recordings.c.votes_digest,
            recordings.c.observations_digest,
            recordings.c.timings_digest,
            recordings.c.source,
            recordings.c.process_id,
            environments.c.triton,
            environments.c.packages,
            environments.c.modules,
        )
        .join(recorded_runs, recorded_runs.c.id == recordings.c.run_id)
        .join(environments, environments.c.id == recordings.c.environment_id)
        .where(recordings.c.superseded_at == CURRENT)
    )


def same_content(kind: str, contents: Sequence[tuple[str, int | None]]) -> sa.Select[Any]:
    """Which current recordings hold this content, including withdrawn ones, which may be restored?

    Columns: digest, rank, run, is_named.

    Args:
        kind: One of `KINDS`.
        contents: Digest, and the rank if only recordings of this rank matter; all of them state one, or none does.
    """
    digest = recordings.c[f"{kind}_digest"]
    ranks = sorted({rank for _, rank in contents if rank is not None})
    of_ranks = recordings.c.rank.in_(ranks) if ranks else sa.true()
    return (
        sa.select(
            digest.label("digest"),
            recordings.c.rank,
            recorded_runs.c.name.label("run"),
            recorded_runs.c.is_named,
        )
        .join(recorded_runs, recorded_runs.c.id == recordings.c.run_id)
        .where(
            digest.in_(sorted({one for one, _ in contents})),
            of_ranks,
            recordings.c.superseded_at == CURRENT,
        )
        .order_by(recordings.c.id)
    )


def runs_by_name(names: Iterable[str]) -> sa.Select[Any]:
    """Which of these runs exist, whether named or derived, withdrawn or not?"""
    return sa.select(recorded_runs).where(recorded_runs.c.name.in_(list(names)))


def ranks_of(run_name: str) -> sa.Select[Any]:
    """Which current recording does each rank of a run have, and is it withdrawn? Columns: id, rank, withdrawn_at."""
    return (
        sa.select(recordings.c.id, recordings.c.rank, recordings.c.withdrawn_at)
        .join(recorded_runs, recorded_runs.c.id == recordings.c.run_id)
        .where(recorded_runs.c.name == run_name, recordings.c.rank != NO_RANK, recordings.c.superseded_at == CURRENT)
    )


def every_recording_of(run_name: str) -> sa.Select[Any]:
    """Which recordings does a run have, whether they count or not? Columns: id, rank."""
    return (
        sa.select(recordings.c.id, recordings.c.rank)
        .join(recorded_runs, recorded_runs.c.id == recordings.c.run_id)
        .where(recorded_runs.c.name == run_name)
    )


def ids_of_run(run_name: str) -> sa.Select[Any]:
    """The ids of the recordings of a run, whether they count or not."""
    return every_recording_of(run_name).with_only_columns(recordings.c.id)


def rows_of_run(table: sa.Table, run_name: str) -> sa.Select[Any]:
    """How many rows do the recordings of a run have in a table?"""
    return sa.select(sa.func.count()).select_from(table).where(table.c.recording_id.in_(ids_of_run(run_name)))


def of_all_runs() -> sa.Select[Any]:
    """Which runs exist, and what do their current recordings state? One row per recording, newest first."""
    return (
        sa.select(
            recorded_runs.c.name.label("run"),
            recorded_runs.c.withdrawn_at,
            recordings.c.id,
            recordings.c.rank,
            recordings.c.withdrawn_at.label("rank_withdrawn_at"),
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
