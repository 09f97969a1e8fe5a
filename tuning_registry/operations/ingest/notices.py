"""What an ingest warns of: different code, too many keys, configs and names that look alike."""

from __future__ import annotations

from typing import Final

from tuning_registry.db import queries
from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.reading import in_chunks
from tuning_registry.db.store import Store
from tuning_registry.model.selection import Selection
from tuning_registry.operations.mixed_code import find_mixed_code
from tuning_registry.rules.spellings import alike

MANY_KEYS: Final = 10_000  # keys of one kernel; more of them are rarely keys that a table can serve


def find_other_sources(store: Store, batch: Batch) -> dict[str, list[str]]:
    """Kernels whose sources differ between ranks of a run of the batch, by run: these ranks ran different things."""
    runs = sorted({record.identity[0] for record in batch.pending if record.header.sources})
    if not runs:
        return {}
    found: dict[str, list[str]] = {}
    with store.reading() as reading:
        for part in in_chunks(runs):
            for mixed in find_mixed_code(reading, Selection(runs=tuple(part))):
                found.setdefault(mixed.run, []).append(mixed.kernel)
    return found


def find_many_keys(store: Store) -> list[tuple[str, str, int]]:
    """Architecture, name and number of keys of every kernel that has more than `MANY_KEYS`."""
    with store.reading() as reading:
        rows = reading.rows(queries.entries.with_many_keys(MANY_KEYS))
    return [(row["arch"], row["kernel"], int(row["number"])) for row in rows]


def find_look_alikes(batch: Batch) -> list[str]:
    """Kernels of the batch whose names have characters outside ASCII: other names may look the same."""
    return sorted({kernel for _, kernel, _ in batch.entries if not kernel.isascii()})


def find_spellings(batch: Batch) -> list[tuple[str, ...]]:
    """Groups of configs that some entry of the batch got votes for and that Triton cannot tell apart."""
    chosen: dict[int, set[str]] = {}
    for entry, config in batch.votes:
        chosen.setdefault(entry, set()).add(batch.configs[config])
    groups = {group for texts in chosen.values() if len(texts) > 1 for group in alike(texts)}
    return sorted(groups)
