"""Executing queries on an open connection. With `writing`, the only file that executes statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from tuning_registry.db import dialects, queries, schema
from tuning_registry.model.selection import Selection

T = TypeVar("T")
Row = Mapping[str, Any]
_CHUNK: Final = 500  # parameters of one IN (...)
_BULK: Final = 10_000  # rows fetched at a time


class Reading:
    """The queries of one transaction.

    `db.queries` builds statements; this class executes them, in the form that suits the size of the answer.

    Args:
        connection: An open connection, inside its transaction.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self._asked: list[tuple[sa.Select[Any], list[tuple[Any, ...]]]] = []

    def rows(self, query: sa.Select[Any]) -> list[Row]:
        """Every row, as a dict by column name."""
        return [dict(row) for row in self.connection.execute(query).mappings()]

    def scalars(self, query: sa.Select[Any]) -> list[Any]:
        """The first column."""
        return list(self.connection.execute(query).scalars())

    def bulk(self, query: sa.Select[Any]) -> Iterator[tuple[Any, ...]]:
        """Rows as the driver returns them: for millions of numbers, SQLAlchemy's own rows double the time."""
        cursor = self.connection.execute(query).cursor
        while rows := cursor.fetchmany(_BULK):
            yield from rows

    def chunked(
        self, build: Callable[[Sequence[T]], sa.Select[Any]], values: Sequence[T], each: int = 1
    ) -> Iterator[Row]:
        """The rows of one query per 500 parameters, since databases limit them; `each` value has so many."""
        for part in in_chunks(values, _CHUNK // each):
            yield from self.rows(build(part))

    def once(self, query: sa.Select[Any]) -> list[tuple[Any, ...]]:
        """Rows as `bulk` returns them, asked once per transaction. Not for tables that the transaction writes."""
        for asked, rows in self._asked:
            if asked.compare(query):
                return rows
        rows = list(self.bulk(query))
        self._asked.append((query, rows))
        return rows

    def environments_that_count(self, selection: Selection) -> list[int]:
        """Ids of the environments behind a selection's votes: what the queries over all votes are built for."""
        return [identity for (identity,) in self.once(queries.selected.environments_that_count(selection))]

    def row_counts(self, *names: str) -> dict[str, int]:
        """Number of rows of these tables, or of every one."""
        tables = [table for table in schema.metadata.sorted_tables if not names or table.name in names]
        return {table.name: self.scalars(queries.tables.row_count(table))[0] for table in tables}

    def engine_name(self) -> str:
        """Database and version, for `registry status`."""
        return dialects.engine_name(self.connection)


def in_chunks(values: Sequence[T], size: int = _CHUNK) -> Iterator[Sequence[T]]:
    """Parts of at most 500 values, as many as every database binds in one statement."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
