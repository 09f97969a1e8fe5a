"""Tuning databases of AOTriton: SQLite, one for each kernel, which AOTriton's build reads.

A table `FLASH$attn_fwd` has columns `gpu`, `inputs$...` (what a launch is looked up by), `tuned_kernel$...` and
`compiler_options$...` (what it is launched with). It holds winners only, without times.
Source: `python/database/sqlite.py`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats import sqlite_input
from tuning_registry.formats.plugin import Format, ToolFile, choices_of
from tuning_registry.model.kinds import launch_text
from tuning_registry.model.names import check_text, format_key
from tuning_registry.model.origins import Origin
from tuning_registry.model.records import Recording

_TABLE: Final = re.compile(r"(?P<family>[A-Z0-9_]+)\$(?P<kernel>\w+)")
_GPU: Final = re.compile(r"(?P<arch>gfx[0-9a-f]{3,5})(?:_mod(?P<mod>[0-9]+))?")
_GPU_COLUMN: Final = "gpu"
_INPUTS: Final = "inputs$"
_CHOSEN: Final = ("tuned_kernel$", "compiler_options$")

# Kernel, key and config, by architecture.
_Choices = dict[str, dict[str, dict[str, str]]]


class AotritonDatabase(Format):
    """The databases in `modules/*/database/amd/GPU/`, after they are unpacked."""

    name = "aotriton"
    title = "AOTriton's tuning databases (SQLite, unpacked)"
    suffixes = (".sqlite3",)

    def recognizes(self, file: ToolFile) -> bool:
        """An SQLite database with one of AOTriton's tables."""
        if not file.is_sqlite:
            return False
        with sqlite_input.opened(file) as connection:
            return any(map(_TABLE.fullmatch, sqlite_input.table_names(connection)))

    def read(self, files: Sequence[ToolFile]) -> Iterable[Recording]:
        """One recording for each file and architecture; neither rank nor Triton version is stated."""
        for file in files:
            found: _Choices = defaultdict(lambda: defaultdict(dict))
            with sqlite_input.opened(file) as connection:
                tables = [table for table in sqlite_input.table_names(connection) if _TABLE.fullmatch(table)]
                if not tables:
                    raise file.fault("this database has no table of AOTriton, such as FLASH$attn_fwd")
                for table in tables:
                    _check_columns(file, table, sqlite_input.columns_of(connection, table))
                    _read_rows(file, table, sqlite_input.rows_of(connection, table), found)
            for arch, choices in found.items():
                origin = Origin(tool=self.name, file=f"{arch}/{file.path.name}")
                yield choices_of(file, origin, choices, arch=arch)


def _check_columns(file: ToolFile, table: str, columns: Sequence[str]) -> None:
    """Refuse a table that lacks columns, or has others than AOTriton's."""
    for prefix in (_GPU_COLUMN, _INPUTS, _CHOSEN[0]):
        if not any(name.startswith(prefix) for name in columns):
            raise file.fault(f"expected columns that begin with {prefix!r}", (table,))
    for name in columns:
        if name != _GPU_COLUMN and not re.fullmatch(r"(inputs|tuned_kernel|compiler_options)\$\w+", name):
            raise file.fault(f"unexpected column {describe(name)}", (table,))


def _read_rows(file: ToolFile, table: str, rows: Iterable[Mapping[str, Any]], found: _Choices) -> None:
    match = _TABLE.fullmatch(table)
    assert match is not None
    kernel = f"aotriton.{match['family'].lower()}.{match['kernel']}"
    for number, row in enumerate(rows, start=1):
        try:
            arch, module = _target(row[_GPU_COLUMN])
            inputs = _fields(row, (_INPUTS,))
            key = check_text(format_key([*module, *inputs.items()], ()))
            config = launch_text(_fields(row, _CHOSEN))
            entries = found[arch][kernel]
            if key in entries:
                raise FormatError("another row has the same key")
            entries[key] = config
        except FormatError as fault:
            raise file.fault(fault.what, (table, f"row {number}", *fault.path)) from fault


def _target(gpu: object) -> tuple[str, list[tuple[str, object]]]:
    """The architecture of `gfx942_mod0`, and a part of the key if it is another variant than the usual one, 0."""
    match = _GPU.fullmatch(gpu) if isinstance(gpu, str) else None
    if match is None:
        raise FormatError(f"expected a GPU such as gfx942_mod0, found {_described(gpu)}", (_GPU_COLUMN,))
    variant = int(match["mod"] or 0)
    return match["arch"], [("mod", variant)] if variant else []


def _fields(row: Mapping[str, Any], prefixes: tuple[str, ...]) -> dict[str, Any]:
    """The values in the columns with these prefixes, by name; NULL is not a value."""
    fields: dict[str, Any] = {}
    for column, value in row.items():
        name = column.partition("$")[2]
        if not column.startswith(prefixes) or value is None:
            continue
        if isinstance(value, bytes):
            raise FormatError("expected a number or a string, found binary data", (column,))
        if name in fields:
            raise FormatError(f"another column also gives {name!r}", (column,))
        fields[name] = value
    return fields


def _described(value: object) -> str:
    return "binary data" if isinstance(value, bytes) else describe(value)
