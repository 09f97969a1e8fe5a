"""Postgres servers that are away, refuse, or are lost on the way; and no password in any output."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

from tests.conftest import H200, Cli, write_ranks
from tests.helpers import (
    A,
    error_of,
    on_postgres,
    votes_in,
)
from tuning_registry.cli.app import app
from tuning_registry.db import dialects
from tuning_registry.db.url import parse_url

SECRET = "hunter2%2F"  # as it is written in a URL; decoded: hunter2/


def with_user(database: str, user: str, password: str = SECRET) -> str:
    """The URL for another user; the password as it is written in the URL."""
    rest = database.partition("@")[2]
    return f"postgresql://{user}:{password}@{rest}"


def assert_no_secret(result: Result | subprocess.CompletedProcess[str]) -> None:
    assert "hunter2" not in result.stdout + result.stderr


@pytest.mark.parametrize("words", [("ingest", H200), ("winners",), ("status",), ("db", "upgrade"), ("db", "check")])
def test_an_unreachable_server(words: tuple[str, ...]) -> None:
    url = f"postgresql://u:{SECRET}@127.0.0.1:1/db"
    result = CliRunner().invoke(app, ["--db", url, *map(str, words)])
    assert error_of(result).startswith("error: postgresql://u:***@127.0.0.1:1/db: cannot connect: ")
    assert_no_secret(result)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@127.0.0.1:1/db",
        "postgresql://u@127.0.0.1:1/db?password=hunter2",
        "postgresql://u@127.0.0.1:1/db?pasword=hunter2",
        "postgresql://u:x@hunter2@127.0.0.1:1/db",
        "postgresql://u:x@hunter2:y@127.0.0.1:1/db",
        "postgresql:/u:hunter2@127.0.0.1/db",
        "postgres:u:hunter2@127.0.0.1/db",
        "postgresql//u:hunter2@127.0.0.1/db",
        "postgress//u:hunter2@127.0.0.1/db",
        "u:hunter2@127.0.0.1/db",
        "//u:hunter2@127.0.0.1/db",
        "postgresql+psycopg2://u:hunter2@127.0.0.1/db",
        "mysql://u:hunter2@127.0.0.1/db",
        "postgresql://u:hunter2@127.0.0.1:port/db",
        "postgresql://u:hunter2@127.0.0.1:1/db?connect_timeout=soon",
    ],
)
@pytest.mark.parametrize("words", [("--debug", "winners"), ("db", "path")], ids=["debug", "path"])
def test_no_password_is_ever_printed(url: str, words: tuple[str, ...]) -> None:
    assert_no_secret(CliRunner().invoke(app, ["--db", url, *words]))
    assert_no_secret(CliRunner().invoke(app, words, env={"TUNING_REGISTRY_DB": url}))


@pytest.fixture
def weak(database: str) -> Iterator[str]:
    """URL of `database` for a role that may connect and nothing else."""
    engine = sa.create_engine(parse_url(database), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    role = f"weak_{os.getpid()}"
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN PASSWORD 'hunter2/'")
        yield with_user(database, role)
        connection.exec_driver_sql(f"DROP OWNED BY {role}")
        connection.exec_driver_sql(f"DROP ROLE {role}")


@pytest.mark.parametrize(
    ("words", "job"),
    [
        (("ingest", H200), "ingester"),
        (("winners",), "reader"),
        (("export", "--arch", "sm90"), "reader"),
        (("db", "upgrade"), "owner"),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else given,
)
@on_postgres
def test_a_role_without_rights(cli: Cli, weak: str, words: tuple[str, ...], job: str) -> None:
    assert cli("ingest", H200, "--run", "demo").exit_code == 0
    result = CliRunner().invoke(app, ["--db", weak, *map(str, words)])
    name = parse_url(weak).username
    assert f": permission denied for table tuning_registry_alembic_version: {name} needs a role " in error_of(result)
    assert error_of(result).endswith(f"run: GRANT tuning_registry_{job} TO {name}")
    assert_no_secret(result)


@on_postgres
def test_a_role_that_may_not_create(database: str, weak: str) -> None:
    result = CliRunner().invoke(app, ["--db", weak, "ingest", str(H200)])
    advice = f"GRANT CREATE ON SCHEMA public TO {parse_url(weak).username}"
    assert error_of(result).endswith("may not create tables. Ask an administrator to run: " + advice)
    with psycopg.connect(database) as connection:
        connection.execute(advice.encode())  # the advice helps
    assert CliRunner().invoke(app, ["--db", weak, "ingest", str(H200)]).exit_code == 0


@on_postgres
def test_a_role_that_may_only_read(database: str, cli: Cli, weak: str, tmp_path: Path) -> None:
    assert cli("ingest", H200, "--run", "demo").exit_code == 0
    with psycopg.connect(database) as connection:
        name = str(parse_url(weak).username)
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}")
    table = CliRunner().invoke(app, ["--db", weak, "export", "--arch", "sm90"])
    assert table.stdout == cli("export", "--arch", "sm90").stdout
    result = CliRunner().invoke(app, ["--db", weak, "ingest", *map(str, write_ranks(tmp_path, [A]))])
    assert error_of(result).endswith(f"GRANT tuning_registry_ingester TO {name}")
    assert votes_in(database) == 360


def before_votes(monkeypatch: pytest.MonkeyPatch, act: Callable[[sa.Connection], None]) -> None:
    """Do something in the middle of the next ingest's transaction, after it has written rows."""
    insert = dialects.insert_unrolled

    def act_and_insert(connection: sa.Connection, table: sa.Table, *rows: Any) -> None:
        if table.name == "votes":
            act(connection)
        insert(connection, table, *rows)

    monkeypatch.setattr(dialects, "insert_unrolled", act_and_insert)


