"""Writing an ingest: what is new of a batch, as its plan says."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from tuning_registry.db import dialects, queries, schema
from tuning_registry.db.batch import KINDS, Batch, Environment, Pending, TimedEntry
from tuning_registry.db.writing import Writing
from tuning_registry.errors import RegistryError
from tuning_registry.model.canonical import text_digest
from tuning_registry.model.names import lookup_key, top_module

V = TypeVar("V", int, str)
# Positions in `Batch.pending`, by the kind of content that the file at each gives a recording.
Files = Mapping[str, int]
# Recording ids by position in `Batch.pending`.
Ids = Mapping[int, int]

_GROUPS: Final = 100  # choices sent at a time, of up to all recordings each: a bound on memory
_TIMING_ROWS: Final = 50_000  # sent at a time: a bound on memory


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """What of a batch to write, decided under the write lock.

    Attributes:
        inserts: New recordings: position of the first file -> the files of its content.
        completes: Recordings that the database has: id -> the files of the content that it lacks.
        supersedes: Ids of recordings that no longer count, because new ones take their place.
        refused: Why files were left out.
        withdrawn: Number of recordings left out because their run is withdrawn.
        already: Number of recordings that the database holds completely.
        same_content: Number of copies that count, by the name of the other run.
    """

    inserts: Mapping[int, Files]
    completes: Mapping[int, Files]
    supersedes: Sequence[int] = ()
    refused: Sequence[RegistryError] = ()
    withdrawn: int = 0
    already: int = 0
    same_content: Mapping[str, int]

    def files_of(self, kind: str) -> list[int]:
        """Positions of the files whose content of one kind is written."""
        targets = [*self.inserts.values(), *self.completes.values()]
        return sorted(files[kind] for files in targets if kind in files)


def write_plan(transaction: Writing, batch: Batch, plan: IngestPlan, now: str) -> int:
    """Carry out a plan.

    Args:
        transaction: The one that the plan was made in.
        batch: The recordings.
        plan: What to do with them.
        now: Time of the ingest, UTC, ISO 8601.

    Returns:
        The number of entries that were new.
    """
    transaction.supersede(plan.supersedes, now)
    if not plan.inserts and not plan.completes:
        return 0
    return _Ingestion(transaction, batch, _place_recordings(transaction, batch, plan, now)).write()


class _Ingestion:
    """The content of recordings that have their ids.

    Args:
        transaction: Holds the write lock.
        batch: The content, under the batch's own numbers.
        ids: Recording ids of the files whose content is written, by kind.
    """

    def __init__(self, transaction: Writing, batch: Batch, ids: Mapping[str, Ids]) -> None:
        voting, observing, timing = (ids[kind] for kind in KINDS)
        self._transaction = transaction
        self._batch = batch
        self._voting, self._observing, self._timing = voting, observing, timing
        self._choices = [choice for choice, positions in batch.votes.items() if _any_in(positions, voting)]
        self._sets = [stated for stated, positions in batch.candidate_sets.items() if _any_in(positions, timing)]
        self._timed = [(place[0], one) for place, one in batch.timings.items() if _any_in(one.positions, timing)]
        self._observed = [row for row in batch.observations if row[0] in observing]
        self._entry_ids: dict[int, int] = {}
        self._config_ids: dict[int, int] = {}

    def write(self) -> int:
        """Insert everything; the number of entries that were new."""
        new_entries = self._insert_entries()
        self._insert_configs()
        self._insert_votes()
        self._insert_observations()
        self._insert_candidate_sets()
        self._insert_timings()
        return new_entries

    def _insert_entries(self) -> int:
        numbers = {entry for entry, _ in [*self._choices, *self._sets, *self._timed]}
        numbers |= {entry for _, entry, _, _ in self._observed}
        rows: dict[str, dict[str, Any]] = {}
        digests: dict[int, str] = {}
        for number in sorted(numbers):
            arch, kernel, key = self._batch.entries[number]
            digest = digests[number] = text_digest(f"{arch}\0{kernel}\0{key}")
            rows[digest] = {"arch": arch, "kernel": kernel, "key": key,
                            "lookup_key": lookup_key(key), "module": top_module(kernel)}  # fmt: skip
        ids, new = self._transaction.insert_missing(schema.entries, rows)
        self._entry_ids = {number: ids[digest] for number, digest in digests.items()}
        return new

    def _insert_configs(self) -> None:
        numbers = {config for _, config in self._choices}
        numbers |= {config for _, timed in self._timed for config in timed.configs}
        numbers |= {config for _, _, config, _ in self._observed if config is not None}
        texts = self._batch.configs
        ids = self._transaction.insert_configs([texts[number] for number in numbers])
        self._config_ids = {number: ids[texts[number]] for number in numbers}

    def _insert_votes(self) -> None:
        entries, configs, votes = self._entry_ids, self._config_ids, self._batch.votes
        groups = sorted((entries[entry], configs[config], votes[entry, config]) for entry, config in self._choices)
        self._insert_groups(schema.votes, ("entry_id", "config_id"), groups, self._voting)
        rows = [
            {"recording_id": identity, "arch": arch, "vote_count": count}
            for position, identity in self._voting.items()
            for arch, count in self._batch.pending[position].vote_counts.items()
        ]
        self._transaction.insert_many(schema.recording_archs, rows)

    def _insert_candidate_sets(self) -> None:
        entries, sets = self._entry_ids, self._batch.candidate_sets
        groups = sorted((entries[entry], text, sets[entry, text]) for entry, text in self._sets)
        self._insert_groups(schema.candidate_sets, ("entry_id", "fingerprint"), groups, self._timing)

    def _insert_observations(self) -> None:
        rows = [
            {"recording_id": self._observing[position], "entry_id": self._entry_ids[entry], "reason": reason,
             "config_id": None if config is None else self._config_ids[config]}
            for position, entry, config, reason in self._observed
        ]  # fmt: skip
        self._transaction.insert_many(schema.observations, rows)

    def _insert_groups(
        self, table: sa.Table, columns: tuple[str, str], groups: Sequence[tuple[int, V, array[int]]], ids: Ids
    ) -> None:
        """Insert one row for every position of a group that has a recording id, some groups at a time."""
        for start in range(0, len(groups), _GROUPS):
            part = groups[start : start + _GROUPS]
            rows = [(entry, value, [ids[p] for p in positions if p in ids]) for entry, value, positions in part]
            dialects.insert_unrolled(self._transaction.connection, table, columns, rows)

    def _insert_timings(self) -> None:
        """Insert the rows in the order of their key, a bounded number at a time."""
        rows = self._timing_rows()
        while part := list(itertools.islice(rows, _TIMING_ROWS)):
            dialects.insert_timings(self._transaction.connection, part)

    def _timing_rows(self) -> Iterator[tuple[Any, ...]]:
        """Entry, config and recording id, median, 20th and 80th percentile in ms."""
        timed: Sequence[tuple[int, TimedEntry]] = self._timed
        in_order = sorted(
            (self._entry_ids[entry], self._config_ids[config], number, place)
            for number, (entry, one) in enumerate(timed)
            for place, config in enumerate(one.configs)
        )
        ids = [[self._timing.get(position) for position in one.positions] for _, one in timed]
        rows = itertools.chain.from_iterable(
            zip(itertools.repeat(entry), itertools.repeat(config), ids[number], *timed[number][1].columns_of(place))
            for entry, config, number, place in in_order
        )
        return filter(_has_recording, rows) if any(None in some for some in ids) else rows


def _has_recording(row: tuple[Any, ...]) -> bool:
    return row[2] is not None


def _any_in(positions: array[int], ids: Ids) -> bool:
    return any(position in ids for position in positions)


def _place_recordings(transaction: Writing, batch: Batch, plan: IngestPlan, now: str) -> dict[str, dict[int, int]]:
    """Insert the new recordings and note the new content of others; recording ids by kind and position."""
    pending = batch.pending
    used = sorted({p for files in (*plan.inserts.values(), *plan.completes.values()) for p in files.values()})
    environments = _insert_environments(transaction, batch, [pending[position] for position in used])
    new = _insert_recordings(transaction, pending, plan.inserts, environments, now)
    ids: dict[str, dict[int, int]] = {kind: {} for kind in KINDS}
    for identity, files in [*zip(new, plan.inserts.values(), strict=True), *plan.completes.items()]:
        for kind, position in files.items():
            ids[kind][position] = identity
    table = schema.recordings
    for identity, files in plan.completes.items():
        transaction.connection.execute(
            sa.update(table).where(table.c.id == identity).values(_digest_columns(pending, files))
        )
    return ids


def _digest_columns(pending: Sequence[Pending], files: Files) -> dict[str, str]:
    return {f"{kind}_digest": pending[position].digests[kind] for kind, position in files.items()}


def _insert_recordings(
    transaction: Writing,
    pending: Sequence[Pending],
    inserts: Mapping[int, Files],
    environments: Mapping[Environment, int],
    now: str,
) -> list[int]:
    """Insert recordings as their first files describe them; their ids, in the same order."""
    runs = _insert_runs(transaction, [pending[position] for position in inserts])
    rows = []
    for position, files in inserts.items():
        record = pending[position]
        row = {
            "run_id": runs[record.identity[0]],
            "rank": record.identity[1],
            "environment_id": environments[record.environment],
            **dict.fromkeys(f"{kind}_digest" for kind in KINDS),
            **_digest_columns(pending, files),
            "world_size": record.header.world_size,
            "host": record.header.host,
            "device_name": record.header.device_name,
            "device_arch": record.header.device_arch,
            "multiprocessor_count": record.header.multiprocessor_count,
            "source": record.header.source or "",
            "ingested_at": now,
            "superseded_at": schema.CURRENT,
        }
        rows.append(row)
    return transaction.insert_returning_ids(schema.recordings, rows)


def _insert_runs(transaction: Writing, pending: Sequence[Pending]) -> dict[str, int]:
    named = {record.identity[0]: record.is_named for record in pending}
    found = transaction.chunked(queries.recordings.runs_by_name, sorted(named))
    ids = {row["name"]: row["id"] for row in found}
    missing = sorted(named.keys() - ids.keys())
    rows = [{"name": name, "is_named": named[name]} for name in missing]
    new = transaction.insert_returning_ids(schema.recorded_runs, rows)
    return {**ids, **dict(zip(missing, new, strict=True))}


def _insert_environments(transaction: Writing, batch: Batch, pending: Sequence[Pending]) -> dict[Environment, int]:
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
