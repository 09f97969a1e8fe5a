"""A recorded job, and its table with compile data: made once, by real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

from tuning_registry.formats.recordings import read_recording
from tuning_registry.model.selection import Selection
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest_in_memory
from tuning_registry.operations.tables.compile_data import write_table_files
from tuning_registry.operations.tables.export import ExportOptions, export_table

ROOT = Path(__file__).parents[3]
Job = Callable[..., tuple[list[str], str]]


def environment(cache: Path, **variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TUNING_REGISTRY_", "TRITON_"))}
    return {**kept, "TRITON_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT), **variables}


def run_job(what: str, place: Path, cache: Path, fields: dict[str, Any] | None = None) -> tuple[list[str], str]:
    """Run the job in a new process; the kernels that it compiled itself, and its log."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.runtime.compile_ahead.job",
        what,
        str(place),
        json.dumps(fields or {}),
    ]
    ended = subprocess.run(
        command, env=environment(cache), cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout), ended.stderr


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recording of a job, which had compile data, and the folder `tables`."""
    folder = tmp_path_factory.mktemp("recorded")
    run_job("record", folder / "rec", folder / "cache")
    made = export_table(
        ingest_in_memory(sorted(folder.glob("rec*.json")), IngestOptions()),
        Selection(arch="sm90"),
        ExportOptions(compile_data=True),
    )
    write_table_files(made, folder / "tables" / "sm90.json")
    return folder


@pytest.fixture
def table(recorded: Path) -> Path:
    """The table."""
    return recorded / "tables" / "sm90.json"


@pytest.fixture
def recording(recorded: Path) -> Any:
    """The recording."""
    (file,) = recorded.glob("rec*.json")
    return read_recording(file)
