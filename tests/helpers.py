"""What several suites share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.conftest import H200, config, write_recording
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.operations.ingest.ingest import IngestOptions, IngestReport, ingest

A, B = config(B=16), config(B=8)
NOBODY = 65534
on_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
on_both = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
on_postgres = pytest.mark.parametrize("database", ["postgres"], indirect=True)


def take(store: Store, *paths: Path, run: str | None = "demo", **options: object) -> IngestReport:
    """Ingest files into a store."""
    return ingest(store, list(paths), IngestOptions(run=run, **options))  # type: ignore[arg-type]


def all_rows(store: Store) -> dict[str, int]:
    """Number of rows of every table."""
    with store.reading() as reading:
        return reading.row_counts()


def error_of(result: Result | subprocess.CompletedProcess[str], *, lines: int = 1) -> str:
    """The one line of a command that failed with status 1; the line that names the database apart."""
    status = result.exit_code if isinstance(result, Result) else result.returncode
    said = [line for line in result.stderr.splitlines() if not line.startswith("database: ")]
    assert (status, len(said)) == (1, lines), result.stderr
    assert said[-1].startswith("error: ")
    return said[-1]


def run_prepared(prelude: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the `registry` command in a process that first executes `prelude`."""
    code = f"{prelude}\nfrom tuning_registry.cli.app import main\nmain()\n"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


# The user `nobody` may not even read the interpreter's own files: everything is imported before.
BECOME_NOBODY = f"""
import os, sys, tempfile
from pathlib import Path
from typer.testing import CliRunner
from tuning_registry.cli.app import app
with tempfile.TemporaryDirectory() as folder:
    for words in (["ingest", {str(H200)!r}], ["db", "check"], ["db", "upgrade"], ["export", "--arch", "sm90", "-o",
                  folder + "/sm90.json"], ["winners"], ["status"], ["runs"], ["runs", "withdraw", "none"]):
        CliRunner().invoke(app, ["--db", folder + "/warm.db", *words])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
"""


def run_as_nobody(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_prepared(BECOME_NOBODY, *arguments)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file()}


def votes_in(database: str) -> int:
    with Store(parse_url(database)).reading() as reading:
        return reading.row_counts()["votes"]


def many_keys(path: Path, number: int) -> Path:
    return write_recording(path, {"sm90": {"k": {f"M={n}|torch.bfloat16": A for n in range(number)}}})
