"""Questions about entries and their configs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.queries.selected import entries_chosen
from tuning_registry.db.schema import configs, entries, observations, timings, votes
from tuning_registry.model.selection import Selection


def shapes(selection: Selection) -> sa.Select[Any]:
    """Which shape is each entry a spelling of? Columns: id, arch, kernel, lookup_key, module, device."""
    shape = (entries.c.arch, entries.c.kernel, entries.c.lookup_key, entries.c.module, entries.c.device)
    query = sa.select(entries.c.id, *shape)
    if not selection.curated:
        query = query.where(entries.c.is_recorded)
    chosen = entries_chosen(selection)
    return query if chosen is None else query.where(entries.c.id.in_(chosen))


def kernels(arch: str) -> sa.Select[Any]:
    """Which recorded kernels have an entry on this architecture?"""
    return (
        sa.select(entries.c.kernel)
        .where(entries.c.arch == arch, entries.c.is_recorded)
        .distinct()
        .order_by(entries.c.kernel)
    )


def with_many_keys(most: int) -> sa.Select[Any]:
    """Which recorded kernels have more keys than this? Columns: arch, kernel, number."""
    number = sa.func.count()
    groups = (
        sa.select(entries.c.arch, entries.c.kernel, number.label("number"))
        .where(entries.c.is_recorded)
        .group_by(entries.c.arch, entries.c.kernel)
    )
    return groups.having(number > most).order_by(entries.c.arch, entries.c.kernel)


def configs_chosen(arch: str, kernel: str, lookup_key: str | None) -> sa.Select[Any]:
    """Which configs were chosen, timed or observed for this kernel, and on this key if one is given?

    Without those that were timed and are in blocks.
    """
    chosen = ids_of(arch, kernel, lookup_key)
    seen = sa.union(*(sa.select(table.c.config_id).where(table.c.entry_id.in_(chosen))
                      for table in (votes, timings, observations)))  # fmt: skip
    return sa.select(configs.c.text).where(configs.c.id.in_(seen))


def ids_of(arch: str, kernel: str, lookup_key: str | None) -> sa.Select[Any]:
    """Which entries does this kernel have, on this key if one is given?"""
    found = sa.select(entries.c.id).where(entries.c.arch == arch, entries.c.kernel == kernel)
    return found if lookup_key is None else found.where(entries.c.lookup_key == lookup_key)


def config_texts(config_ids: Collection[int]) -> sa.Select[Any]:
    """What are the canonical texts of these configs? Columns: id, text."""
    return sa.select(configs.c.id, configs.c.text).where(configs.c.id.in_(list(config_ids)))
