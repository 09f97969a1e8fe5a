"""Questions about the content of one recording. Its rows are found by their key: tables are clustered by entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from tuning_registry.db.schema import candidate_sets, observations, timings, votes


def votes_held(recording_id: int, choices: Sequence[tuple[int, int]]) -> sa.Select[Any]:
    """Which of these choices, entry and config, did a recording vote for? Column: entry_id."""
    return sa.select(votes.c.entry_id).where(
        sa.tuple_(votes.c.entry_id, votes.c.config_id).in_(list(choices)), votes.c.recording_id == recording_id
    )


def timings_held(recording_id: int, candidates: Sequence[tuple[int, int]]) -> sa.Select[Any]:
    """Which of these candidates, entry and config, did a recording time?

    Columns: entry_id, config_id, median_ms, p20_ms, p80_ms.
    """
    return sa.select(
        timings.c.entry_id, timings.c.config_id, timings.c.median_ms, timings.c.p20_ms, timings.c.p80_ms
    ).where(
        sa.tuple_(timings.c.entry_id, timings.c.config_id).in_(list(candidates)),
        timings.c.recording_id == recording_id,
    )


def sets_held(recording_id: int, stated: Sequence[tuple[int, str]]) -> sa.Select[Any]:
    """Which of these candidate sets, entry and fingerprint, does a recording state? Columns: entry_id, fingerprint."""
    return sa.select(candidate_sets.c.entry_id, candidate_sets.c.fingerprint).where(
        sa.tuple_(candidate_sets.c.entry_id, candidate_sets.c.fingerprint).in_(list(stated)),
        candidate_sets.c.recording_id == recording_id,
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
