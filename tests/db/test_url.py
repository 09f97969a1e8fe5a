"""Database URLs: parsed, refused, and shown in messages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tuning_registry.cli.app import app
from tuning_registry.db.url import parse_url, shown_url
from tuning_registry.locations import absolute_location


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            "postgres://u:p%40s%2F@h:5/d?password=x&sslmode=require",
            "postgresql://u:***@h:5/d?password=***&sslmode=require",
        ),
        ("postgresql://u@h:5432/d", "postgresql://u@h:5432/d"),
        ("postgresql://u:pw@/d?host=/tmp", "postgresql://u:***@/d?host=%2Ftmp"),
        ("postgresql:///d?pasword=a%40b", "postgresql:///d?pasword=***"),
        ("/a/b.db", "sqlite:////a/b.db"),
        (":memory:", "an in-memory database"),
    ],
)
def test_a_url_is_shown_without_its_secrets(given: str, shown: str) -> None:
    assert shown_url(parse_url(given)) == shown


@pytest.mark.parametrize("spelt", ["sqlite:///~/r.db", "~/r.db"])
def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spelt: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert shown_url(parse_url(spelt)) == f"sqlite:///{tmp_path}/r.db"
    assert absolute_location(spelt) in {f"sqlite:///{tmp_path}/r.db", f"{tmp_path}/r.db"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "prepare_threshold=0",
            "the database URL has an unknown connection option 'prepare_threshold'; expected one of libpq",
        ),
        (
            "prepare_threshold=x",
            "the database URL has an unknown connection option 'prepare_threshold'; expected one of libpq",
        ),
        ("autocommit=1", "unknown connection option 'autocommit'"),
        ("sslmod=require", "unknown connection option 'sslmod'"),
        ("sslmode=require&sslmode=disable", "states sslmode 2 times; expected once"),
    ],
)
def test_a_wrong_connection_option_is_one_line(options: str, said: str) -> None:
    done = CliRunner().invoke(app, ["--db", f"postgresql://u@localhost:1/d?{options}", "winners"])
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("database: ")]
    assert (done.exit_code, said in line, line.startswith("error: ")) == (2, True, True), line


@pytest.mark.parametrize("options", ["connect_timeout=soon", "sslmode=perhaps", "port=x"])
def test_a_wrong_value_of_a_connection_option_is_one_line(options: str) -> None:
    done = CliRunner().invoke(app, ["--db", f"postgresql://u@/d?host=localhost&{options}", "winners"])
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("database: ")]
    assert (done.exit_code, line.startswith("error: ")) == (1, True), line


def test_without_the_driver_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    done = CliRunner().invoke(app, ["--db", "postgresql://u@localhost/d", "winners"])
    said = "error: Postgres needs the driver psycopg, which is not installed; run: pip install 'psycopg[binary]'"
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (1, said)
