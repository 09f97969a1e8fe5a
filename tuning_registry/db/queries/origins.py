"""Questions about where choices come from, and about curated choices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.queries.selected import current_origins, entries_chosen
from tuning_registry.db.schema import CURRENT, curated_choices, entries, environments, origins
from tuning_registry.model.selection import Selection


def of_tools(tools: Iterable[str]) -> sa.Select[Any]:
    """Which files of these tools are there, whether they count or not? `environment` is the digest of the environment."""
    return (
        sa.select(origins, environments.c.digest.label("environment"))
        .join(environments, environments.c.id == origins.c.environment_id)
        .where(origins.c.tool.in_(sorted(tools)))
    )


def of_files() -> sa.Select[Any]:
    """Which states of files with curated choices are there, whether they count or not? Columns of `origins`."""
    return sa.select(origins).where(origins.c.choice_count > 0)


def newest_states() -> sa.Select[Any]:
    """Which state of each file counts, or counted last? Columns of `origins`, and the digest of the environment.

    If no state of a file counts, the file was withdrawn: a state is superseded only when another one replaces it.
    """
    place = [origins.c[name] for name in ("tool", "project", "version", "source", "file", "environment_id")]
    newest = sa.func.row_number().over(
        partition_by=place, order_by=(origins.c.superseded_at != CURRENT, origins.c.superseded_at.desc())
    )
    states = sa.select(origins, newest.label("number")).where(origins.c.choice_count > 0).subquery("states")
    columns = [states.c[column.name] for column in origins.c]
    return (
        sa.select(*columns, environments.c.digest.label("environment"))
        .join(environments, environments.c.id == states.c.environment_id)
        .where(states.c.number == 1)
        .order_by(*columns[2:7])
    )


def current(selection: Selection) -> sa.Select[Any]:
    """Which files of curated choices count? Columns of `origins`, and triton; in order of project, version and file."""
    found = current_origins(selection).subquery("found")
    names = ("project", "tool", "version", "source", "file", "triton")
    return sa.select(found).order_by(*(found.c[name] for name in names))


def choices(selection: Selection) -> sa.Select[Any]:
    """Which config does each file that counts have for each entry?

    Columns: origin_id, entry_id, arch, device, kernel, key, config_id; entries in order.
    """
    found = current_origins(selection).subquery("found")
    chosen = curated_choices
    query = (
        sa.select(
            chosen.c.origin_id,
            chosen.c.entry_id,
            entries.c.arch,
            entries.c.device,
            entries.c.kernel,
            entries.c.key,
            chosen.c.config_id,
        )
        .select_from(
            chosen.join(found, found.c.id == chosen.c.origin_id).join(entries, entries.c.id == chosen.c.entry_id)
        )
        .order_by(entries.c.arch, entries.c.device, entries.c.kernel, entries.c.key, chosen.c.origin_id)
    )
    wanted = entries_chosen(selection)
    return query if wanted is None else query.where(chosen.c.entry_id.in_(wanted))


def choice_count() -> sa.Select[int]:
    """How many curated choices count?"""
    found = current_origins(Selection()).subquery("found")
    return sa.select(sa.func.coalesce(sa.func.sum(found.c.choice_count), 0))
