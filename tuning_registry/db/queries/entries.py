"""Questions about entries and their configs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import configs, entries, observations, timings, votes
from tuning_registry.model.globs import is_glob, kernel_regex
from tuning_registry.model.selection import Selection


def entries_chosen(selection: Selection) -> sa.Select[Any] | None:
    """Which entries have this architecture, kernel and key? None if the selection names none of them."""
    query = sa.select(entries.c.id)
    if selection.arch is not None:
        query = query.where(entries.c.arch == selection.arch)
    if selection.kernel is not None:
        query = query.where(_kernel_is(selection.kernel))
    if selection.lookup_keys:
        query = query.where(entries.c.lookup_key.in_(selection.lookup_keys))
    is_narrow = selection.arch is not None or selection.kernel is not None or selection.lookup_keys
    return query if is_narrow else None


def _kernel_is(kernel: str) -> sa.ColumnElement[bool]:
    """Exact comparison; a bare name also matches the function of that name in any module, and a pattern matches either.

    Not LIKE: kernel names are full of `_`, its wildcard, and SQLite's LIKE ignores case.
    """
    exact = entries.c.kernel == kernel
    if is_glob(kernel):
        return exact | entries.c.kernel.regexp_match(kernel_regex(kernel))
    if "." in kernel:
        return exact
    suffix = "." + kernel
    start = sa.func.length(entries.c.kernel) - len(suffix) + 1
    return exact | (sa.func.substr(entries.c.kernel, start) == suffix) & (start > 0)


def shapes(selection: Selection) -> sa.Select[Any]:
    """Which shape is each entry a spelling of? Columns: id, arch, kernel, lookup_key, module."""
    query = sa.select(entries.c.id, entries.c.arch, entries.c.kernel, entries.c.lookup_key, entries.c.module)
    chosen = entries_chosen(selection)
    return query if chosen is None else query.where(entries.c.id.in_(chosen))


def kernels(arch: str) -> sa.Select[Any]:
    """Which kernels have an entry on this architecture?"""
    return sa.select(entries.c.kernel).where(entries.c.arch == arch).distinct().order_by(entries.c.kernel)


def with_many_keys(most: int) -> sa.Select[Any]:
    """Which kernels have more keys than this? Columns: arch, kernel, number."""
    number = sa.func.count()
    groups = sa.select(entries.c.arch, entries.c.kernel, number.label("number")).group_by(
        entries.c.arch, entries.c.kernel
    )
    return groups.having(number > most).order_by(entries.c.arch, entries.c.kernel)


def configs_of(arch: str, kernel: str, lookup_key: str | None) -> sa.Select[Any]:
    """Which configs were chosen, timed or observed for this kernel, and on this key if one is given?"""
    chosen = sa.select(entries.c.id).where(entries.c.arch == arch, entries.c.kernel == kernel)
    if lookup_key is not None:
        chosen = chosen.where(entries.c.lookup_key == lookup_key)
    seen = sa.union(*(sa.select(table.c.config_id).where(table.c.entry_id.in_(chosen))
                      for table in (votes, timings, observations)))  # fmt: skip
    return sa.select(configs.c.text).where(configs.c.id.in_(seen)).order_by(configs.c.text)


def config_texts(config_ids: Collection[int]) -> sa.Select[Any]:
    """What are the canonical texts of these configs? Columns: id, text."""
    return sa.select(configs.c.id, configs.c.text).where(configs.c.id.in_(list(config_ids)))
