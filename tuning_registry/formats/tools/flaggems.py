"""The database of FlagGems' tuner, `~/.flaggems/config_cache/TunedConfig_{vendor}_triton_{major}_{minor}.db`.

Two tables for each kernel: winners, `{function}_{32 hex}...-{32 hex}`, and the times of every candidate,
`{function}_{64 hex}_benchmark_v2-{32 hex}`, which has columns `p50`, `p20` and `p80` in ms. `key_0`, `key_1`, ...
hold the values of a key without names, then dtypes; in the tables of times, then how it was timed. Keys of more
than 64 values are `key_hash` and `key_blob`. The other columns are the config. Integers of the winners' keys are
rounded by the op. Source: `flag_gems/utils/models/sql.py`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats import sqlite_input
from tuning_registry.formats.plugin import Format, ToolFile, choices_of
from tuning_registry.formats.recordings import read_timings
from tuning_registry.formats.triton_cache import key_of_values
from tuning_registry.model.canonical import FIELDS, NEUTRAL, config_text
from tuning_registry.model.origins import Origin
from tuning_registry.model.records import Recording, Timing

_TABLE: Final = re.compile(
    r"(?P<function>.+?)_([0-9a-f]{64}_benchmark_v[0-9]+|[0-9a-f]{32}(_flagtune_.+?)?(_benchmark_[0-9a-f]{12})?)"
    r"-[0-9a-f]{32}",
    re.DOTALL,
)
_FILE: Final = re.compile(r"TunedConfig_.+_triton_[0-9]+_[0-9]+\.db")
_KEY: Final = re.compile(r"key_([0-9]{1,4})")
_HASH, _BLOB = "key_hash", "key_blob"
_TIMES: Final = ("p50", "p20", "p80")
_OPTIONS: Final = frozenset({*FIELDS, *NEUTRAL} - {"kwargs"})
_DTYPE: Final = re.compile(r"torch\.\w+")


# See docs/decisions.md, D147.
@dataclass
class _Layer:
    """What fits into one recording: one choice and one list of candidates for each kernel and key."""

    choices: dict[str, dict[str, str]] = field(default_factory=dict)
    timings: dict[str, dict[str, Sequence[Timing]]] = field(default_factory=dict)


class FlagGemsDatabase(Format):
    """`FLAGGEMS_CACHE_DIR`; a database of another name, as `FLAGGEMS_DB_URL` may give it, needs `--from`."""

    name = "flaggems"
    title = "SQLite database of FlagGems' tuner (TunedConfig_..._triton_3_6.db)"
    # By name: other SQLite files in a folder, such as a registry, are not looked at.
    suffixes = tuple(f"_triton_{major}_{minor}.db" for major in (2, 3, 4) for minor in range(30))

    def recognizes(self, file: ToolFile) -> bool:
        """An SQLite database with FlagGems' name, or with one of its tables."""
        if not file.is_sqlite:
            return False
        if _FILE.fullmatch(file.path.name):
            return True
        with sqlite_input.opened(file) as connection:
            return bool(_tables_of(connection))

    def read(self, files: Sequence[ToolFile]) -> Iterable[Recording]:
        """One recording for each file; neither GPU, nor rank, nor the exact Triton version is stated.

        A second one has the choices of a kernel whose source or settings changed, if they are for the same keys.
        """
        for file in files:
            layers: list[_Layer] = []
            with sqlite_input.opened(file) as connection:
                tables = _tables_of(connection)
                if not tables:
                    raise file.fault("this database has no table of FlagGems")
                for table, kernel in tables.items():
                    _read_table(file, connection, table, kernel, layers)
            for number, layer in enumerate(layers or [_Layer()], start=1):
                name = file.path.name if number == 1 else f"{file.path.name}#{number}"
                yield choices_of(file, Origin(tool=self.name, file=name), layer.choices, timings=layer.timings)


