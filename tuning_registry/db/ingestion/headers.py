"""Writing the headers of recordings: their runs, environments, hardware and sources, and one row for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from tuning_registry.db import packing, queries, schema
from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.ingestion.origins import insert_origins
from tuning_registry.db.ingestion.pending import KINDS, Curated, Environment, Pending
from tuning_registry.db.ingestion.plan import Files, IngestPlan
from tuning_registry.db.writing import Writing
from tuning_registry.formats.audits import without_audits
from tuning_registry.model.canonical import dump_json, text_digest
from tuning_registry.model.records import Hardware

_NO_HARDWARE = Hardware()


def write_headers(transaction: Writing, batch: Batch, plan: IngestPlan, now: str) -> dict[str, dict[int, int]]:
    """Insert the new recordings, and note the new content of others.

    Returns:
        Recording ids of the files whose content is to be written, by kind and position.
    """
    pending = batch.pending
    used = {p for files in (*plan.inserts.values(), *plan.completes.values()) for p in files.values()}
    used |= {one.position for one in plan.grows.values()} | plan.inserts.keys()
    facts = _Facts(transaction, batch, [pending[position] for position in sorted(used)], now)
    new = _insert_recordings(transaction, pending, plan.inserts, facts, now)
    ids: dict[str, dict[int, int]] = {kind: {} for kind in KINDS}
    grown = {identity: dict.fromkeys(KINDS, one.position) for identity, one in plan.grows.items()}
    for identity, files in [*zip(new, plan.inserts.values(), strict=True), *plan.completes.items(), *grown.items()]:
        for kind, position in files.items():
            ids[kind][position] = identity
    for identity, files in plan.completes.items():
        _update(transaction, identity, _digest_columns(pending, files))
    for identity, one in plan.grows.items():
        record = pending[one.position]
        transaction.delete_replaced(identity, one.retracted, timings=one.replaces_timings)
        if one.replaces_timings:
            packing.take_out(transaction, [identity])
        _update(transaction, identity, {f"{kind}_digest": digest for kind, digest in record.digests.items()})
        _update(transaction, identity, facts.of(record))
    return ids


class _Facts:
    """The columns that state what a header states, for some recordings; equal facts share rows."""

    def __init__(self, transaction: Writing, batch: Batch, pending: Sequence[Pending], now: str) -> None:
        self._environments = insert_environments(transaction, batch, pending)
        origins = [one for one in map(_origin_of, pending) if one is not None]
        self._origins = insert_origins(transaction, origins, self._environments, now)
        self._hardware = _insert_hardware(transaction, {record.header.hardware for record in pending})
        self._sources = _insert_sources(transaction, [record.header.sources for record in pending])

    def of(self, record: Pending) -> dict[str, Any]:
        """The columns of one recording."""
        header = record.header
        extra = without_audits(header.extra)  # these have their own tables
        origin = _origin_of(record)
        return {
            "environment_id": self._environments[record.environment],
            "world_size": header.world_size,
            "host": header.host,
            "device_name": header.device_name,
            "device_arch": header.device_arch,
            "multiprocessor_count": header.multiprocessor_count,
            "source": header.source or "",
            "process_id": header.id,
            "attempt": header.attempt,
            "local_rank": header.local_rank,
            "device_uuid": header.device_uuid,
            "source_set_id": self._sources.get(_digest_of(header.sources)),
            "hardware_id": self._hardware.get(header.hardware),
            "extra": dump_json(extra) if extra else None,
            "origin_id": None if origin is None else self._origins[origin.digest],
        }


def _origin_of(record: Pending) -> Curated | None:
    """Whose file a recording was read from, without the file, so that the ranks of a run share a row."""
    if record.origin is None:
        return None
    origin = dataclasses.replace(record.origin, file="")
    return Curated("", origin, record.header.source or "", record.environment, (), "")


def _update(transaction: Writing, identity: int, values: Mapping[str, Any]) -> None:
    table = schema.recordings
    transaction.connection.execute(sa.update(table).where(table.c.id == identity).values(values))


def _digest_columns(pending: Sequence[Pending], files: Files) -> dict[str, str]:
    return {f"{kind}_digest": pending[position].digests[kind] for kind, position in files.items()}


def _insert_recordings(
    transaction: Writing, pending: Sequence[Pending], inserts: Mapping[int, Files], facts: _Facts, now: str
) -> list[int]:
    """Insert recordings as their first files describe them; their ids, in the same order."""
    runs = _insert_runs(transaction, [pending[position] for position in inserts])
    rows = [
        {
            "run_id": runs[pending[position].identity[0]],
            "rank": pending[position].identity[1],
            **dict.fromkeys(f"{kind}_digest" for kind in KINDS),
            **_digest_columns(pending, files),
            **facts.of(pending[position]),
            "ingested_at": now,
            "superseded_at": schema.CURRENT,
        }
        for position, files in inserts.items()
    ]
    return transaction.insert_returning_ids(schema.recordings, rows)


def _insert_runs(transaction: Writing, pending: Sequence[Pending]) -> dict[str, int]:
    named = {record.identity[0]: record.is_named for record in pending}
    found = transaction.chunked(queries.recordings.runs_by_name, sorted(named))
    ids = {row["name"]: row["id"] for row in found}
    missing = sorted(named.keys() - ids.keys())
    rows = [{"name": name, "is_named": named[name]} for name in missing]
    new = transaction.insert_returning_ids(schema.recorded_runs, rows)
    return {**ids, **dict(zip(missing, new, strict=True))}


def insert_environments(
    transaction: Writing, batch: Batch, pending: Sequence[Pending | Curated]
) -> dict[Environment, int]:
    """Ids of the environments of recordings; inserts those that are new, and the owners of their modules."""
    wanted = {record.environment.digest: record.environment for record in pending}
    rows = {digest: {"triton": e.triton, "packages": e.packages, "modules": e.modules} for digest, e in wanted.items()}
    ids, _ = transaction.insert_missing(schema.environments, rows)
    by_environment = {environment: ids[digest] for digest, environment in wanted.items()}
    known = set(transaction.bulk(queries.environments.modules_known(ids.values())))
    owners = [
        {"environment_id": identity, "module": module, "package": package, "version": version}
        for environment, identity in by_environment.items()
        for module, (package, version) in sorted(batch.owners[environment].items())
        if (identity, module) not in known
    ]
    transaction.insert_many(schema.environment_modules, owners)
    return by_environment


def _insert_hardware(transaction: Writing, stated: Iterable[Hardware]) -> dict[Hardware, int]:
    """Ids of the hardware that recordings state; inserts what is new."""
    rows = {one: dataclasses.asdict(one) for one in stated if one != _NO_HARDWARE}
    digests = {one: text_digest(dump_json(row)) for one, row in rows.items()}
    ids, _ = transaction.insert_missing(schema.hardware, {digests[one]: row for one, row in rows.items()})
    return {one: ids[digest] for one, digest in digests.items()}


def _insert_sources(transaction: Writing, stated: Iterable[Mapping[str, str]]) -> dict[str, int]:
    """Ids of sets of sources by digest; inserts those that are new, with their kernels."""
    sets = {_digest_of(sources): sources for sources in stated if sources}
    known = {row["digest"] for row in transaction.chunked(_sets_known, sorted(sets))}
    ids, _ = transaction.insert_missing(schema.source_sets, {digest: {} for digest in sets})
    rows = [
        {"source_set_id": ids[digest], "kernel_digest": text_digest(kernel), "kernel": kernel, "source": source}
        for digest, sources in sets.items()
        if digest not in known
        for kernel, source in sorted(sources.items())
    ]
    transaction.insert_many(schema.kernel_sources, rows)
    return ids


def _sets_known(digests: Sequence[str]) -> sa.Select[Any]:
    return queries.tables.ids_by_digest(schema.source_sets, digests)


def _digest_of(sources: Mapping[str, str]) -> str:
    """Identity of a set of sources."""
    return text_digest(dump_json(dict(sources)))