def backend_of(connection: sa.Connection) -> int:
    return int(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())


@on_postgres
def test_a_backend_that_is_terminated_during_an_ingest(
    database: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("ingest", H200, "--run", "first").exit_code == 0

    def terminate(connection: sa.Connection) -> None:
        pid = backend_of(connection)
        with psycopg.connect(database) as other:
            other.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])

    with monkeypatch.context() as patch:
        before_votes(patch, terminate)
        result = cli("ingest", H200, "--run", "second")
    assert ": the connection was lost: " in error_of(result)
    assert votes_in(database) == 360
    assert cli("ingest", H200, "--run", "second").exit_code == 0


def lost_in_the_middle(url: str, monkeypatch: pytest.MonkeyPatch, act: Callable[[sa.Connection], None]) -> None:
    """An ingest into a database that holds a run already, in whose middle the server is lost."""
    assert CliRunner().invoke(app, ["--db", url, "ingest", str(H200), "--run", "first"]).exit_code == 0
    with monkeypatch.context() as patch:
        before_votes(patch, act)
        result = CliRunner().invoke(app, ["--db", url, "ingest", str(H200), "--run", "second"])
    assert ": the connection was lost: " in error_of(result)
    assert_no_secret(result)


def a_repeat_completes_it(url: str) -> None:
    """Nothing of the lost ingest is there, and the same command again takes it in."""
    assert votes_in(url) == 360
    assert CliRunner().invoke(app, ["--db", url, "ingest", str(H200), "--run", "second"]).exit_code == 0
    assert votes_in(url) == 720
    assert CliRunner().invoke(app, ["--db", url, "db", "check"]).exit_code == 0


def test_a_server_that_is_stopped_during_an_ingest_and_started_again(
    own_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = with_user(own_server.get_uri(), "postgres")
    lost_in_the_middle(url, monkeypatch, lambda _: own_server.stop())
    after = CliRunner().invoke(app, ["--db", url, "winners"])
    assert ": cannot connect: " in error_of(after)
    own_server.start()
    a_repeat_completes_it(with_user(own_server.get_uri(), "postgres"))


def test_a_backend_that_dies_during_an_ingest(own_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server then ends every connection and recovers from its log."""
    url = with_user(own_server.get_uri(), "postgres")
    lost_in_the_middle(url, monkeypatch, lambda connection: os.kill(backend_of(connection), signal.SIGKILL))
    for _ in range(100):
        if CliRunner().invoke(app, ["--db", url, "winners"]).exit_code == 0:
            break
        time.sleep(0.1)
    a_repeat_completes_it(url)
