"""Questions about the content of one recording. Its rows are found by their key: tables are clustered by entry.

Pairs of an entry and another value are asked for as two lists, and the caller drops the combinations that it did not ask
for. For a list of pairs, SQLite would read the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import candidate_sets, observations, timings, votes


def votes_held(recording_id: int, choices: Sequence[tuple[int, int]]) -> sa.Select[Any]:
    """Which of these entries and configs did a recording vote for? Columns: entry_id, config_id."""
    return sa.select(votes.c.entry_id, votes.c.config_id).where(
        votes.c.entry_id.in_(sorted({entry for entry, _ in choices})),
        votes.c.config_id.in_(sorted({config for _, config in choices})),
        votes.c.recording_id == recording_id,
    )


def timings_held(recording_id: int, candidates: Sequence[tuple[int, int]]) -> sa.Select[Any]:
    """Which of these entries and configs did a recording time?

    Columns: entry_id, config_id, median_ms, p20_ms, p80_ms.
    """
    return sa.select(
        timings.c.entry_id, timings.c.config_id, timings.c.median_ms, timings.c.p20_ms, timings.c.p80_ms
    ).where(
        timings.c.entry_id.in_(sorted({entry for entry, _ in candidates})),
        timings.c.config_id.in_(sorted({config for _, config in candidates})),
        timings.c.recording_id == recording_id,
    )


def sets_held(recording_id: int, entry_ids: Sequence[int]) -> sa.Select[Any]:
    """Which candidate sets does a recording state on these entries? Columns: entry_id, fingerprint."""
    return sa.select(candidate_sets.c.entry_id, candidate_sets.c.fingerprint).where(
        candidate_sets.c.entry_id.in_(list(entry_ids)), candidate_sets.c.recording_id == recording_id
    )


def observations_of(recording_id: int) -> sa.Select[Any]:
    """What did a recording observe? Columns: entry_id, config_id, reason."""
    return sa.select(observations.c.entry_id, observations.c.config_id, observations.c.reason).where(
        observations.c.recording_id == recording_id
    )


def votes_on(recording_id: int, entry_ids: Sequence[int]) -> sa.Select[Any]:
    """On which of these entries did a recording vote? Column: entry_id."""
    return sa.select(votes.c.entry_id).where(
        votes.c.entry_id.in_(list(entry_ids)), votes.c.recording_id == recording_id
    )
