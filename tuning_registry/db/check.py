"""Checking a database: integrity, revision, tables and columns as declared."""

from __future__ import annotations

import sqlalchemy as sa

from tuning_registry.db import dialects, schema
from tuning_registry.db.store import Store
from tuning_registry.errors import DatabaseError
from tuning_registry.wording import count_of


def find_problems(store: Store) -> list[str]:
    """What is wrong with the database, one line per problem.

    Raises:
        DatabaseError: It cannot be opened at all.
    """
    if store.revision() is None:
        return [str(store.absent())]
    try:
        with store.reading() as reading:
            return [*dialects.damage(reading.connection), *_drift(reading.connection), *_orphans(reading.connection)]
    except DatabaseError as fault:
        return [str(fault)]


def _drift(connection: sa.Connection) -> list[str]:
    """Tables and columns that differ from the declared schema."""
    found = sa.inspect(connection)
    problems = []
    for table in schema.metadata.sorted_tables:
        if not found.has_table(table.name):
            problems.append(f"table {table.name} is missing")
            continue
        there = {column["name"] for column in found.get_columns(table.name)}
        if there != set(table.columns.keys()):
            problems.append(f"table {table.name} has columns {sorted(there)}, expected {sorted(table.columns.keys())}")
    if "counted_votes" not in found.get_view_names():
        problems.append("view counted_votes is missing")
    return problems


def _orphans(connection: sa.Connection) -> list[str]:
    """Votes that name a missing row, since the votes table has no foreign keys."""
    problems = []
    for column, table in (
        (schema.votes.c.entry_id, schema.entries),
        (schema.votes.c.config_id, schema.configs),
        (schema.votes.c.recording_id, schema.recordings),
    ):
        lost = connection.execute(
            sa.select(sa.func.count()).select_from(schema.votes).where(column.not_in(sa.select(table.c.id)))
        ).scalar_one()
        if lost:
            problems.append(f"{count_of(lost, 'vote')} without a row in {table.name}")
    return problems
