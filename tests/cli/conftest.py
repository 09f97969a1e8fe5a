"""The command on SQLite alone, for tests that no database can change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tuning_registry.cli.app import app


@pytest.fixture
def sqlite_cli(tmp_path: Path) -> Cli:
    from typer.testing import CliRunner

    def run(*arguments: object) -> Any:
        return CliRunner().invoke(app, ["--db", str(tmp_path / "r.db"), *map(str, arguments)], prog_name="registry")

    return run
