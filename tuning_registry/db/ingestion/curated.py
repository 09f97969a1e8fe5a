"""Writing curated choices: those of files that somebody committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuning_registry.db import schema
from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.ingestion.headers import insert_environments
from tuning_registry.db.ingestion.origins import insert_origins
from tuning_registry.db.ingestion.pending import Curated
from tuning_registry.db.ingestion.rows import insert_configs, insert_entries
from tuning_registry.db.writing import Writing
from tuning_registry.errors import RegistryError


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratedPlan:
    """What of the curated choices of a batch to write.

    Attributes:
        inserts: Files that are new, or that hold other choices than before.
        revives: Ids of origins of which an earlier state counts again.
        supersedes: Ids of origins that no longer count.
        already: Number of files that the database holds.
        withdrawn: Number of files that were withdrawn, and stay so.
        refused: Why files were left out.
    """

    inserts: Sequence[Curated] = ()
    revives: Sequence[int] = ()
    supersedes: Sequence[int] = ()
    already: int = 0
    withdrawn: int = 0
    refused: Sequence[RegistryError] = ()

    @property
    def choices(self) -> int:
        """Number of choices that are written."""
        return sum(len(one.choices) for one in self.inserts)


def write_curated(transaction: Writing, batch: Batch, plan: CuratedPlan, now: str) -> int:
    """Carry out a plan; the number of entries that were new."""
    transaction.supersede(plan.supersedes, now, schema.origins)
    transaction.revive(plan.revives)
    if not plan.inserts:
        return 0
    environments = insert_environments(transaction, batch, plan.inserts)
    origins = insert_origins(transaction, plan.inserts, environments, now)
    chosen = {entry for one in plan.inserts for entry, _ in one.choices}
    entries, new = insert_entries(transaction, batch, chosen, is_recorded=False)
    configs = insert_configs(transaction, batch, {config for one in plan.inserts for _, config in one.choices})
    rows = sorted(
        (entries[entry], origins[one.digest], configs[config]) for one in plan.inserts for entry, config in one.choices
    )
    columns = ("entry_id", "origin_id", "config_id")
    transaction.insert_many(schema.curated_choices, [dict(zip(columns, row, strict=True)) for row in rows])
    return new
