"""Parquet tables of the elected entries, the votes and the timings, for DuckDB, Polars, pandas and other readers.

A folder has `entries.parquet`, `votes.parquet` and `timings.parquet`. Configs are canonical JSON text; a value that is
not known is null. Rows are written in groups, so memory does not grow with their number.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final

from tuning_registry.errors import PluginError
from tuning_registry.formats.plugin import ElectedEntry, Format, Outgoing, Written

_GROUP_ROWS: Final = 65_536
_ENTRY: Final = dict.fromkeys(("arch", "device", "kernel", "key", "config", "triton", "package", "version"), "string")
_RANK: Final = {"run": "string", "rank": "int32"}
_UNKNOWN: Final = frozenset({"device", "triton", "package", "version"})  # empty if not known
_TIMES: Final = dict.fromkeys(("median_ms", "p20_ms", "p80_ms"), "float64")
# Columns and their types by table; later versions add columns at the end.
TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "entries": {**_ENTRY, "votes": "int64", "total_votes": "int64", **_TIMES},
    "votes": {**_ENTRY, **_RANK},
    "timings": {**_ENTRY, **_RANK, **_TIMES},
}


class ParquetTables(Format):
    """Three Parquet files."""

    name = "parquet"
    title = "Parquet tables of entries, votes and timings"

    def write(self, chosen: Outgoing) -> Written:
        """The three tables. They are read from the database while they are written.

        Raises:
            PluginError: pyarrow is not installed.
        """
        try:
            import pyarrow  # noqa: ICN001, PLC0415  # an extra, and slow to import
            import pyarrow.parquet  # noqa: F401, PLC0415
        except ImportError as error:
            raise PluginError(
                f"format {self.name} needs pyarrow, which cannot be imported ({error}); run: pip install pyarrow"
            ) from error
        rows: dict[str, Callable[[], Iterable[Mapping[str, Any]]]] = {
            "entries": lambda: map(_row, chosen.entries),
            "votes": chosen.votes,
            "timings": chosen.timings,
        }
        return Written(files={f"{name}.parquet": functools.partial(_write, name, rows[name]) for name in TABLES})


def _row(entry: ElectedEntry) -> Mapping[str, Any]:
    times = entry.times_ms or (None, None, None)
    return {name: getattr(entry, name) for name in TABLES["entries"] if name not in _TIMES} | dict(
        zip(_TIMES, times, strict=True)
    )


def _write(name: str, rows: Callable[[], Iterable[Mapping[str, Any]]], file: BinaryIO) -> None:
    import pyarrow as pa  # noqa: PLC0415  # an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    schema = pa.schema([(column, pa.type_for_alias(kind)) for column, kind in TABLES[name].items()])
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _groups(iter(rows())):
            arrays = [_column(group, field.name, field.type) for field in schema]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _groups(rows: Iterator[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    while group := list(itertools.islice(rows, _GROUP_ROWS)):
        yield group


def _column(rows: list[Mapping[str, Any]], name: str, kind: Any) -> Any:
    """A column of some rows. A percentile that was dropped is null, as is a version or device that is not known."""
    import pyarrow as pa  # noqa: PLC0415  # an extra

    values = [row[name] or None for row in rows] if name in _UNKNOWN else [row[name] for row in rows]
    return pa.array(values, type=kind, from_pandas=True)  # NaN as null
