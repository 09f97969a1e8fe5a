"""What an import loads, in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "sqlalchemy",
    "alembic",
    "typer",
    "rich",
    "msgspec",
    "pydantic",
    "torch",
    "triton",
    "psycopg",
    "fsspec",
    "s3fs",
)


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split()) & set(HEAVY)


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import tuning_registry", set()),
        ("import tuning_registry.runtime", set()),
        ("from tuning_registry import load, read_table, write, count_votes, RegistryError", set()),
        ("from tuning_registry import Registry", {"sqlalchemy", "msgspec"}),
        ("from tuning_registry import *", {"sqlalchemy", "msgspec"}),
        ("import tuning_registry as t; t.load('sm90')", set()),
        ("import tuning_registry.cli.app", {"typer", "rich"}),
        ("import tuning_registry.operations.ingest.ingest", {"sqlalchemy", "msgspec"}),
        ("import tuning_registry.operations.tables.export, tuning_registry.db.check", {"sqlalchemy"}),
    ],
)
def test_an_import_loads_no_more_than_it_needs(statement: str, allowed: set[str]) -> None:
    assert loaded_by(statement) <= allowed


def test_importing_has_no_side_effect() -> None:
    code = (
        "import logging, os, sys; before = (dict(os.environ), list(logging.root.handlers), sys.excepthook);"
        "import tuning_registry, tuning_registry.cli.app, tuning_registry.operations.ingest.ingest;"
        "assert before == (dict(os.environ), list(logging.root.handlers), sys.excepthook)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
