"""Every SELECT over the votes, each named after the question it answers. Nothing is executed here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import (
    CURRENT,
    candidate_sets,
    configs,
    entries,
    environment_modules,
    environments,
    recorded_runs,
    recording_archs,
    recordings,
    votes,
)
from tuning_registry.model.selection import MISSING, Selection

GROUP = ("triton", "package", "version")  # the columns of a version group; empty: not known
_SHAPE = ("arch", "kernel", "lookup_key", *GROUP)


def counting_recordings(selection: Selection) -> sa.Select[Any]:
    """Which recordings count for this selection: current ones, of runs that are not withdrawn."""
    query = (
        sa.select(recordings.c.id, recordings.c.environment_id)
        .join(recorded_runs, recorded_runs.c.id == recordings.c.run_id)
        .where(recordings.c.superseded_at == CURRENT, recorded_runs.c.withdrawn_at.is_(None))
    )
    if selection.runs:
        query = query.where(recorded_runs.c.name.in_(selection.runs))
    if selection.source is not None:
        query = query.where(recordings.c.source == selection.source)
    if selection.triton is not None:
        query = query.join(environments, environments.c.id == recordings.c.environment_id).where(
            environments.c.triton == _version(selection.triton)
        )
    return query


def environments_that_count(selection: Selection) -> sa.Select[Any]:
    """Which environments the counting recordings come from."""
    return sa.select(counting_recordings(selection).subquery().c.environment_id).distinct()


def tally(selection: Selection, environment_ids: list[int]) -> sa.Subquery:
    """How many votes has each config of each entry in each environment? The one pass over the votes."""
    columns = (votes.c.entry_id, votes.c.config_id)
    return _by_environment(votes, columns, [sa.func.count().label("n")], selection, environment_ids).subquery("tally")


def candidate_set_tally(selection: Selection, environment_ids: list[int]) -> sa.Select[Any]:
    """How many recordings chose each entry from which set of candidates, and which was the last of them?

    Columns: entry_id, fingerprint, environment_id, n, newest (recording id).
    """
    columns = (candidate_sets.c.entry_id, candidate_sets.c.fingerprint)
    measures = [sa.func.count().label("n"), sa.func.max(candidate_sets.c.recording_id).label("newest")]
    return _by_environment(candidate_sets, columns, measures, selection, environment_ids)


def _by_environment(
    table: sa.Table,
    columns: tuple[sa.ColumnElement[Any], ...],
    measures: list[sa.Label[int]],
    selection: Selection,
    environment_ids: list[int],
) -> sa.Select[Any]:
    """Rows of counting recordings, grouped by `columns` and environment.

    Mostly all rows come from one environment, and all of them count. Then they leave the index in
    GROUP BY order and nothing is sorted or joined: recordings that do not count are a short list to
    skip. Several environments take a join to their recordings.
    """
    counting = counting_recordings(selection).subquery("counting")
    if len(environment_ids) == 1:
        others = sa.select(recordings.c.id).where(recordings.c.id.not_in(sa.select(counting.c.id)))
        environment = sa.literal(environment_ids[0], sa.BigInteger).label("environment_id")
        query = (
            sa.select(*columns, environment, *measures).where(table.c.recording_id.not_in(others)).group_by(*columns)
        )
    else:
        query = (
            sa.select(*columns, counting.c.environment_id, *measures)
            .join(counting, counting.c.id == table.c.recording_id)
            .group_by(*columns, counting.c.environment_id)
        )
    chosen = entries_chosen(selection)
    return query if chosen is None else query.where(table.c.entry_id.in_(chosen))


def entries_chosen(selection: Selection) -> sa.Select[Any] | None:
    """Which entries have this arch and kernel; None when neither is asked for."""
    query = sa.select(entries.c.id)
    if selection.arch is not None:
        query = query.where(entries.c.arch == selection.arch)
    if selection.kernel is not None:
        query = query.where(_kernel_is(selection.kernel))
    return query if selection.arch is not None or selection.kernel is not None else None


def _kernel_is(kernel: str) -> sa.ColumnElement[bool]:
    """Exact comparison; a bare name also finds the function of that name in any module.

    No LIKE: kernel names are full of `_`, its wildcard, and SQLite's ignores case.
    """
    exact = entries.c.kernel == kernel
    if "." in kernel:
        return exact
    suffix = "." + kernel
    start = sa.func.length(entries.c.kernel) - len(suffix) + 1
    return exact | (sa.func.substr(entries.c.kernel, start) == suffix) & (start > 0)


def _per_config(selection: Selection, environment_ids: list[int]) -> sa.Subquery:
    """How many votes has each config of each entry in each version group?"""
    counted = tally(selection, environment_ids)
    owner = environment_modules
    group = _group_columns(owner)
    query = (
        sa.select(
            entries.c.arch,
            entries.c.kernel,
            entries.c.lookup_key,
            *group,
            counted.c.config_id,
            sa.func.sum(counted.c.n).label("votes"),
            sa.func.min(entries.c.key).label("key"),
        )
        .select_from(_with_owner(counted, owner))
        .group_by(entries.c.arch, entries.c.kernel, entries.c.lookup_key, *group, counted.c.config_id)
    )
    query = query.where(*_of_packages(selection))
    return query.subquery("per_config")


def _of_packages(selection: Selection) -> list[sa.ColumnElement[bool]]:
    """Of the kernels that a package owns, only votes recorded with its version; other kernels as they are."""
    owner = environment_modules
    return [
        entries.c.module.not_in(modules_of(name))
        | (sa.func.coalesce(owner.c.package, name).in_([name, ""]))
        & (sa.func.coalesce(owner.c.version, "") == _version(version))
        for name, version in selection.packages.items()
    ]


def _with_owner(counted: sa.Subquery, owner: sa.Table) -> sa.Join:
    """A tally with the entries, the environments, and the distribution that owned each kernel there."""
    return (
        counted.join(entries, entries.c.id == counted.c.entry_id)
        .join(environments, environments.c.id == counted.c.environment_id)
        .outerjoin(owner, (owner.c.environment_id == counted.c.environment_id) & (owner.c.module == entries.c.module))
    )


def _group_columns(owner: sa.FromClause) -> list[sa.ColumnElement[str]]:
    return [
        environments.c.triton.label("triton"),
        sa.func.coalesce(owner.c.package, "").label("package"),
        sa.func.coalesce(owner.c.version, "").label("version"),
    ]


def modules_of(package: str) -> sa.Select[Any]:
    """Which top-level modules does a distribution own, by any recording?"""
    return sa.select(environment_modules.c.module).where(environment_modules.c.package == package)


def _version(asked: str) -> str:
    return "" if asked == MISSING else asked


def choices(selection: Selection, environment_ids: list[int]) -> sa.Select[Any]:
    """Which configs did ranks choose for each entry, the winner first?

    Most votes win; ties go to the smallest canonical text, compared byte by byte. Columns: arch,
    kernel, key, the version group, config, votes, total (votes on the entry), choices (configs of the
    entry), place (1: the winner), runner_up (votes of the next place). One row a config, entries in order.
    """
    per_config = _per_config(selection, environment_ids)
    shape = [per_config.c[name] for name in _SHAPE]
    ranked = (
        sa.select(
            *shape,
            sa.func.min(per_config.c.key).over(partition_by=shape).label("key"),
            per_config.c.config_id,
            configs.c.text.label("config"),
            per_config.c.votes,
            sa.func.sum(per_config.c.votes).over(partition_by=shape).label("total"),
            sa.func.count().over(partition_by=shape).label("choices"),
            sa.func.row_number()
            .over(partition_by=shape, order_by=[per_config.c.votes.desc(), configs.c.text])
            .label("place"),
            sa.func.lead(per_config.c.votes)
            .over(partition_by=shape, order_by=[per_config.c.votes.desc(), configs.c.text])
            .label("runner_up"),
        )
        .select_from(per_config.join(configs, configs.c.id == per_config.c.config_id))
        .subquery("ranked")
    )
    return sa.select(ranked).order_by(
        ranked.c.arch, ranked.c.kernel, ranked.c.key, *(ranked.c[name] for name in GROUP), ranked.c.place
    )


def winners(selection: Selection, environment_ids: list[int]) -> sa.Select[Any]:
    """Which config does each entry elect? `choices` in first place."""
    query = choices(selection, environment_ids)
    return query.where(query.selected_columns.place == 1)


def shapes_of_entries(selection: Selection) -> sa.Select[Any]:
    """Which shape is each entry a spelling of, and whose module is its kernel's?"""
    query = sa.select(entries.c.id, entries.c.arch, entries.c.kernel, entries.c.lookup_key, entries.c.module)
    chosen = entries_chosen(selection)
    return query if chosen is None else query.where(entries.c.id.in_(chosen))


