"""Migrations: one line of revisions, equal to the declared schema, safe in foreign company, old data kept."""

from __future__ import annotations

import logging
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from typer.testing import CliRunner

from tests.conftest import ROOT, Cli, config, empty_database, write_ranks
from tuning_registry.cli.app import app
from tuning_registry.db import schema
from tuning_registry.db.migrate import alembic_config, downgrade_database, upgrade_database
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.errors import SchemaError
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
from tuning_registry.operations.reports.status import describe_status
from tuning_registry.operations.runs import list_runs
from tuning_registry.operations.tables.export import export_table

A = config(B=16)
DATA = Path(__file__).parents[1] / "data"
both = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
on_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("database", ["postgres"], indirect=True)


def tables_of(store: Store) -> set[str]:
    with store.migrating() as connection:
        inspector = sa.inspect(connection)
        return {*inspector.get_table_names(), *inspector.get_view_names()}


def test_the_revisions_are_one_line_and_all_are_known() -> None:
    scripts = ScriptDirectory.from_config(alembic_config())
    assert scripts.get_heads() == [schema.HEAD]
    assert tuple(script.revision for script in scripts.walk_revisions())[::-1] == schema.REVISIONS


def test_stairway(store: Store) -> None:
    ours = {*schema.metadata.tables, "counted_votes"}
    below: str | None = None
    for revision in schema.REVISIONS:
        assert upgrade_database(store, revision) == (below, revision)
        before = tables_of(store)
        assert downgrade_database(store, below or "base")[0] == revision
        if below is None:
            assert tables_of(store) & ours == set()
        assert upgrade_database(store, revision)[1] == revision
        assert tables_of(store) == before
        below = revision
    assert ours < tables_of(store)
    assert upgrade_database(store) == (schema.HEAD, schema.HEAD)


def test_a_database_taken_down_to_nothing_can_be_used_again(store: Store, tmp_path: Path) -> None:
    ingest(store, write_ranks(tmp_path, [A]), IngestOptions(run="demo"))
    downgrade_database(store, "base")
    upgrade_database(store)
    assert ingest(store, write_ranks(tmp_path, [A]), IngestOptions(run="demo")).new == 1


def make_at_first_write(store: Store) -> None:
    with store.writing():
        pass


def make_by_upgrade(store: Store) -> None:
    upgrade_database(store)


def described(store: Store) -> dict[str, Any]:
    """All that the database says of its schema, in comparable form."""
    with store.reading() as reading:
        connection = reading.connection
        found = sa.inspect(connection)
        tables: dict[str, Any] = {}
        for name in found.get_table_names():
            columns = [{**column, "type": str(column["type"])} for column in found.get_columns(name)]
            tables[name] = (
                columns,
                found.get_pk_constraint(name),
                sorted(map(repr, found.get_unique_constraints(name))),
                sorted(map(repr, found.get_indexes(name))),
                sorted(map(repr, found.get_foreign_keys(name))),
            )
        views = {name: found.get_view_definition(name) for name in found.get_view_names()}
        types: list[Any] = []
        if connection.dialect.name == "postgresql":
            query = (
                "SELECT table_name, column_name, data_type, collation_name, column_default, is_nullable"
                " FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2"
            )
            types = [tuple(row) for row in connection.exec_driver_sql(query)]
    return {"tables": tables, "views": views, "types": types}


@pytest.mark.parametrize("make", [make_at_first_write, make_by_upgrade])
def test_the_schema_is_as_declared(store: Store, make: Any) -> None:
    make(store)
    with store.reading() as reading:
        options = {"compare_type": True, "compare_server_default": True, "version_table": schema.VERSION_TABLE}
        context = MigrationContext.configure(reading.connection, opts=options)
        assert compare_metadata(context, schema.metadata) == []