def _tables_of(connection: sqlite3.Connection) -> dict[str, str]:
    """The tables of FlagGems with the function that each is for."""
    found = {}
    for table in sqlite_input.table_names(connection):
        match = _TABLE.fullmatch(table)
        columns = sqlite_input.columns_of(connection, table) if match else []
        if match and {"key_0", _HASH} & set(columns):
            found[table] = match["function"]
    return found


def _read_table(file: ToolFile, connection: sqlite3.Connection, table: str, kernel: str, layers: list[_Layer]) -> None:
    """Add the choices or times of one table to the first layer that has none for their key."""
    timed: dict[tuple[str, str], list[Any]] = {}
    is_timed = set(_TIMES) <= set(sqlite_input.columns_of(connection, table))
    seen: set[str] = set()
    for number, row in enumerate(sqlite_input.rows_of(connection, table), start=1):
        place = (table, f"row {number}")
        try:
            key, protocol = _key(row, is_timed=is_timed)
            config = _config(row)
            text = config_text(config)
            if is_timed:
                timed.setdefault((key, protocol), []).append([config, [row[name] for name in _TIMES]])
                continue
            if key in seen:
                raise FormatError("another row has the same key")
        except FormatError as fault:
            raise file.fault(fault.what, (*place, *fault.path)) from fault
        seen.add(key)
        layer = _free_layer(layers, lambda one, key=key, text=text: one.choices.get(kernel, {}).get(key, text) == text)
        layer.choices.setdefault(kernel, {})[key] = text
    for (key, _), rows in timed.items():
        try:
            timings = list(read_timings(rows))
        except FormatError as fault:
            raise file.fault(fault.what, (table, key)) from fault
        layer = _free_layer(layers, lambda one, key=key: key not in one.timings.get(kernel, {}))
        layer.timings.setdefault(kernel, {})[key] = timings


def _free_layer(layers: list[_Layer], is_free: Any) -> _Layer:
    found = next((layer for layer in layers if is_free(layer)), None)
    if found is None:
        found = _Layer()
        layers.append(found)
    return found


def _key(row: Mapping[str, Any], *, is_timed: bool) -> tuple[str, str]:
    """The shape key of a row, and how it was timed."""
    if _HASH in row:
        digest = row[_HASH]
        if not isinstance(digest, str) or not re.fullmatch(r"\w{1,128}", digest):
            raise FormatError(f"expected a digest, found {_described(digest)}", (_HASH,))
        return f"{_HASH}={digest}", ""
    values = [row[name] for name in sorted((n for n in row if _KEY.fullmatch(n)), key=lambda n: int(n[len("key_") :]))]
    for value in values:
        if not isinstance(value, int | float | str):
            raise FormatError(f"expected a number or a string, found {_described(value)}", ("key",))
    protocol = _protocol_start(values) if is_timed else len(values)
    return key_of_values(values[:protocol]), repr(values[protocol:])


def _protocol_start(values: Sequence[Any]) -> int:
    """Where the values end and the name and arguments of the timer begin: after the dtypes, else at the last string."""
    strings = [index for index, value in enumerate(values) if isinstance(value, str)]
    dtypes = [index for index in strings if _DTYPE.fullmatch(values[index])]
    if dtypes:
        return dtypes[-1] + 1
    return strings[-1] if strings else len(values)


def _config(row: Mapping[str, Any]) -> dict[str, Any]:
    names = [name for name in row if name not in {*_TIMES, _HASH, _BLOB} and not _KEY.fullmatch(name)]
    for name in names:
        if isinstance(row[name], bytes):
            raise FormatError(f"expected a number or a string, found {_described(row[name])}", (name,))
    kwargs = {name: row[name] for name in names if name not in _OPTIONS}
    return {"kwargs": kwargs, **{name: row[name] for name in names if name in _OPTIONS}}


def _described(value: object) -> str:
    return "binary data" if isinstance(value, bytes) else describe(value)
