"""Queries on an open connection. With `writing`, the only files that execute statements."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from tuning_registry.db import by_rank, decisions, dialects, measured, observed, provenance, queries, schema
from tuning_registry.model.selection import Selection

Row = Mapping[str, Any]
CHUNK = 500  # parameters of one IN (...)
_BULK = 10_000  # rows fetched at a time


class Reading:
    """Queries on an open connection; each method bears the name of its statement."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection

    def _rows(self, query: sa.Select[Any]) -> list[Row]:
        return [dict(row) for row in self.connection.execute(query).mappings()]

    def _chunked(self, build: Callable[[Sequence[Any]], sa.Select[Any]], values: Sequence[Any]) -> Iterator[Any]:
        for start in range(0, len(values), CHUNK):
            yield from self.connection.execute(build(values[start : start + CHUNK])).mappings()

    def _bulk(self, query: sa.Select[Any]) -> Iterator[Any]:
        """Rows as the driver gives them: for millions of numbers, SQLAlchemy's own rows double the time."""
        cursor = self.connection.execute(query).cursor
        while rows := cursor.fetchmany(_BULK):
            yield from rows

    def environments_that_count(self, selection: Selection) -> list[int]:
        """Ids of the environments behind a selection's votes."""
        return list(self.connection.execute(queries.environments_that_count(selection)).scalars())

    def winners(self, selection: Selection) -> list[Row]:
        """See `queries.winners`."""
        return self._rows(queries.winners(selection, self.environments_that_count(selection)))

    def choices(self, selection: Selection) -> list[Row]:
        """See `queries.choices`."""
        return self._rows(queries.choices(selection, self.environments_that_count(selection)))

    def shapes_of_entries(self, selection: Selection) -> list[Row]:
        """See `queries.shapes_of_entries`."""
        return self._rows(queries.shapes_of_entries(selection))

    def version_groups(self) -> list[Row]:
        """See `queries.version_groups`."""
        return self._rows(queries.version_groups())

    def candidate_set_tally(self, selection: Selection) -> list[Row]:
        """See `queries.candidate_set_tally`."""
        return self._rows(queries.candidate_set_tally(selection, self.environments_that_count(selection)))

    def who_voted(self, entry_ids: Sequence[int]) -> Iterator[tuple[int, int, array[int]]]:
        """`(entry id, config id, recording ids)` of every choice on these entries; see `queries.who_voted`."""
        for start in range(0, len(entry_ids), CHUNK):
            for entry, config, ids in self._bulk(queries.who_voted(entry_ids[start : start + CHUNK])):
                yield entry, config, array("q", map(int, ids.split(",")))

    def whose_recordings(self, selection: Selection) -> list[tuple[str, int, int, int]]:
        """Run, rank, id and environment of every counting recording, in that order."""
        return [tuple(row) for row in self.connection.execute(queries.whose_recordings(selection))]

    def votes_cast(self, entry_id: int) -> Iterator[tuple[int, int]]:
        """`(config id, recording id)` of every vote on an entry; see `by_rank.votes_cast`."""
        yield from self._bulk(by_rank.votes_cast(entry_id))

    def medians_of(self, entry_id: int) -> Iterator[tuple[int, int, float]]:
        """`(config id, recording id, median in ms)` of an entry, by config; see `by_rank.medians_of`."""
        yield from self._bulk(by_rank.medians_of(entry_id))

    def misses(self, selection: Selection) -> list[Row]:
        """See `observed.misses`."""
        return self._rows(observed.misses(selection))

    def reasons_observed(self, selection: Selection) -> list[Row]:
        """See `observed.reasons_observed`."""
        return self._rows(observed.reasons_observed(selection))

    def counting(self, selection: Selection) -> dict[int, int]:
        """Environment by recording; see `queries.counting_recordings`."""
        return {row.id: row.environment_id for row in self.connection.execute(queries.counting_recordings(selection))}

    def timings_of(
        self, entry_ids: Sequence[int], config_ids: Sequence[int] | None = None
    ) -> Iterator[tuple[int, int, int, float | None, float | None, float | None]]:
        """Entry, config and recording id, median, 20th and 80th percentile in ms; see `measured.timings_of`."""
        for row in self.connection.execute(measured.timings_of(entry_ids, config_ids)):
            yield tuple(row)

    def config_texts(self, config_ids: Sequence[int]) -> dict[int, str]:
        """See `measured.config_texts`."""
        return {row["id"]: row["text"] for row in self._chunked(measured.config_texts, config_ids)}

    def override_history(self) -> list[Row]:
        """See `decisions.override_history`."""
        return self._rows(decisions.override_history())

    def kernels_recorded(self, arch: str) -> list[str]:
        """See `decisions.kernels_recorded`."""
        return list(self.connection.execute(decisions.kernels_recorded(arch)).scalars())

    def configs_recorded(self, arch: str, kernel: str, lookup_key: str | None) -> list[str]:
        """See `decisions.configs_recorded`."""
        return list(self.connection.execute(decisions.configs_recorded(arch, kernel, lookup_key)).scalars())

    def exports_made(self, digest: str | None, arch: str | None) -> list[Row]:
        """See `decisions.exports_made`."""
        return self._rows(decisions.exports_made(digest, arch))

    def recording_facts(self, selection: Selection) -> list[Row]:
        """See `provenance.recording_facts`."""
        return self._rows(provenance.recording_facts(selection))

    def archs_recorded(self, selection: Selection) -> list[Row]:
        """See `provenance.archs_recorded`."""
        return self._rows(provenance.archs_recorded(selection))

    def contributing(self, selection: Selection) -> list[int]:
        """See `queries.contributing`."""
        return list(self.connection.execute(queries.contributing(selection)).scalars())

    def all_runs(self) -> list[Row]:
        """See `provenance.all_runs`."""
        return self._rows(provenance.all_runs())

    def all_archs(self) -> list[Row]:
        """See `provenance.all_archs`."""
        return self._rows(provenance.all_archs())

    def packages_known(self) -> list[str]:
        """See `provenance.packages_known`."""
        return list(self.connection.execute(provenance.packages_known()).scalars())

    def row_counts(self, *names: str) -> dict[str, int]:
        """Number of rows of these tables, or of every one."""
        tables = [table for table in schema.metadata.sorted_tables if not names or table.name in names]
        return {table.name: self.connection.execute(provenance.row_count(table)).scalar_one() for table in tables}

    def counting_rows(self, table: str) -> int:
        """See `provenance.counting_rows`."""
        return self.connection.execute(provenance.counting_rows(schema.metadata.tables[table])).scalar_one()

    def engine_name(self) -> str:
        """Database and version, for `registry status`."""
        return dialects.engine_name(self.connection)

    def runs_by_name(self, names: Sequence[str]) -> dict[str, Row]:
        """The runs that exist, by name."""
        return {row["name"]: dict(row) for row in self._chunked(provenance.runs_by_name, names)}

    def current_recordings(self, runs: Sequence[str]) -> dict[tuple[str, int], Row]:
        """The current recordings of runs, by run and rank."""
        return {(row["run"], row["rank"]): dict(row) for row in self._chunked(provenance.current_recordings, runs)}

    def same_content(self, kind: str, digests: Sequence[str]) -> list[Row]:
        """The recordings that hold content of a kind (`votes`, `timings`); see `provenance.same_content`."""
        return [dict(row) for row in self._chunked(functools.partial(provenance.same_content, kind), digests)]
