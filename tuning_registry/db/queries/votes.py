"""Questions about votes and the sets of candidates that they chose from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import sqlalchemy as sa

from tuning_registry.db.queries.selected import ballots, counting_recordings, entries_chosen, of_packages
from tuning_registry.db.schema import (
    candidate_sets,
    configs,
    entries,
    environment_modules,
    environments,
    observations,
    recording_archs,
    recordings,
    votes,
)
from tuning_registry.model.packages import GROUP
from tuning_registry.model.records import IN_SHARE
from tuning_registry.model.selection import Selection

_SHAPE: Final = ("arch", "kernel", "lookup_key", *GROUP)


def winners(selection: Selection, environment_ids: list[int]) -> sa.Select[Any]:
    """Which config does each entry elect? The first place of `choices`."""
    query = choices(selection, environment_ids)
    return query.where(query.selected_columns.place == 1)


def choices(selection: Selection, environment_ids: list[int]) -> sa.Select[Any]:
    """Which configs did ranks choose for each entry, the winner first?

    Most votes win; ties go to the smallest canonical text, compared byte by byte. Columns: arch,
    kernel, key, the version group, config, votes, total (votes on the entry), choices (configs of the
    entry), place (1 for the winner), runner_up (votes of the next place). One row per config, entries in order.
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


def _per_config(selection: Selection, environment_ids: list[int]) -> sa.Subquery:
    """How many votes does each config of each entry have in each version group?"""
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
    query = query.where(*of_packages(selection))
    return query.subquery("per_config")


def _group_columns(owner: sa.FromClause) -> list[sa.ColumnElement[str]]:
    """The version group, for a statement that joins `entries`, `environments` and `owner`."""
    return [
        environments.c.triton.label("triton"),
        sa.func.coalesce(owner.c.package, "").label("package"),
        sa.func.coalesce(owner.c.version, "").label("version"),
        entries.c.device.label("device"),
    ]


def _with_owner(counted: sa.Subquery, owner: sa.Table) -> sa.Join:
    """A tally joined with entries, environments, and the distribution that owned each kernel there."""
    return (
        counted.join(entries, entries.c.id == counted.c.entry_id)
        .join(environments, environments.c.id == counted.c.environment_id)
        .outerjoin(owner, (owner.c.environment_id == counted.c.environment_id) & (owner.c.module == entries.c.module))
    )


def tally(selection: Selection, environment_ids: list[int]) -> sa.Subquery:
    """How many votes does each config of each entry have in each environment? The only pass over all votes."""
    cast = ballots(selection)
    columns = (cast.c.entry_id, cast.c.config_id)
    measures = [sa.func.count().label("n")]
    return _counted_by_environment(cast, columns, measures, selection, environment_ids).subquery("tally")


def candidate_set_tally(selection: Selection, environment_ids: list[int], *, has_shares: bool) -> sa.Select[Any]:
    """How many recordings chose an entry's config from which set of candidates, and which of them is the newest?

    Columns: entry_id, fingerprint, environment_id, n, newest (recording id).

    Args:
        selection: Which recordings count.
        environment_ids: Their environments.
        has_shares: Whether ranks timed shares of the candidates. The set of a share says nothing about the kernel's.
    """
    columns = (candidate_sets.c.entry_id, candidate_sets.c.fingerprint)
    measures = [sa.func.count().label("n"), sa.func.max(candidate_sets.c.recording_id).label("newest")]
    query = _counted_by_environment(candidate_sets, columns, measures, selection, environment_ids)
    if not has_shares:
        return query
    share = sa.exists().where(
        observations.c.recording_id == candidate_sets.c.recording_id,
        observations.c.entry_id == candidate_sets.c.entry_id,
        observations.c.reason == IN_SHARE,
    )
    return query.where(~share)


def _counted_by_environment(
    table: sa.FromClause,
    columns: tuple[sa.ColumnElement[Any], ...],
    measures: list[sa.Label[int]],
    selection: Selection,
    environment_ids: list[int],
) -> sa.Select[Any]:
    """Rows of counting recordings, grouped by `columns` and environment.

    Usually all rows come from one environment, and all of them count. Then the index delivers them in GROUP BY order,
    and nothing is sorted or joined: the recordings that do not count are a short list to skip. Several environments
    need a join with their recordings.
    """
    counting = counting_recordings(selection).subquery("counting")
    if len(environment_ids) == 1 and not selection.curated:
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


def voters_by_kernel(selection: Selection) -> sa.Select[Any]:
    """How many counting recordings have a vote on each kernel? Columns: arch, kernel, ranks."""
    counting = counting_recordings(selection).subquery("counting")
    cast = ballots(selection)
    voters = (
        sa.select(entries.c.arch, entries.c.kernel, cast.c.recording_id)
        .select_from(
            cast.join(counting, counting.c.id == cast.c.recording_id).join(entries, entries.c.id == cast.c.entry_id)
        )
        .distinct()
    )
    if selection.packages:
        owner = environment_modules
        owned = (owner.c.environment_id == counting.c.environment_id) & (owner.c.module == entries.c.module)
        voters = voters.outerjoin(owner, owned).where(*of_packages(selection))
    chosen = entries_chosen(selection)
    found = (voters if chosen is None else voters.where(cast.c.entry_id.in_(chosen))).subquery("voters")
    return sa.select(found.c.arch, found.c.kernel, sa.func.count().label("ranks")).group_by(
        found.c.arch, found.c.kernel
    )


def who_voted(selection: Selection, entry_ids: Iterable[int]) -> sa.Select[Any]:
    """Which recordings chose which config of these entries, whether they count or not?

    Of the selection, only whether curated choices count as votes is used. Columns: entry_id, config_id, recording ids
    as one text, since there may be millions. They are grouped as the table is sorted, so that no database sorts.
    """
    cast = ballots(selection)
    choice = (cast.c.entry_id, cast.c.config_id)
    ids = sa.func.aggregate_strings(sa.cast(cast.c.recording_id, sa.Text), ",")
    return sa.select(*choice, ids).where(cast.c.entry_id.in_(list(entry_ids))).group_by(*choice)


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
        .where(entries.c.arch == selection.arch, *of_packages(selection))
        .distinct()
        .order_by(votes.c.recording_id)
    )
