"""Least privilege on Postgres: each role does its job, and nothing beyond it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner, Result

from tests.conftest import config, empty_database, version_2, write_ranks
from tuning_registry.cli.app import app
from tuning_registry.db import schema
from tuning_registry.db.appending import append_hand_in
from tuning_registry.db.migrate import downgrade_database
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.errors import ForbiddenError
from tuning_registry.formats.hand_ins import pack_hand_in

A, B = config(B=1), config(B=2)


def run(*words: object) -> Result:
    return CliRunner().invoke(app, list(map(str, words)), prog_name="registry")


@pytest.fixture
def roles(postgres_server: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    """URLs of the same registry for its admin and for a user in each role."""
    prefix = f"r{uuid.uuid4().hex[:8]}"
    with empty_database(postgres_server) as admin:
        assert run("--db", admin, "ingest", *write_ranks(tmp_path, [A, A, B]), "--run", "first").exit_code == 0
        printed = run("db", "roles", "--prefix", prefix)
        users = {job: f"{prefix}_{job}_user" for job in ("owner", "recorder", "ingester", "reader")}
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(printed.stdout.encode())
            for job, user in users.items():
                connection.execute(f"CREATE ROLE {user} LOGIN IN ROLE {prefix}_{job}".encode())
        url = parse_url(admin)
        yield {"admin": admin} | {
            job: url.set(drivername="postgresql", username=user).render_as_string(hide_password=False)
            for job, user in users.items()
        }
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for name in (*users.values(), *(f"{prefix}_{job}" for job in users)):
            connection.execute(f"DROP ROLE {name}".encode())


EVERYTHING: tuple[str, ...] = (*schema.metadata.tables, "counted_votes", schema.VERSION_TABLE)


def test_a_recorder_appends_hand_ins_and_can_do_nothing_else(roles: dict[str, str], tmp_path: Path) -> None:
    payload = pack_hand_in([json.dumps(version_2({"sm90": {"k": {"M=1": A}}}, 7, rank=7)).encode()])
    for _ in range(2):  # a retry is harmless, and needs no right to read
        append_hand_in(roles["recorder"], "a", payload, 10)
    for table in EVERYTHING:
        refuse(roles["recorder"], f"SELECT 1 FROM {table}")
        if table != "counted_votes":
            refuse(roles["recorder"], f"DELETE FROM {table}")
        if table not in {"counted_votes", "hand_ins"}:
            refuse(roles["recorder"], f"INSERT INTO {table} DEFAULT VALUES")
    refuse(roles["recorder"], "UPDATE hand_ins SET state = 'refused'")
    refuse(roles["recorder"], "UPDATE recorded_runs SET withdrawn_at = 'now'")
    refuse(roles["recorder"], "INSERT INTO hand_ins VALUES ('b', '', 1, '', 'pending') RETURNING id")
    refuse(roles["recorder"], "SELECT nextval('recordings_id_seq')")
    refuse(roles["recorder"], "CREATE TABLE mine (x int)")
    refuse(roles["recorder"], "DROP TABLE votes")
    with psycopg.connect(roles["admin"]) as connection:
        assert connection.execute("SELECT id, state FROM hand_ins").fetchall() == [("a", "pending")]
    for role in ("reader", "ingester"):
        with pytest.raises(ForbiddenError, match="grant its user the role tuning_registry_recorder"):
            append_hand_in(roles[role], "b", payload, 10)
    for words in (("winners",), ("ingest", *write_ranks(tmp_path, [B]), "--run", "more"), ("fold",)):
        assert run("--db", roles["recorder"], *words).exit_code == 1


def test_an_ingester_ingests_folds_completes_and_replaces_but_decides_nothing(
    roles: dict[str, str], tmp_path: Path
) -> None:
    for number in (1, 2):
        votes = {"sm90": {"k": {f"M={m}": A for m in range(number)}}}
        timings = {"sm90": {"k": {f"M={m}": [[A, [1, 1, 1]], [B, None]] for m in range(number)}}}
        seen = {"sm90": {"once": {"M=1": {"config": A, "reason": "single candidate"}}}}
        grown = version_2(
            votes, 7, rank=7, timings=timings, observations=seen, packages={"k": "1"}, sources={"k": "0" * 64}
        )
        append_hand_in(roles["recorder"], str(number), pack_hand_in([json.dumps(grown).encode()]), 10)
        done = run("--db", roles["ingester"], "fold")
        assert (done.exit_code, "folded 1 hand-in" in done.stderr) == (0, True), done.stderr
    assert "1 completed" in done.stderr
    append_hand_in(roles["recorder"], "x", b"hostile", 10)
    assert run("--db", roles["ingester"], "fold").exit_code == 1  # refused
    for words in (
        ("ingest", *write_ranks(tmp_path / "1", [B, B]), "--run", "more"),
        ("ingest", *write_ranks(tmp_path / "2", [A, B]), "--run", "more", "--replace"),
        ("hand-ins",), ("status",), ("winners",), ("hand-ins", "--save", tmp_path / "saved"),
    ):  # fmt: skip
        done = run("--db", roles["ingester"], *words)
        assert done.exit_code == (words[1:2] == ("--save",)), (words, done.stderr)  # the hostile one holds no recording
    for words in WRITING[:-1]:
        done = run("--db", roles["ingester"], *words)
        assert (done.exit_code, "GRANT tuning_registry_owner TO " in done.stderr) == (1, True), (words, done.stderr)
    refuse(roles["ingester"], "UPDATE recordings SET withdrawn_at = 'now'")
    refuse(roles["ingester"], "UPDATE hand_ins SET payload = ''")


def refuse(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement.encode())


READING: tuple[tuple[object, ...], ...] = (
    ("winners",), ("disagreements", "--cost"), ("misses",), ("status",), ("runs",), ("exports",), ("overrides",),
    ("export", "--arch", "sm90", "--policy", "fastest"), ("db", "check"),
)  # fmt: skip
PLACE = ("--arch", "sm90", "--kernel", "k", "--key", "M=1", "--config", json.dumps(B), "--reason", "r")
WRITING: tuple[tuple[object, ...], ...] = (
    ("pin", *PLACE), ("ban", *PLACE), ("ban", *PLACE, "--config", "num_warps=8", "--force"), ("runs", "withdraw", "first"), ("db", "upgrade"),
)  # fmt: skip


def test_a_reader_reads_everything_and_writes_the_log_of_exports_only(roles: dict[str, str], tmp_path: Path) -> None:
    for words in READING:
        done = run("--db", roles["reader"], *words)
        assert done.exit_code == 0, (words, done.stderr)
    file = tmp_path / "sm90.json"
    done = run("--db", roles["reader"], "export", "--arch", "sm90", "-o", file)
    assert (done.exit_code, file.exists()) == (0, True)
    assert "registry exports will not list it" not in done.stderr
    assert len(json.loads(run("--db", roles["reader"], "exports", "--format", "json").stdout)) == 1
    refuse(roles["reader"], "DELETE FROM exports")
    refuse(roles["reader"], "UPDATE exports SET exported_by = 'me'")
    for words, job in (
        *((words, "owner") for words in WRITING[:-1]),
        (("ingest", *write_ranks(tmp_path, [B]), "--run", "more"), "ingester"),
    ):
        done = run("--db", roles["reader"], *words)
        advice = f"GRANT tuning_registry_{job} TO {parse_url(roles['reader']).username}\n"
        assert (done.exit_code, advice in done.stderr) == (1, True), (words, done.stderr)
    refuse(roles["reader"], "CREATE TABLE mine (x int)")


def test_the_owner_does_all_of_it(roles: dict[str, str], tmp_path: Path) -> None:
    for words in (*READING, *WRITING, ("lift", "1", "--reason", "r"), ("runs", "restore", "first"),
                  ("ingest", *write_ranks(tmp_path / "2", [B, B]), "--run", "more"),
                  ("ingest", *write_ranks(tmp_path / "3", [A, B]), "--run", "more", "--replace"),
                  ("export", "--arch", "sm90", "-o", tmp_path / "sm90.json")):  # fmt: skip
        if words[0] == "ban":
            continue  # refused while the opposite pin stands
        done = run("--db", roles["owner"], *words)
        assert done.exit_code == 0, (words, done.stderr)
        assert "note: the table" not in done.stderr


def test_without_createrole_the_sql_says_what_is_missing(postgres_server: str) -> None:
    prefix = f"r{uuid.uuid4().hex[:8]}"
    with empty_database(postgres_server) as admin:
        assert run("--db", admin, "db", "upgrade").exit_code == 0
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {prefix} LOGIN".encode())
        url = parse_url(admin).set(drivername="postgresql", username=prefix).render_as_string(hide_password=False)
        with (
            psycopg.connect(url, autocommit=True) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege, match=f"{prefix} may not create the role") as caught,
        ):
            connection.execute(run("db", "roles", "--prefix", prefix).stdout.encode())
        assert f"ALTER ROLE {prefix} CREATEROLE" in str(caught.value.diag.message_hint)
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"DROP ROLE {prefix}".encode())


@pytest.mark.parametrize("name", ['a"; DROP TABLE votes; --', "", "a b", "x" * 60])
def test_names_of_roles_are_plain(name: str) -> None:
    done = run("db", "roles", "--prefix", name)
    assert (done.exit_code, done.stdout) == (2, "")
    assert run("db", "roles", "--schema", name).exit_code == 2


@pytest.mark.parametrize("by_superuser", [False, True])
def test_the_creator_of_the_schema_goes_on_as_before(postgres_server: str, tmp_path: Path, by_superuser: bool) -> None:
    prefix = f"r{uuid.uuid4().hex[:8]}"
    boss = f"{prefix}_boss"
    with empty_database(postgres_server) as admin:
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {boss} LOGIN {'' if by_superuser else 'CREATEROLE'}".encode())
            connection.execute(f"ALTER DATABASE {parse_url(admin).database} OWNER TO {boss}".encode())
            connection.execute("CREATE TABLE of_another_tool (id serial PRIMARY KEY)")
        url = parse_url(admin).set(drivername="postgresql", username=boss).render_as_string(hide_password=False)
        assert run("--db", url, "ingest", *write_ranks(tmp_path / "1", [A]), "--run", "first").exit_code == 0
        printed = run("db", "roles", "--prefix", prefix).stdout.encode()
        for _ in range(2):  # after an upgrade it is run again
            with psycopg.connect(admin if by_superuser else url, autocommit=True) as connection:
                connection.execute(printed)
            for words in (
                ("ingest", *write_ranks(tmp_path / "2", [A]), "--run", "second"),
                ("winners",),
                ("db", "upgrade"),
            ):
                done = run("--db", url, *words)
                assert done.exit_code == 0, (words, done.stderr)
        downgrade_database(Store(parse_url(url)), schema.REVISIONS[-2])
        assert run("--db", url, "db", "upgrade").exit_code == 0
        with psycopg.connect(admin, autocommit=True) as connection:
            query = "SELECT has_sequence_privilege(%s, 'of_another_tool_id_seq', 'USAGE')"
            assert connection.execute(query, [f"{prefix}_recorder"]).fetchone() == (False,)
            for job in ("owner", "recorder", "ingester", "reader"):
                connection.execute(f"DROP OWNED BY {prefix}_{job}".encode())
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for name in (boss, *(f"{prefix}_{job}" for job in ("owner", "recorder", "ingester", "reader"))):
            connection.execute(f"DROP ROLE {name}".encode())