def version_groups() -> sa.Select[Any]:
    """Which versions does each environment stand for, by the module that a distribution owns there?"""
    owner = environment_modules
    return sa.select(
        environments.c.id, environments.c.triton, owner.c.module, owner.c.package, owner.c.version
    ).outerjoin_from(environments, owner, owner.c.environment_id == environments.c.id)


def who_voted(entry_ids: Iterable[int]) -> sa.Select[Any]:
    """Which recordings chose which config of these entries, whether they count or not?

    Their ids in one text, since there may be millions, and grouped as the table is sorted, so that no database sorts.
    """
    choice = (votes.c.entry_id, votes.c.config_id)
    ids = sa.func.aggregate_strings(sa.cast(votes.c.recording_id, sa.Text), ",")
    return sa.select(*choice, ids).where(votes.c.entry_id.in_(list(entry_ids))).group_by(*choice)


def whose_recordings(selection: Selection) -> sa.Select[Any]:
    """Whose is each counting recording? Run, rank, id, in that order, and its environment."""
    counting = counting_recordings(selection).subquery("counting")
    return (
        sa.select(recorded_runs.c.name, recordings.c.rank, recordings.c.id, recordings.c.environment_id)
        .join(counting, counting.c.id == recordings.c.id)
        .join(recorded_runs, recorded_runs.c.id == recordings.c.run_id)
        .order_by(recorded_runs.c.name, recordings.c.rank, recordings.c.id)
    )


def contributing(selection: Selection) -> sa.Select[Any]:
    """Which recordings have a vote on this architecture that passes the filters?"""
    counting = counting_recordings(selection).subquery("counting")
    if not selection.packages:
        query = sa.select(recording_archs.c.recording_id).join(
            counting, counting.c.id == recording_archs.c.recording_id
        )
        return query.where(recording_archs.c.arch == selection.arch).order_by(recording_archs.c.recording_id)
    owner = environment_modules
    return (
        sa.select(votes.c.recording_id)
        .select_from(
            votes.join(counting, counting.c.id == votes.c.recording_id)
            .join(entries, entries.c.id == votes.c.entry_id)
            .outerjoin(
                owner, (owner.c.environment_id == counting.c.environment_id) & (owner.c.module == entries.c.module)
            )
        )
        .where(entries.c.arch == selection.arch, *_of_packages(selection))
        .distinct()
        .order_by(votes.c.recording_id)
    )
