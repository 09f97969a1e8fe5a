"""Which entries and recordings a `Selection` means: the WHERE of every query that takes one."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import (
    CURRENT,
    curated_choices,
    entries,
    environment_modules,
    environments,
    origins,
    recorded_runs,
    recordings,
    votes,
)
from tuning_registry.model.globs import is_glob, kernel_regex
from tuning_registry.model.selection import MISSING, Selection


def entries_chosen(selection: Selection) -> sa.Select[Any] | None:
    """Which entries have this architecture, kernel, key and device? None if the selection names none of them.

    Leaves out entries that only curated choices name, unless these count: tens of thousands may be there.
    """
    conditions: list[sa.ColumnElement[bool]] = []
    if selection.arch is not None:
        conditions.append(entries.c.arch == selection.arch)
    if selection.device is not None:
        conditions.append(entries.c.device == selection.device)
    if selection.lookup_keys:
        conditions.append(entries.c.lookup_key.in_(selection.lookup_keys))
    if selection.kernel is not None:
        conditions.append(_kernel_is(selection.kernel))
    if not conditions:
        return None
    # SQLite tests them in this order, and a pattern costs a call into Python.
    recorded = [] if selection.curated else [entries.c.is_recorded]
    return sa.select(entries.c.id).where(*recorded, *conditions)


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


def counting_recordings(selection: Selection) -> sa.Select[Any]:
    """Which recordings count for this selection: current ones that are not withdrawn, nor is their run.

    Curated choices that count as votes have the negative id of their origin. Columns: id, environment_id.
    """
    query = (
        sa.select(recordings.c.id, recordings.c.environment_id)
        .join(recorded_runs, recorded_runs.c.id == recordings.c.run_id)
        .where(
            recordings.c.superseded_at == CURRENT,
            recordings.c.withdrawn_at.is_(None),
            recorded_runs.c.withdrawn_at.is_(None),
        )
    )
    if selection.runs:
        query = query.where(recorded_runs.c.name.in_(selection.runs))
    if selection.ranks:
        query = query.where(recordings.c.rank.in_(selection.ranks))
    if selection.source is not None:
        query = query.where(recordings.c.source == selection.source)
    if selection.triton is not None:
        query = query.join(environments, environments.c.id == recordings.c.environment_id).where(
            environments.c.triton == _version_asked(selection.triton)
        )
    if selection.curated:
        return sa.select(sa.union_all(query, _counting_origins(selection)).subquery("everything_counting"))
    return query


def current_origins(selection: Selection) -> sa.Select[Any]:
    """Which files of curated choices count for this selection? Columns of `origins`, and triton."""
    query = (
        sa.select(origins, environments.c.triton)
        .join(environments, environments.c.id == origins.c.environment_id)
        .where(origins.c.superseded_at == CURRENT, origins.c.choice_count > 0)
    )
    if selection.source is not None:
        query = query.where(origins.c.source == selection.source)
    if selection.triton is not None:
        query = query.where(environments.c.triton == _version_asked(selection.triton))
    return query


def _counting_origins(selection: Selection) -> sa.Select[Any]:
    found = current_origins(selection).subquery("counting_origins")
    return sa.select((-found.c.id).label("id"), found.c.environment_id)


def ballots(selection: Selection) -> sa.FromClause:
    """The votes; with them the curated choices if these count. Columns: entry_id, config_id, recording_id."""
    if not selection.curated:
        return votes
    cast = sa.select(votes.c.entry_id, votes.c.config_id, votes.c.recording_id)
    chosen = curated_choices
    as_votes = sa.select(chosen.c.entry_id, chosen.c.config_id, (-chosen.c.origin_id).label("recording_id"))
    return sa.union_all(cast, as_votes).subquery("ballots")


def environments_that_count(selection: Selection) -> sa.Select[Any]:
    """Which environments do the counting recordings come from?"""
    return sa.select(counting_recordings(selection).subquery().c.environment_id).distinct()


def _modules_of(package: str) -> sa.Select[Any]:
    """Which top-level modules does a distribution own, according to any recording?"""
    return sa.select(environment_modules.c.module).where(environment_modules.c.package == package)


def of_packages(selection: Selection) -> list[sa.ColumnElement[bool]]:
    """Conditions that keep, of the kernels that a package owns, only votes recorded with its version.

    They leave other kernels alone. For a statement that joins `entries` and `environment_modules`.
    """
    owner = environment_modules
    return [
        entries.c.module.not_in(_modules_of(name))
        | (sa.func.coalesce(owner.c.package, name).in_([name, ""]))
        & (sa.func.coalesce(owner.c.version, "") == _version_asked(version))
        for name, version in selection.packages.items()
    ]


def _version_asked(asked: str) -> str:
    """The stored form of a version filter."""
    return "" if asked == MISSING else asked
