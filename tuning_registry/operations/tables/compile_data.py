"""What the kernels of an exported table need to be compiled, from the recordings in a database."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading
from tuning_registry.errors import RegistryError
from tuning_registry.formats.compile_file import CompileData, CompiledKernel, compile_file_of
from tuning_registry.formats.files import delete_file, write_atomically
from tuning_registry.formats.stores import Place
from tuning_registry.formats.table import read_table
from tuning_registry.formats.table_header import EXTRA
from tuning_registry.model.canonical import config_text
from tuning_registry.model.names import ANY_KEY, lookup_key
from tuning_registry.model.selection import Selection
from tuning_registry.model.specializations import Specialization
from tuning_registry.operations.tables.exported import Export


def compile_data_of(reading: Reading, selection: Selection, payload: Mapping[str, Any]) -> CompileData:
    """The compile data of a table: what was recorded about the configs that it holds, with its version of Triton.

    A `*` entry is compiled as on every key on which its config was recorded.

    Args:
        reading: The database.
        selection: Which votes count; it names the architecture.
        payload: The content of the table.
    """
    triton = str(payload.get("triton") or "")
    empty = CompileData(str(payload["arch"]), str(payload[EXTRA]["digest"]), triton)
    if not triton:
        return empty
    wanted = {
        kernel: {lookup_key(key): config_text(config) for key, config in keys.items()}
        for kernel, keys in payload["kernels"].items()
    }
    found: dict[tuple[str, str], list[str]] = {}
    for row in reading.rows(queries.specializations.of_entries(selection, triton)):
        keys = wanted.get(row["kernel"], {})
        if row["config"] == keys.get(lookup_key(row["key"]), keys.get(ANY_KEY)):
            found.setdefault((row["kernel"], row["text"]), []).append(row["key"])
    kernels = [
        CompiledKernel(kernel, tuple(sorted(keys)), Specialization.from_dict(json.loads(text)))
        for (kernel, text), keys in sorted(found.items())
    ]
    return CompileData(empty.arch, empty.digest, triton, tuple(kernels))


def write_table_files(made: Export, path: Place) -> Place | None:
    """Write a table to its file, and its compile data beside it. The compile data of the table it replaces is deleted.

    Returns:
        The file with the compile data; None if there is none.

    Raises:
        FileError: A file cannot be written.
    """
    compiled = made.compile_data
    # False if Path.exists would raise; a device or FIFO has nothing beside it, and a store has none.
    if isinstance(path, Path) and os.path.exists(path) and not path.is_file():  # noqa: PTH110
        write_atomically(path, made.data)
        return None
    replaced = None
    with contextlib.suppress(RegistryError, OSError):
        replaced = compile_file_of(path, read_table(path).digest)
    beside = compile_file_of(path, made.digest)
    if compiled:
        write_atomically(beside, compiled.data)  # first: a job that finds the new table finds it as well
    write_atomically(path, made.data)
    if replaced is not None and replaced != beside:
        with contextlib.suppress(OSError):
            delete_file(replaced)
    return beside if compiled else None
