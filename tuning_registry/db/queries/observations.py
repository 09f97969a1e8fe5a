"""Questions about observations."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tuning_registry.db.queries.selected import counting_recordings, entries_chosen
from tuning_registry.db.schema import entries, observations, recordings, votes
from tuning_registry.model.records import IN_SHARE, MISS_REASON
from tuning_registry.model.selection import Selection


def misses(selection: Selection) -> sa.Select[Any]:
    """Which entries did pinned launches miss, and has any rank voted on them by now?

    Columns: arch, kernel, key (the smallest of the spellings that Triton cannot tell apart), reason (as recorded),
    ranks (recordings that missed it), runs, recorded (whether a vote of any run and version counts on the entry).
    One row per entry and reason, in order.
    """
    counting = counting_recordings(selection).subquery("counting")
    shape = (entries.c.arch, entries.c.kernel, entries.c.lookup_key)
    missed = (
        sa.select(
            *shape,
            observations.c.reason,
            sa.func.min(entries.c.key).label("key"),
            sa.func.count(sa.distinct(recordings.c.id)).label("ranks"),
            sa.func.count(sa.distinct(recordings.c.run_id)).label("runs"),
        )
        .select_from(
            observations.join(counting, counting.c.id == observations.c.recording_id)
            .join(recordings, recordings.c.id == counting.c.id)
            .join(entries, entries.c.id == observations.c.entry_id)
        )
        # Not LIKE: SQLite's ignores case.
        .where(sa.func.substr(observations.c.reason, 1, len(MISS_REASON)) == MISS_REASON)
        .group_by(*shape, observations.c.reason)
    )
    chosen = entries_chosen(selection)
    if chosen is not None:
        missed = missed.where(entries.c.id.in_(chosen))
    found, voted = missed.subquery("missed"), _shapes_with_votes().subquery("voted")
    same = sa.and_(*(found.c[column.name] == voted.c[column.name] for column in shape))
    return (
        sa.select(found, voted.c.arch.is_not(None).label("recorded"))
        .select_from(found.outerjoin(voted, same))
        .order_by(found.c.arch, found.c.kernel, found.c.key, found.c.reason)
    )


def _shapes_with_votes() -> sa.Select[Any]:
    """Which arch, kernel and lookup key have a vote that counts? One lookup in the votes per entry."""
    counting = counting_recordings(Selection()).subquery("all_counting")
    has_votes = sa.exists().where(votes.c.entry_id == entries.c.id, votes.c.recording_id.in_(sa.select(counting.c.id)))
    return sa.select(entries.c.arch, entries.c.kernel, entries.c.lookup_key).where(has_votes).distinct()


def of_shares(selection: Selection) -> sa.Select[Any]:
    """Which counting recordings hold a rank's share of the timings of an entry?"""
    counting = counting_recordings(selection).subquery("counting")
    query = (
        sa.select(observations.c.recording_id)
        .join(counting, counting.c.id == observations.c.recording_id)
        .where(observations.c.reason == IN_SHARE)
        .distinct()
    )
    chosen = entries_chosen(selection)
    return query if chosen is None else query.where(observations.c.entry_id.in_(chosen))


def reasons_observed(selection: Selection) -> sa.Select[Any]:
    """How many recordings observed an entry without a vote, for each reason?

    Columns: arch, kernel, lookup_key, key, reason, n.
    """
    counting = counting_recordings(selection).subquery("counting")
    shape = (entries.c.arch, entries.c.kernel, entries.c.lookup_key)
    query = (
        sa.select(*shape, sa.func.min(entries.c.key).label("key"), observations.c.reason, sa.func.count().label("n"))
        .select_from(
            observations.join(counting, counting.c.id == observations.c.recording_id).join(
                entries, entries.c.id == observations.c.entry_id
            )
        )
        .group_by(*shape, observations.c.reason)
        .order_by(*shape, observations.c.reason)
    )
    chosen = entries_chosen(selection)
    return query if chosen is None else query.where(entries.c.id.in_(chosen))
