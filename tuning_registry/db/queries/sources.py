"""Questions about the sources of the functions that ranks launched under a kernel's name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.queries.selected import counting_recordings
from tuning_registry.db.schema import kernel_sources, recorded_runs, recording_archs, recordings
from tuning_registry.model.selection import Selection


def sets_stated(selection: Selection) -> sa.Select[Any]:
    """Which sources do the counting recordings state? Columns: recording id, source_set_id; without those that state none."""
    counting = counting_recordings(selection).subquery("counting")
    return (
        sa.select(recordings.c.id, recordings.c.source_set_id)
        .join(counting, counting.c.id == recordings.c.id)
        .where(recordings.c.source_set_id.is_not(None))
    )


def in_sets(set_ids: Iterable[int]) -> sa.Select[Any]:
    """Which source does each kernel have in these sets? Columns: source_set_id, kernel, source."""
    return sa.select(kernel_sources.c.source_set_id, kernel_sources.c.kernel, kernel_sources.c.source).where(
        kernel_sources.c.source_set_id.in_(list(set_ids))
    )


def several(selection: Selection) -> sa.Select[Any]:
    """Which kernels did ranks of one run record from functions of different source? Columns: run, kernel."""
    counting = counting_recordings(selection).subquery("counting")
    stated = (
        sa.select(recordings.c.run_id, recordings.c.source_set_id)
        .join(counting, counting.c.id == recordings.c.id)
        .where(recordings.c.source_set_id.is_not(None))
        .distinct()
    )
    if selection.arch is not None:
        there = sa.select(recording_archs.c.recording_id).where(recording_archs.c.arch == selection.arch)
        stated = stated.where(recordings.c.id.in_(there))
    found = stated.subquery("stated")
    return (
        sa.select(recorded_runs.c.name.label("run"), kernel_sources.c.kernel)
        .join(found, found.c.run_id == recorded_runs.c.id)
        .join(kernel_sources, kernel_sources.c.source_set_id == found.c.source_set_id)
        .group_by(recorded_runs.c.name, kernel_sources.c.kernel)
        .having(sa.func.min(kernel_sources.c.source) != sa.func.max(kernel_sources.c.source))
        .order_by(recorded_runs.c.name, kernel_sources.c.kernel)
    )
