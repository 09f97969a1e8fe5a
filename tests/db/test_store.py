"""Opening databases that are missing, newer, or shared with other programs."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from tests.conftest import Cli, config, write_ranks
from tests.helpers import take
from tuning_registry.cli.app import app
from tuning_registry.db.schema import HEAD
from tuning_registry.db.store import Store
from tuning_registry.errors import SchemaError
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.reports.status import describe_status

A = config(B=16)


def test_reading_neither_creates_nor_hides_a_missing_registry(store: Store) -> None:
    with pytest.raises(
        SchemaError, match="there is no registry here yet; registry ingest or registry db upgrade creates it"
    ):
        find_winners(store, Selection())
    assert describe_status(store)["revision"] is None
    assert store.revision() is None


def test_a_newer_schema_is_refused_and_untouched(store: Store, cli: Cli, tmp_path: Path) -> None:
    (path,) = write_ranks(tmp_path, [A])
    take(store, path)
    with store.writing() as transaction:
        transaction.connection.execute(
            sa.text("UPDATE tuning_registry_alembic_version SET version_num = 'ffffffffffff'")
        )
    for command in (
        ("ingest", path, "--run", "x"),
        ("winners",),
        ("db", "upgrade"),
        ("export", "--arch", "sm90"),
        ("db", "check"),
    ):
        result = cli(*command)
        assert result.exit_code == 1, command
        assert f"newer than this program (found ffffffffffff, expected {HEAD})" in result.stderr
        assert "Traceback" not in result.stderr


def test_somebody_elses_tables_are_left_alone(store: Store, database: str, tmp_path: Path) -> None:
    engine = sa.create_engine(store.url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(sa.text("INSERT INTO alembic_version VALUES ('v3.0.0.d')"))
        connection.execute(sa.text("CREATE TABLE runs (run_uuid VARCHAR(32))"))
    take(store, *write_ranks(tmp_path, [A]))
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalars().all() == ["v3.0.0.d"]
    engine.dispose()


@pytest.mark.parametrize("made", ["TABLE votes (who VARCHAR(32))", "VIEW votes AS SELECT 1 AS one"])
def test_a_foreign_table_of_our_name_is_refused(store: Store, cli: Cli, tmp_path: Path, made: str) -> None:
    engine = sa.create_engine(store.url)
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE {made}"))
    engine.dispose()
    with pytest.raises(SchemaError, match="already has a table 'votes' that tuning-registry did not create"):
        take(store, *write_ranks(tmp_path, [A]))
    upgraded = cli("db", "upgrade")
    assert (upgraded.exit_code, "that tuning-registry did not create" in upgraded.stderr) == (1, True)
    assert store.revision() is None


@pytest.mark.parametrize("spelt", ["{folder}/x.db", "sqlite:///{folder}/x.db"])
@pytest.mark.parametrize("words", [("ingest", "{file}"), ("winners",), ("db", "upgrade"), ("db", "check")])
def test_a_mistyped_folder_is_named_and_not_created(tmp_path: Path, spelt: str, words: tuple[str, ...]) -> None:
    (file,) = write_ranks(tmp_path, [A])
    folder = tmp_path / "mistyped" / "deep"
    named = [word.format(file=file) for word in words]
    done = CliRunner().invoke(app, ["--db", spelt.format(folder=folder), *named])
    assert (done.exit_code, f"the folder {folder} does not exist; " in done.stderr) == (1, True), done.stderr
    assert not folder.parent.exists()


def test_the_folder_of_the_default_database_is_created(tmp_path: Path) -> None:
    (file,) = write_ranks(tmp_path, [A])
    assert CliRunner().invoke(app, ["ingest", str(file), "--run", "r"]).exit_code == 0
    assert (tmp_path / "home" / "tuning-registry" / "registry.db").exists()
