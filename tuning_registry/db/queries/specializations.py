"""Questions about what winners need to be compiled."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.queries.selected import environments_that_count, of_packages
from tuning_registry.db.schema import (
    configs,
    entries,
    entry_specializations,
    environment_modules,
    environments,
    recordings,
    specializations,
)
from tuning_registry.model.selection import Selection


def environments_of(recording_ids: Collection[int]) -> sa.Select[Any]:
    """In which environments were these recordings made? Columns: id, environment_id."""
    return sa.select(recordings.c.id, recordings.c.environment_id).where(recordings.c.id.in_(list(recording_ids)))


def held_by(entry_ids: Collection[int]) -> sa.Select[Any]:
    """Which rows do these entries have?"""
    return sa.select(entry_specializations).where(entry_specializations.c.entry_id.in_(list(entry_ids)))


def of_entries(selection: Selection, triton: str) -> sa.Select[Any]:
    """What do the configs of an architecture's entries need, in the environments of the votes with this Triton?

    Columns: kernel, key, config (its text), text (of the specialization).
    """
    stated, owner = entry_specializations, environment_modules
    return (
        sa.select(entries.c.kernel, entries.c.key, configs.c.text.label("config"), specializations.c.text)
        .select_from(
            stated.join(entries, entries.c.id == stated.c.entry_id)
            .join(configs, configs.c.id == stated.c.config_id)
            .join(specializations, specializations.c.id == stated.c.specialization_id)
            .join(environments, environments.c.id == stated.c.environment_id)
            .outerjoin(
                owner, (owner.c.environment_id == stated.c.environment_id) & (owner.c.module == entries.c.module)
            )
        )
        .where(
            entries.c.arch == selection.arch,
            environments.c.triton == triton,
            stated.c.environment_id.in_(environments_that_count(selection)),
            *of_packages(selection),
        )
        .distinct()
        .order_by(entries.c.kernel, entries.c.key, configs.c.text, specializations.c.text)
    )
