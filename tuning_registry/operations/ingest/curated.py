"""Deciding which curated choices of a batch are new: by tool, project, version and file."""

from __future__ import annotations

from tuning_registry.db import queries
from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.ingestion.curated import CuratedPlan
from tuning_registry.db.ingestion.pending import Curated
from tuning_registry.db.reading import Reading, Row
from tuning_registry.db.schema import CURRENT
from tuning_registry.errors import ConflictError, RegistryError


def plan_curated(transaction: Reading, batch: Batch, *, replace: bool = False, keep_going: bool = False) -> CuratedPlan:
    """What to insert and supersede so that the database holds the curated choices of a batch.

    Args:
        transaction: Holds the write lock.
        batch: The choices.
        replace: Whether a file with other choices supersedes the one in the database.
        keep_going: Whether a refused file is left out rather than raised.

    Raises:
        ConflictError: A file has other choices than the database or another file has for it.
    """
    if not batch.curated:
        return CuratedPlan()
    rows = transaction.rows(queries.origins.of_tools({one.origin.tool for one in batch.curated}))
    known = {row["digest"]: row for row in rows}
    newest: dict[tuple[str, ...], Row] = {
        (row["tool"], row["project"], row["version"], row["source"], row["file"], row["environment"]): row
        for row in transaction.rows(queries.origins.newest_states())
    }
    inserts: dict[tuple[str, ...], Curated] = {}
    revives: list[int] = []
    supersedes: list[int] = []
    refused: list[RegistryError] = []
    already = withdrawn = 0
    for one in batch.curated:
        other, old = inserts.get(one.place), newest.get(one.place)
        counts = old is not None and old["superseded_at"] == CURRENT
        if one.digest in {other.digest if other else None, old["digest"] if old else None}:
            is_withdrawn = other is None and not counts
            withdrawn, already = withdrawn + is_withdrawn, already + (not is_withdrawn)
        elif other is not None or (old is not None and not replace):
            error = _conflict(one, other)
            if not keep_going:
                raise error
            refused.append(error)
        else:
            supersedes += [old["id"]] if old is not None and counts else []
            if one.digest in known:
                revives.append(known[one.digest]["id"])
            else:
                inserts[one.place] = one
    return CuratedPlan(
        inserts=list(inserts.values()),
        revives=revives,
        supersedes=supersedes,
        already=already,
        withdrawn=withdrawn,
        refused=refused,
    )


def _conflict(one: Curated, other: Curated | None) -> ConflictError:
    if other is not None:
        return ConflictError(
            f"{one.file}: {other.file} has the same name but different choices; ingest one of them with "
            "--source TEXT or --package NAME=VERSION"
        )
    return ConflictError(
        f"{one.file}: the database has different choices for this file; use --replace to supersede them, or "
        "--source TEXT or --package NAME=VERSION to keep both"
    )
