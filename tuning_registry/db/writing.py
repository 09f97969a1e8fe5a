"""The writes of one transaction, on top of its reads."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa

from tuning_registry.db import dialects, queries, schema
from tuning_registry.db.batch import KINDS, Batch, Environment, Pending, TimedEntry
from tuning_registry.db.reading import Reading, in_chunks
from tuning_registry.model.canonical import text_digest
from tuning_registry.model.names import lookup_key, top_module

V = TypeVar("V", int, str)
GROUPS = 100  # choices sent at a time, of up to all recordings each: a bound on memory
TIMING_ROWS = 50_000  # sent at a time: a bound on memory


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a recording of a batch goes.

    Attributes:
        kinds: What of it is inserted; the rest is there already.
        recording_id: The recording that the database has and that is completed; None for a new one.
        beside: Position of the new recording of the same (run, rank) that this one completes.
    """

    kinds: frozenset[str]
    recording_id: int | None = None
    beside: int | None = None


class Writing(Reading):
    """Reading, plus the writes of one transaction.

    Args:
        connection: Holds the write lock.
        created: Whether this transaction has created the schema.
    """

    def __init__(self, connection: sa.Connection, *, created: bool) -> None:
        super().__init__(connection)
        self.created = created

    def insert_batch(self, batch: Batch, placements: Mapping[int, Placement], now: str) -> int:
        """Insert what a batch holds that the database does not.

        Args:
            batch: Parsed recordings.
            placements: By position in `batch.pending`: what of it to insert, and where.
            now: Time of the ingest, UTC, ISO 8601.

        Returns:
            The number of entries that were new.
        """
        if not placements:
            return 0
        ids = self._place_recordings(batch, placements, now)
        of_kind = {
            kind: {position: ids[position] for position, place in placements.items() if kind in place.kinds}
            for kind in KINDS
        }
        voting, observing, timing = (of_kind[kind] for kind in KINDS)
        choices = [choice for choice, positions in batch.votes.items() if _any_in(positions, voting)]
        sets = [stated for stated, positions in batch.candidate_sets.items() if _any_in(positions, timing)]
        timed = [(choice[0], found) for choice, found in batch.timings.items() if _any_in(found.positions, timing)]
        observations = [row for row in batch.observations if row[0] in observing]
        entry_ids, new_entries = self._insert_entries(
            batch,
            {entry for entry, _ in [*choices, *sets, *timed]} | {entry for _, entry, _, _ in observations},
        )
        config_ids = self._insert_configs(
            batch,
            {config for _, config in choices}
            | {config for _, found in timed for config in found.configs}
            | {config for _, _, config, _ in observations if config is not None},
        )
        chosen = ((entry_ids[entry], config_ids[config], batch.votes[entry, config]) for entry, config in choices)
        self._insert_groups(schema.votes, ("entry_id", "config_id"), sorted(chosen), voting)
        stated = ((entry_ids[entry], text, batch.candidate_sets[entry, text]) for entry, text in sets)
        self._insert_groups(schema.candidate_sets, ("entry_id", "fingerprint"), sorted(stated), timing)
        self._insert_many(
            schema.recording_archs,
            [
                {"recording_id": identity, "arch": arch, "vote_count": count}
                for position, identity in voting.items()
                for arch, count in batch.pending[position].vote_counts.items()
            ],
        )
        self._insert_many(
            schema.observations,
            [
                {"recording_id": ids[p], "entry_id": entry_ids[e], "reason": reason,
                 "config_id": None if c is None else config_ids[c]}
                for p, e, c, reason in observations
            ],
        )  # fmt: skip
        self._insert_timings(timed, timing, entry_ids, config_ids)
        return new_entries

    def _insert_groups(
        self,
        table: sa.Table,
        columns: tuple[str, str],
        groups: Sequence[tuple[int, V, array[int]]],
        ids: Mapping[int, int],
    ) -> None:
        """Insert one row for every position of a group that has a recording id, some groups at a time."""
        for start in range(0, len(groups), GROUPS):
            part = groups[start : start + GROUPS]
            rows = [(entry, value, [ids[p] for p in positions if p in ids]) for entry, value, positions in part]
            dialects.insert_unrolled(self.connection, table, columns, rows)

    def _insert_timings(
        self,
        timed: Sequence[tuple[int, TimedEntry]],
        recording_ids: Mapping[int, int],
        entry_ids: Mapping[int, int],
        config_ids: Mapping[int, int],
    ) -> None:
        """Insert the rows in the order of their key, a bounded number at a time."""
        in_order = sorted(
            (entry_ids[entry], config_ids[config], number, place)
            for number, (entry, found) in enumerate(timed)
            for place, config in enumerate(found.configs)
        )
        ids = [[recording_ids.get(position) for position in found.positions] for _, found in timed]
        rows = itertools.chain.from_iterable(
            zip(itertools.repeat(entry), itertools.repeat(config), ids[number], *timed[number][1].columns_of(place))
            for entry, config, number, place in in_order
        )
        new = filter(_is_placed, rows) if any(None in kept for kept in ids) else rows
        while part := list(itertools.islice(new, TIMING_ROWS)):
            dialects.insert_timings(self.connection, part)

    def _place_recordings(self, batch: Batch, placements: Mapping[int, Placement], now: str) -> dict[int, int]:
        """The recording id of every placement: new ones are inserted, to others the new kinds are noted."""
        fresh = [
            position for position, place in placements.items() if place.recording_id is None and place.beside is None
        ]
        pending = [batch.pending[position] for position in fresh]
        environments = self._insert_environments(batch, [batch.pending[position] for position in placements])
        digests = {position: dict(batch.pending[position].digests) for position in fresh}
        for position, place in placements.items():
            if place.beside is not None:
                digests[place.beside] |= {kind: batch.pending[position].digests[kind] for kind in place.kinds}
        inserted = self._insert_recordings(pending, list(digests.values()), environments, now)
        ids = dict(zip(fresh, inserted, strict=True))
        table = schema.recordings
        for position, place in placements.items():
            if place.beside is not None:
                ids[position] = ids[place.beside]
            elif place.recording_id is not None:
                ids[position] = place.recording_id
                added = {f"{kind}_digest": batch.pending[position].digests[kind] for kind in place.kinds}
                self.connection.execute(sa.update(table).where(table.c.id == place.recording_id).values(added))
        return ids

    def supersede(self, recording_ids: Sequence[int], now: str) -> None:
        """Mark recordings as replaced: kept, but no longer counted.

        The time is part of their identity, so it lies after that of all before, also where the clock stands
        still or went back.
        """
        if not recording_ids:
            return
        latest = self.connection.execute(sa.select(sa.func.max(schema.recordings.c.superseded_at))).scalar_one()
        if latest >= now:
            now = (dt.datetime.fromisoformat(latest) + dt.timedelta(microseconds=1)).isoformat(timespec="microseconds")
        for chunk in in_chunks(recording_ids):
            self.connection.execute(
                sa.update(schema.recordings).where(schema.recordings.c.id.in_(chunk)).values(superseded_at=now)
            )

    def set_withdrawn(self, run: str, withdrawn_at: str | None) -> None:
        """Withdraw a run, or restore it with None."""
        runs = schema.recorded_runs
        self.connection.execute(sa.update(runs).where(runs.c.name == run).values(withdrawn_at=withdrawn_at))

    def insert_override(self, event: Mapping[str, Any], config: str) -> int:
        """Append an override event on a config, given as its canonical text; the event's id."""
        (config_id,) = self._insert_texts([config]).values()
        return self._insert_returning_ids(schema.override_events, [{**event, "config_id": config_id}])[0]

    def insert_export(self, facts: Mapping[str, Any]) -> None:
        """Remember an exported table."""
        self.connection.execute(sa.insert(schema.exports).values(**facts))

    def _insert_many(self, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        if rows:
            self.connection.execute(sa.insert(table), rows)

    def _insert_returning_ids(self, table: sa.Table, rows: list[dict[str, Any]]) -> list[int]:
        if not rows:
            return []
        return dialects.insert_returning_ids(self.connection, table, rows)

    def _insert_missing(self, table: sa.Table, rows: dict[str, dict[str, Any]]) -> tuple[dict[str, int], int]:
        """Ids by digest of `rows`, inserting those that are not there; and how many were inserted.

        Sorted by digest. Nobody else writes meanwhile: the caller holds the write lock.
        """
        digests = sorted(rows)
        found = {
            row["digest"]: row["id"]
            for row in self.chunked(functools.partial(queries.tables.ids_by_digest, table), digests)
        }
        missing = [digest for digest in digests if digest not in found]
        inserted = self._insert_returning_ids(table, [{"digest": digest, **rows[digest]} for digest in missing])
        return {**found, **dict(zip(missing, inserted, strict=True))}, len(missing)

    def _insert_runs(self, pending: Sequence[Pending]) -> dict[str, int]:
        named = {record.identity[0]: record.is_named for record in pending}
        ids = {row["name"]: row["id"] for row in self.chunked(queries.recordings.runs_by_name, sorted(named))}
        missing = sorted(named.keys() - ids.keys())
        rows = [{"name": name, "is_named": named[name]} for name in missing]
        return {**ids, **dict(zip(missing, self._insert_returning_ids(schema.recorded_runs, rows), strict=True))}

    def _insert_environments(self, batch: Batch, pending: Sequence[Pending]) -> dict[Environment, int]:
        wanted = {record.environment.digest: record.environment for record in pending}
        rows = {
            digest: {"triton": e.triton, "packages": e.packages, "modules": e.modules} for digest, e in wanted.items()
        }
        ids, _ = self._insert_missing(schema.environments, rows)
        by_environment = {environment: ids[digest] for digest, environment in wanted.items()}
        owner = schema.environment_modules
        known = {
            (row.environment_id, row.module)
            for row in self.connection.execute(
                sa.select(owner.c.environment_id, owner.c.module).where(owner.c.environment_id.in_(ids.values()))
            )
        }
        self._insert_many(
            owner,
            [
                {"environment_id": identity, "module": module, "package": package, "version": version}
                for environment, identity in by_environment.items()
                for module, (package, version) in sorted(batch.owners[environment].items())
                if (identity, module) not in known
            ],
        )
        return by_environment

    def _insert_recordings(
        self,
        pending: Sequence[Pending],
        digests: Sequence[Mapping[str, str]],
        environments: Mapping[Environment, int],
        now: str,
    ) -> list[int]:
        runs = self._insert_runs(pending)
        rows = [
            {
                "run_id": runs[record.identity[0]],
                "rank": record.identity[1],
                "environment_id": environments[record.environment],
                **{f"{kind}_digest": held.get(kind) for kind in KINDS},
                "world_size": record.header.world_size,
                "host": record.header.host,
                "device_name": record.header.device_name,
                "device_arch": record.header.device_arch,
                "multiprocessor_count": record.header.multiprocessor_count,
                "source": record.header.source or "",
                "ingested_at": now,
                "superseded_at": schema.CURRENT,
            }
            for record, held in zip(pending, digests, strict=True)
        ]
        return self._insert_returning_ids(schema.recordings, rows)

    def _insert_entries(self, batch: Batch, used: set[int]) -> tuple[dict[int, int], int]:
        rows: dict[str, dict[str, Any]] = {}
        digests: dict[int, str] = {}
        for number in sorted(used):
            arch, kernel, key = batch.entries[number]
            digest = digests[number] = text_digest(f"{arch}\0{kernel}\0{key}")
            rows[digest] = {"arch": arch, "kernel": kernel, "key": key,
                            "lookup_key": lookup_key(key), "module": top_module(kernel)}  # fmt: skip
        ids, new = self._insert_missing(schema.entries, rows)
        return {number: ids[digest] for number, digest in digests.items()}, new

    def _insert_configs(self, batch: Batch, used: set[int]) -> dict[int, int]:
        ids = self._insert_texts([batch.configs[number] for number in used])
        return {number: ids[batch.configs[number]] for number in used}

    def _insert_texts(self, texts: Iterable[str]) -> dict[str, int]:
        """Ids of configs, inserting those that are not there."""
        digests = {text_digest(text): text for text in texts}
        ids, _ = self._insert_missing(schema.configs, {digest: {"text": text} for digest, text in digests.items()})
        return {text: ids[digest] for digest, text in digests.items()}


def _is_placed(row: tuple[Any, ...]) -> bool:
    return row[2] is not None


def _any_in(positions: array[int], ids: Mapping[int, int]) -> bool:
    return any(position in ids for position in positions)
