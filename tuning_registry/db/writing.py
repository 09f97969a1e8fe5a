"""The writes of one transaction, on top of its reads."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from tuning_registry.db import dialects, queries, schema
from tuning_registry.db.reading import Reading, in_chunks
from tuning_registry.model.canonical import text_digest
from tuning_registry.model.kinds import kind_of


class Writing(Reading):
    """Reading, plus the writes of one transaction.

    Args:
        connection: Holds the write lock.
        created: Whether this transaction has created the schema.
        check: Called once the lock is held, if it is taken late.
    """

    def __init__(
        self, connection: sa.Connection, *, created: bool, check: Callable[[sa.Connection], None] | None = None
    ) -> None:
        super().__init__(connection)
        self.created = created
        self._check = check

    def supersede(self, ids: Sequence[int], now: str, table: sa.Table = schema.recordings) -> None:
        """Mark recordings, or origins, as superseded: kept, but no longer counted.

        The time is part of their identity, so it must be later than every earlier one, even if the clock stood
        still or was set back.
        """
        if not ids:
            return
        latest = self.connection.execute(sa.select(sa.func.max(table.c.superseded_at))).scalar_one()
        if latest >= now:
            now = (dt.datetime.fromisoformat(latest) + dt.timedelta(microseconds=1)).isoformat(timespec="microseconds")
        for chunk in in_chunks(ids):
            self.connection.execute(sa.update(table).where(table.c.id.in_(chunk)).values(superseded_at=now))

    def mark_recorded(self, entry_ids: Sequence[int]) -> None:
        """Note that recordings name these entries, which only curated choices may have named before."""
        if not self.scalars(sa.select(schema.curated_choices.c.entry_id).limit(1)):
            return
        entries = schema.entries
        for chunk in in_chunks(entry_ids):
            wrong = entries.c.id.in_(chunk) & entries.c.is_recorded.is_(False)
            self.connection.execute(sa.update(entries).where(wrong).values(is_recorded=True))

    def revive(self, origin_ids: Sequence[int]) -> None:
        """Let superseded origins count again."""
        for chunk in in_chunks(origin_ids):
            self.connection.execute(
                sa.update(schema.origins).where(schema.origins.c.id.in_(chunk)).values(superseded_at=schema.CURRENT)
            )

    def delete_replaced(self, recording_id: int, retracted: Sequence[int], *, timings: bool) -> None:
        """Delete rows that a later state of a recording states anew: observations, counts of votes, and maybe timings.

        Args:
            recording_id: The recording.
            retracted: Ids of entries whose vote is deleted.
            timings: Whether timings and candidate sets are deleted.
        """
        votes = schema.votes
        for chunk in in_chunks(retracted):
            self.connection.execute(
                sa.delete(votes).where(votes.c.entry_id.in_(chunk), votes.c.recording_id == recording_id)
            )
        tables = [schema.observations, schema.recording_archs]
        for table in [*tables, schema.timings, schema.candidate_sets] if timings else tables:
            self.connection.execute(sa.delete(table).where(table.c.recording_id == recording_id))

    def set_withdrawn(self, table: sa.Table, ids: Sequence[int], withdrawn_at: str | None) -> None:
        """Withdraw runs or recordings, or restore them with None.

        Args:
            table: `recorded_runs` or `recordings`.
            ids: Of its rows.
            withdrawn_at: UTC, ISO 8601.
        """
        for chunk in in_chunks(ids):
            self.connection.execute(sa.update(table).where(table.c.id.in_(chunk)).values(withdrawn_at=withdrawn_at))

    def lock(self) -> None:
        """Take the write lock, in a transaction that has only claimed hand-ins so far (`Store.folding`).

        Raises:
            SchemaError: The schema was upgraded meanwhile.
            BusyError: Another process kept the lock.
        """
        dialects.take_write_lock(self.connection)
        if self._check is not None:
            self._check(self.connection)

    def delete_hand_ins(self, ids: Sequence[str]) -> None:
        """Delete hand-ins whose votes this transaction writes."""
        table = schema.hand_ins
        for chunk in in_chunks(ids):
            self.connection.execute(sa.delete(table).where(table.c.id.in_(chunk)))

    def refuse_hand_ins(self, errors: Mapping[str, str]) -> None:
        """Keep hand-ins that cannot become votes, with the reasons, by id."""
        table = schema.hand_ins
        for identity, error in errors.items():
            self.connection.execute(
                sa.update(table).where(table.c.id == identity).values(state=schema.REFUSED, error=error)
            )

    def retry_refused(self) -> None:
        """Make refused hand-ins pending again."""
        table = schema.hand_ins
        self.connection.execute(
            sa.update(table).where(table.c.state == schema.REFUSED).values(state=schema.PENDING, error=None)
        )

    def delete_run(self, name: str) -> None:
        """Delete a run, its recordings and their rows, and the entries and audit blocks that nothing refers to.

        Configs, environments, sources and hardware stay: there are few, and overrides refer to configs. What is in blocks has been
        taken out (`packing.take_out`).
        """
        ids = queries.recordings.ids_of_run(name)
        for table in schema.metadata.sorted_tables:
            if "recording_id" in table.c:
                self.connection.execute(sa.delete(table).where(table.c.recording_id.in_(ids)))
        run = sa.select(schema.recorded_runs.c.id).where(schema.recorded_runs.c.name == name)
        self.connection.execute(sa.delete(schema.recordings).where(schema.recordings.c.run_id.in_(run)))
        self.connection.execute(sa.delete(schema.recorded_runs).where(schema.recorded_runs.c.name == name))
        self._delete_unused_entries()
        blocks = schema.audit_blocks
        is_used = sa.exists().where(schema.audits.c.block_id == blocks.c.id)
        self.connection.execute(sa.delete(blocks).where(~is_used))

    def delete_origins(self, ids: Sequence[int]) -> None:
        """Delete files with their curated choices, and the entries that nothing refers to."""
        for chunk in in_chunks(ids):
            self.connection.execute(
                sa.delete(schema.curated_choices).where(schema.curated_choices.c.origin_id.in_(chunk))
            )
            self.connection.execute(sa.delete(schema.origins).where(schema.origins.c.id.in_(chunk)))
        self._delete_unused_entries()

    def _delete_unused_entries(self) -> None:
        there = [
            sa.exists().where(table.c.entry_id == schema.entries.c.id)
            for table in schema.metadata.sorted_tables if "entry_id" in table.c
        ]  # fmt: skip
        self.connection.execute(sa.delete(schema.entries).where(~sa.or_(*there)))

    def insert_override(self, event: Mapping[str, Any], config: str) -> int:
        """Append an override event; its id.

        Args:
            event: The columns of `override_events`, without `id` and `config_id`.
            config: Canonical text.
        """
        (config_id,) = self.insert_configs([config]).values()
        return self.insert_returning_ids(schema.override_events, [{**event, "config_id": config_id}])[0]

    def insert_export(self, facts: Mapping[str, Any]) -> None:
        """Append an exported table to the log."""
        self.connection.execute(sa.insert(schema.exports).values(**facts))

    def insert_many(self, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        """Insert rows, if there are any."""
        if rows:
            self.connection.execute(sa.insert(table), rows)

    def insert_returning_ids(self, table: sa.Table, rows: list[dict[str, Any]]) -> list[int]:
        """Insert rows; their ids, in the same order."""
        return dialects.insert_returning_ids(self.connection, table, rows) if rows else []

    def insert_missing(self, table: sa.Table, rows: dict[str, dict[str, Any]]) -> tuple[dict[str, int], int]:
        """Insert the rows whose digest the table lacks, in the order of their digests.

        The caller holds the write lock, so no other process writes meanwhile.

        Args:
            table: A table with the columns `id` and `digest`.
            rows: The other columns, by digest.

        Returns:
            The ids of all rows by digest, and how many were inserted.
        """
        digests = sorted(rows)
        found = {
            row["digest"]: row["id"]
            for row in self.chunked(functools.partial(queries.tables.ids_by_digest, table), digests)
        }
        missing = [digest for digest in digests if digest not in found]
        inserted = self.insert_returning_ids(table, [{"digest": digest, **rows[digest]} for digest in missing])
        return {**found, **dict(zip(missing, inserted, strict=True))}, len(missing)

    def insert_configs(self, texts: Iterable[str]) -> dict[str, int]:
        """Ids of configs by canonical text; inserts those that are not in the database."""
        digests = {text_digest(text): text for text in texts}
        rows = {digest: {"text": text, "kind": str(kind_of(text))} for digest, text in digests.items()}
        ids, _ = self.insert_missing(schema.configs, rows)
        return {text: ids[digest] for digest, text in digests.items()}
