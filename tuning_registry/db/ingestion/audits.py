"""Writing the audits of recordings; ranks that found the same share a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tuning_registry.db import queries, schema
from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.ingestion.plan import Growth
from tuning_registry.db.writing import Writing
from tuning_registry.model.audits import AuditedEntry, pack_results
from tuning_registry.model.canonical import dump_json, text_digest

# Recording id, number of the entry in the batch, and what was found.
Audited = Sequence[tuple[int, int, AuditedEntry]]


def audits_to_write(
    transaction: Writing, batch: Batch, ids: Mapping[str, Mapping[int, int]], grown: Iterable[Growth]
) -> Audited:
    """The audits of recordings that are written, without those that an earlier state of the recording has.

    Args:
        transaction: Holds the write lock.
        batch: The recordings.
        ids: Recording ids by kind of content and position.
        grown: Recordings of which a part is there already.
    """
    if not batch.audits:
        return []
    by_position = {position: identity for of_kind in ids.values() for position, identity in of_kind.items()}
    later = [by_position[one.position] for one in grown]
    held = {(row["recording_id"], row["digest"]) for row in transaction.chunked(queries.audits.entries_held, later)}
    return [
        (by_position[position], entry, audited)
        for position, entries in batch.audits.items()
        if position in by_position
        for entry, audited in entries
        if (by_position[position], batch.entry_digest(entry)) not in held
    ]


def insert_audits(transaction: Writing, audits: Audited, entry_ids: Mapping[int, int]) -> None:
    """Insert audits.

    Args:
        transaction: Holds the write lock.
        audits: From `audits_to_write`.
        entry_ids: Ids of the entries, by number in the batch.
    """
    found = {_digest_of(audited): audited for _, _, audited in audits}
    configs = transaction.insert_configs({one.config for audited in found.values() for one in audited.candidates})
    blocks, _ = transaction.insert_missing(
        schema.audit_blocks, {digest: _columns(audited, configs) for digest, audited in found.items()}
    )
    rows = [
        {"entry_id": entry_ids[entry], "recording_id": recording, "block_id": blocks[_digest_of(audited)]}
        for recording, entry, audited in audits
    ]
    transaction.insert_many(schema.audits, rows)


def _columns(audited: AuditedEntry, configs: Mapping[str, int]) -> dict[str, Any]:
    return {
        "skipped": audited.skipped,
        "inputs": audited.inputs,
        "is_seeded": audited.is_seeded,
        "results": pack_results(audited.candidates, configs),
    }


def _digest_of(audited: AuditedEntry) -> str:
    return text_digest(
        dump_json([audited.skipped, audited.inputs, audited.is_seeded, [list(one) for one in audited.candidates]])
    )