@both
def test_both_ways_to_make_the_schema_are_the_same(
    store: Store, database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    make_at_first_write(store)
    first = described(store)
    assert set(first["tables"]) == {*schema.metadata.tables, schema.VERSION_TABLE}
    if database.startswith("sqlite"):
        other = Store(parse_url(str(tmp_path / "other.db")))
        make_by_upgrade(other)
        assert described(other) == first
        return
    with empty_database(request.getfixturevalue("postgres_server")) as url:
        other = Store(parse_url(url))
        make_by_upgrade(other)
        assert described(other) == first


@pytest.mark.parametrize("make", [make_at_first_write, make_by_upgrade])
@on_sqlite
def test_sqlite_clusters_rows_by_their_key(store: Store, make: Any) -> None:
    make(store)
    with store.reading() as reading:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%WITHOUT ROWID%' ORDER BY name"
        found = reading.connection.exec_driver_sql(query.replace("%", "%%")).scalars().all()
        expected = {"audits", "candidate_sets", "curated_choices", "entry_specializations", "observations", "timings"}
        assert set(found) == {*expected, "votes"}


@pytest.mark.parametrize("make", [make_at_first_write, make_by_upgrade])
@pytest.mark.parametrize("database", ["postgres", "postgres-icu"], indirect=True)
def test_every_text_compares_byte_by_byte_in_postgres(store: Store, make: Any) -> None:
    make(store)
    names = ", ".join(f"'{name}'" for name in schema.metadata.tables)
    query = (
        "SELECT table_name, column_name FROM information_schema.columns"
        f" WHERE table_name IN ({names}) AND data_type IN ('text', 'character varying')"
        " AND collation_name IS DISTINCT FROM 'C'"
    )
    with store.reading() as reading:
        assert reading.connection.exec_driver_sql(query).all() == []


def test_upgrade_leaves_another_tools_version_table_alone(store: Store) -> None:
    engine = sa.create_engine(store.url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('v3.0.0.d')")
        connection.exec_driver_sql("CREATE TABLE trials (trial_id INTEGER)")
    upgrade_database(store)
    downgrade_database(store, "base")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all() == ["v3.0.0.d"]
    engine.dispose()
    assert {"alembic_version", "trials"} <= tables_of(store)


@pytest.mark.parametrize("name", ["100%", "50%s", "a%20b", "%(here)s", "q?x=1", "h#1", "plus+and space"])
def test_strange_folder_names(name: str, tmp_path: Path) -> None:
    database = tmp_path / name / "registry.db"
    database.parent.mkdir()
    run = CliRunner()
    assert run.invoke(app, ["--db", str(database), "db", "upgrade"]).exit_code == 0
    assert database.is_file()
    shown = run.invoke(app, ["--db", str(database), "status", "--format", "json"])
    assert f'"revision": "{schema.HEAD}"' in shown.stdout


@on_postgres
def test_a_percent_sign_in_a_password(database: str) -> None:
    url = parse_url(database)
    role = f"percent_{str(url.database)[-12:]}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'p@ss/%w'")
    quoted = f"postgresql://{role}:p%40ss%2F%25w@{database.partition('@')[2]}"
    result = CliRunner().invoke(app, ["--db", quoted, "db", "upgrade"])
    assert (result.exit_code, f"created the schema ({schema.HEAD})" in result.stderr) == (0, True)
    assert "p%40ss" not in result.stderr
    assert parse_url(quoted).password == "p@ss/%w"


def test_logging_is_left_as_it_is(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("train")
    handler = logging.NullHandler()
    log.addHandler(handler)
    root = logging.getLogger()
    caplog.set_level(logging.DEBUG)

    def state() -> list[Any]:
        return [root.level, list(root.handlers), log.level, list(log.handlers), log.disabled,
                [logger.disabled for name in sorted(logging.Logger.manager.loggerDict)
                 if name == "train" and isinstance(logger := logging.getLogger(name), logging.Logger)],
                logging.root.manager.disable]  # fmt: skip

    before = state()
    upgrade_database(store)
    assert state() == before
    log.info("step 1")
    assert "step 1" in caplog.messages
    log.removeHandler(handler)


@both
def test_an_older_schema_is_refused_with_the_command_to_run(
    store: Store, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(store, write_ranks(tmp_path, [A]), IngestOptions(run="demo"))
    with store.reading() as reading:
        before = reading.row_counts()
    monkeypatch.setattr(schema, "REVISIONS", (*schema.REVISIONS, "9999"))
    monkeypatch.setattr(schema, "HEAD", "9999")
    for words in (("ingest", *write_ranks(tmp_path, [A, A]), "--run", "x"), ("winners",), ("export", "--arch", "sm90")):
        result = cli(*words)
        assert (result.exit_code, result.stderr.count("\n")) == (1, 2)
        assert result.stderr.endswith(
            f"the schema is older than this program (found {schema.REVISIONS[-2]}, expected 9999); run: registry db upgrade\n"
        )
    monkeypatch.undo()
    with store.reading() as reading:
        assert reading.row_counts() == before


@both
def test_a_version_table_without_one_row_is_refused(store: Store) -> None:
    make_at_first_write(store)
    with store.migrating() as connection:
        connection.execute(sa.delete(schema.version_table))
    with pytest.raises(SchemaError, match="holds 0 revisions; expected one"):
        find_winners(store, Selection())


def load_dump(database: str, revision: str) -> None:
    if database.startswith("sqlite"):
        connection = sqlite3.connect(str(parse_url(database).database))
        connection.executescript((DATA / f"{revision}-sqlite.sql").read_text())
        connection.close()
        return
    with psycopg.connect(database) as server:
        server.execute((DATA / f"{revision}-postgres.sql").read_bytes())


@pytest.mark.parametrize("revision", schema.REVISIONS[:-1])
def test_a_database_of_a_past_revision_is_upgraded_and_used(
    store: Store, database: str, tmp_path: Path, revision: str
) -> None:
    load_dump(database, revision)
    assert store.revision() == revision
    assert upgrade_database(store) == (revision, schema.HEAD)
    status = describe_status(store)
    assert (status["superseded_recordings"], [run.name for run in list_runs(store) if run.withdrawn_at]) == (1, ["bad"])
    table = export_table(store, Selection(arch="sm103"))
    assert table.payload["kernels"] == {"fla.k": {"M=1|é": A}}
    pinned = 0 if revision == "0001" else 1  # an entry without votes, in the dumps of revisions that have overrides
    assert len(find_winners(store, Selection(arch="sm90"))) == 45 + pinned
    before = status_counts(store)
    report = ingest(store, write_ranks(tmp_path, [A, A]), IngestOptions(run="later", triton="3.6.0"))
    assert (report.new, report.votes, report.new_entries) == (2, 2, 1)
    after = status_counts(store)
    assert (after["votes"] - before["votes"], after["recordings"] - before["recordings"]) == (2, 2)
    assert len(find_winners(store, Selection(arch="sm90"))) == 46 + pinned
    assert (after["override_events"], after["exports"]) == (3 * pinned, pinned)


def status_counts(store: Store) -> dict[str, int]:
    with store.reading() as reading:
        return reading.row_counts()


def run_alembic(*words: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "alembic", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=cwd)


@both
def test_alembic_by_itself(store: Store, database: str) -> None:
    for words in (("upgrade", "head"), ("check",)):
        result = run_alembic("-x", f"db={database}", *words)
        assert result.returncode == 0, result.stderr
    assert store.revision() == schema.HEAD
    assert f"{schema.HEAD} (head)" in run_alembic("-x", f"db={database}", "current").stdout


@on_sqlite
def test_alembic_from_another_folder(store: Store, database: str, tmp_path: Path) -> None:
    result = run_alembic("-c", ROOT / "alembic.ini", "-x", f"db={database}", "upgrade", "head", cwd=tmp_path)
    assert (result.returncode, store.revision()) == (0, schema.HEAD), result.stderr


@on_sqlite
def test_migrations_in_a_folder_with_a_percent_sign(database: str, store: Store, tmp_path: Path) -> None:
    checkout = tmp_path / "100%s"
    for name in ("tuning_registry", "migrations"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    code = f"import sys; sys.path.insert(0, {str(checkout)!r}); from tuning_registry.cli.app import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, "--db", database, "db", "upgrade"], capture_output=True, text=True, check=False
    )
    assert (result.returncode, store.revision()) == (0, schema.HEAD), result.stderr


def test_the_sql_of_the_migrations_can_be_printed() -> None:
    result = run_alembic("upgrade", "head", "--sql")
    assert result.returncode == 0, result.stderr
    assert re.findall(r"CREATE TABLE (\w+)", result.stdout)[0] == schema.VERSION_TABLE
