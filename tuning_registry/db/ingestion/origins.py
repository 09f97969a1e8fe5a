"""Writing where choices come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuning_registry.db import schema
from tuning_registry.db.ingestion.pending import Curated, Environment
from tuning_registry.db.writing import Writing


def insert_origins(
    transaction: Writing, stated: Sequence[Curated], environments: Mapping[Environment, int], now: str
) -> dict[str, int]:
    """Ids of origins by digest; inserts those that are new."""
    rows = {
        one.digest: {
            "tool": one.origin.tool,
            "project": one.origin.project,
            "version": one.origin.version,
            "source": one.source,
            "file": one.origin.file,
            "environment_id": environments[one.environment],
            "choices_digest": one.choices_digest,
            "choice_count": len(one.choices),
            "ingested_at": now,
            "superseded_at": schema.CURRENT,
        }
        for one in stated
    }
    ids, _ = transaction.insert_missing(schema.origins, rows)
    return ids
