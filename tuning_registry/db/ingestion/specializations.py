"""Writing what winners need to be compiled; ranks that state the same share a row."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from tuning_registry.db import queries, schema
from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.writing import Writing
from tuning_registry.model.canonical import text_digest
from tuning_registry.model.specializations import Specialization

# Ids of recordings by number of the entry in the batch, config and specialization.
Compiled = Mapping[tuple[int, str, Specialization], set[int]]


def compiled_to_write(batch: Batch, ids: Mapping[str, Mapping[int, int]]) -> Compiled:
    """The compile data of recordings that are written.

    Args:
        batch: The recordings.
        ids: Recording ids by kind of content and position.
    """
    by_position = {position: identity for of_kind in ids.values() for position, identity in of_kind.items()}
    found = {
        row: {by_position[position] for position in positions if position in by_position}
        for row, positions in batch.compiled.items()
    }
    return {row: recordings for row, recordings in found.items() if recordings}


def insert_compiled(transaction: Writing, compiled: Compiled, entry_ids: Mapping[int, int]) -> None:
    """Insert the rows that are not there yet.

    Args:
        transaction: Holds the write lock.
        compiled: From `compiled_to_write`.
        entry_ids: Ids of the entries, by number in the batch.
    """
    if not compiled:
        return
    texts = {one: one.text for _, _, one in compiled}
    digests = {one: text_digest(text) for one, text in texts.items()}
    configs = transaction.insert_configs({config for _, config, _ in compiled})
    ids, _ = transaction.insert_missing(
        schema.specializations, {digests[one]: {"text": text} for one, text in texts.items()}
    )
    recordings = sorted(set(itertools.chain.from_iterable(compiled.values())))
    environments = {
        row["id"]: row["environment_id"]
        for row in transaction.chunked(queries.specializations.environments_of, recordings)
    }
    wanted = {
        (entry_ids[entry], configs[config], environments[recording], ids[digests[one]])
        for (entry, config, one), holders in compiled.items()
        for recording in holders
    }
    entries = sorted({row[0] for row in wanted})
    held = {tuple(row.values()) for row in transaction.chunked(queries.specializations.held_by, entries)}
    columns = ("entry_id", "config_id", "environment_id", "specialization_id")
    rows = [dict(zip(columns, row, strict=True)) for row in sorted(wanted - held)]
    transaction.insert_many(schema.entry_specializations, rows)
