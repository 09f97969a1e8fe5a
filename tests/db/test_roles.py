"""Least privilege on Postgres: each role does its job, and nothing beyond it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from tests.conftest import config, empty_database, version_1, write_ranks, write_recording
from tuning_registry.cli.app import app
from tuning_registry.db import schema
from tuning_registry.db.migrate import downgrade_database
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.errors import ConflictError
from tuning_registry.formats.recordings import read_recording
from tuning_registry.model.canonical import config_text
from tuning_registry.model.records import Timing
from tuning_registry.operations.ingest.sink import open_sink
from tuning_registry.runtime.recording.recorder import Recorder

A, B = config(B=1), config(B=2)
TIMED = {"sm90": {"k": {"M=1": [[A, [1, 1, 1]], [B, None]]}}}


def run(*words: object) -> Result:
    return CliRunner().invoke(app, list(map(str, words)), prog_name="registry")


@pytest.fixture
def roles(postgres_server: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    """URLs of the same registry for its admin and for a user in each role."""
    prefix = f"r{uuid.uuid4().hex[:8]}"
    with empty_database(postgres_server) as admin:
        assert run("--db", admin, "ingest", *write_ranks(tmp_path, [A, A, B]), "--run", "first").exit_code == 0
        printed = run("db", "roles", "--prefix", prefix)
        users = {job: f"{prefix}_{job}_user" for job in ("owner", "recorder", "reader")}
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


def document(rank: int, **more: Any) -> Any:
    seen = {"sm90": {"once": {"M=1": {"config": A, "reason": "single candidate"}}}}
    return version_1({"sm90": {"k": {"M=1": A}}}, rank=rank, timings=TIMED, observations=seen,
                     candidate_sets={"sm90": {"k": {"M=1": "f"}}}, packages={"k": "1"}, **more)  # fmt: skip


def test_a_recorder_records_and_can_neither_read_nor_change_votes(roles: dict[str, str], tmp_path: Path) -> None:
    sink = open_sink(roles["recorder"])
    for rank in range(2):
        recording = read_recording(write_recording(tmp_path / f"{rank}.json", json.dumps(document(rank))))
        sink.write(recording)
        sink.write(recording)  # a retry is harmless
    with psycopg.connect(roles["admin"]) as connection:
        assert connection.execute("SELECT count(*) FROM votes").fetchone() == (5,)
        assert connection.execute("SELECT count(*) FROM timings").fetchone() == (4,)
    for table in ("votes", "timings", "override_events", "exports", "counted_votes"):
        refuse(roles["recorder"], f"SELECT * FROM {table}")
    for table in ("votes", "recordings", "configs", "recorded_runs", "tuning_registry_alembic_version"):
        refuse(roles["recorder"], f"DELETE FROM {table}")
    refuse(roles["recorder"], "UPDATE recorded_runs SET withdrawn_at = 'now'")
    refuse(roles["recorder"], "INSERT INTO override_events (action) VALUES ('pin')")
    refuse(roles["recorder"], "CREATE TABLE mine (x int)")
    refuse(roles["recorder"], "DROP TABLE votes")
    other = read_recording(write_recording(tmp_path / "x.json", json.dumps(document(0, source="elsewhere"))))
    with pytest.raises(ConflictError, match="is already in the database"):
        open_sink(roles["recorder"]).write(other)


def test_a_recording_that_grew_stays_a_file_which_ingest_completes(
    roles: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A recorder may add a recording; to complete one, what is stored must be read and changed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    text = config_text(A)
    recorder = Recorder(roles["recorder"], "job", None)
    for key in ("M=1", "M=2"):
        recorder.resume()
        recorder.vote(("sm90", "pkg.k", key), text, [Timing(text, 1.0, 0.9, 1.1)], [text])
        recorder.finish()
        assert (recorder.file is None) == (key == "M=1")
    (file,) = (tmp_path / "data").rglob("*.json")
    assert file == recorder.file
    assert (
        caplog.text.count("holds an earlier state of this recording, and its user may add recordings but not complete")
        == 1
    )
    assert f"the recording stays in its file; to ingest it later, run: registry ingest {file} --db" in caplog.text
    with psycopg.connect(roles["admin"]) as connection:
        count = "SELECT (SELECT count(*) FROM votes), (SELECT count(*) FROM timings)"
        assert connection.execute(count).fetchone() == (4, 1)  # nothing was lost, and nothing half done
        done = run("--db", roles["owner"], "ingest", file)
        assert (done.exit_code, "1 completed" in done.stderr) == (0, True), done.stderr
        assert connection.execute(count).fetchone() == (5, 2)
        assert "1 already ingested" in run("--db", roles["owner"], "ingest", file).stderr
        connection.rollback()


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
        (("ingest", *write_ranks(tmp_path, [B]), "--run", "more"), "recorder"),
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
            for job in ("owner", "recorder", "reader"):
                connection.execute(f"DROP OWNED BY {prefix}_{job}".encode())
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for name in (boss, *(f"{prefix}_{job}" for job in ("owner", "recorder", "reader"))):
            connection.execute(f"DROP ROLE {name}".encode())
