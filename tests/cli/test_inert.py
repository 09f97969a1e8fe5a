"""Output is inert: names cannot drive a terminal or a spreadsheet, and no password is printed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.conftest import H200, Cli, config, run_registry, write_ranks, write_recording

A, B = config(B=16), config(B=8, num_warps=8)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:SECRET@nohost.invalid/db",
        "postgresql://u:SECRET@127.0.0.1:1/db",
        "postgresql://u:SECRET@h:port/db",
        "postgres://h/db?user=u&password=SECRET&port=x",
        "mysql://u:SECRET@h/db",
        "postgresql://u:SECRET@127.0.0.1:1/db?sslmode=SECRETX",
    ],
)
def test_no_password_is_ever_printed(url: str) -> None:
    for arguments in (("--db", url, "winners"), ("--debug", "--db", url, "ingest", H200), ("db", "path", "--db", url)):
        done = run_registry(*arguments)
        assert "SECRET@" not in done.stdout + done.stderr
        assert "=SECRET&" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr or "--debug" in arguments


def test_names_cannot_drive_the_terminal(sqlite_cli: Cli, tmp_path: Path) -> None:
    evil = "k\x1b[31m\n\u202e"
    write_recording(tmp_path / "rec.rank0.json", {"sm90": {evil: {"M=1": A}}})
    write_recording(tmp_path / "rec.rank1.json", {"sm90": {evil: {"M=1": B}}})
    sqlite_cli("ingest", tmp_path, "--run", "run\x1b[2J")
    for command in ("winners", "disagreements", "runs", "status"):
        result = sqlite_cli(command)
        assert not set("\x1b\u202e") & set(result.stdout + result.stderr), command
    assert "k\\x1b[31m\\n\\u202e" in sqlite_cli("winners").stdout
    assert json.loads(sqlite_cli("winners", "--format", "json").stdout)[0]["kernel"] == evil


def test_errors_are_as_inert_as_tables(sqlite_cli: Cli, tmp_path: Path) -> None:
    evil = "arch\x1b[31m\n\u202e"
    write_recording(tmp_path / "in" / "rec.rank0.json", {evil: {"k": {"M=1": A}}, "sm90": {"k": {"M=1": A}}})
    sqlite_cli("ingest", tmp_path / "in", "--run", "x", "--triton", evil)
    write_ranks(tmp_path / "more", [A])
    sqlite_cli("ingest", tmp_path / "more", "--run", "y", "--triton", "3.6.0")
    other, mine = tmp_path / "other.json", tmp_path / "mine.json"
    assert sqlite_cli("export", "--arch", evil, "-o", other).exit_code == 0
    assert sqlite_cli("export", "--arch", "sm90", "--run", "y", "-o", mine).exit_code == 0
    for command in (
        ("diff", mine, other),
        ("export", "--arch", "sm90"),
        ("export", "--arch", "sm100"),
        ("merge", tmp_path / "in", "-o", "-"),
        ("pin", "--arch", evil, "--kernel", "x", "--key", "*", "--config", "B=1", "--reason", "r"),
    ):
        for options in ((), ("--debug",)):
            result = sqlite_cli(*options, *command)
            assert result.exit_code == 1
            assert "\\n\\u202e" in result.stderr
            assert not set("\x1b\u202e") & set(result.stdout + result.stderr), command


def test_csv_cells_are_not_formulas(sqlite_cli: Cli, tmp_path: Path) -> None:
    write_ranks(tmp_path, [A, B], kernel="=cmd()")
    sqlite_cli("ingest", tmp_path, "--run", "@run")
    rows = list(csv.DictReader(io.StringIO(sqlite_cli("disagreements", "--format", "csv").stdout)))
    assert [(row["kernel"], row["runs"], row["votes"], row["ranks"]) for row in rows] == [
        ("'=cmd()", "'@run", "1", "0"), ("'=cmd()", "'@run", "1", "1"),
    ]  # fmt: skip


def test_csv_survives_any_character(sqlite_cli: Cli, tmp_path: Path) -> None:
    name = 'k\r\n",;x'
    write_recording(tmp_path / "rec.rank0.json", {"sm90": {name: {"M=1": A}}})
    sqlite_cli("ingest", tmp_path, "--run", "x")
    text = sqlite_cli("winners", "--format", "csv").stdout_bytes.decode()
    assert [row["kernel"] for row in csv.DictReader(io.StringIO(text, newline=""))] == [name]


def test_names_that_would_drive_a_terminal_are_escaped_in_csv_and_exact_in_json(
    sqlite_cli: Cli, tmp_path: Path
) -> None:
    name = "k\x1b[2J\u202e\x07\x9b"
    write_recording(tmp_path / "rec.rank0.json", {"sm90": {name: {"M=1": A}}})
    sqlite_cli("ingest", tmp_path, "--run", "x")
    for words in (("winners",), ("ranks",), ("runs",), ("explain", "--arch", "sm90", "--kernel", name)):
        for style in ("table", "csv"):
            result = sqlite_cli(*words, "--format", style) if words[0] != "explain" else sqlite_cli(*words)
            assert not set("\x1b\u202e\x07\x9b") & set(result.stdout + result.stderr)
    (found,) = json.loads(sqlite_cli("winners", "--format", "json").stdout)
    assert found["kernel"] == name
    (row,) = csv.DictReader(io.StringIO(sqlite_cli("winners", "--format", "csv").stdout))
    assert row["kernel"] == r"k\x1b[2J\u202e\x07\x9b"


def test_long_integers_can_be_shown(sqlite_cli: Cli, tmp_path: Path) -> None:
    digits = "9" * 5000
    for rank, value in enumerate((digits, digits, "1")):
        text = json.dumps({"sm90": {"k": {"M=1": A}}}).replace('"B": 16', f'"B": {value}')
        write_recording(tmp_path / f"rec.rank{rank}.json", text)
    sqlite_cli("ingest", tmp_path, "--run", "x")
    for command in ("winners", "disagreements"):
        assert "B=(an integer of 16,610 bits)" in sqlite_cli(command).stdout
        for style in ("json", "csv"):
            assert digits in sqlite_cli(command, "--format", style).stdout
    too_long = json.dumps({"sm90": {"k": {"M=1": A}}}).replace('"B": 16', '"B": ' + "9" * 2_000_000)
    write_recording(tmp_path / "rec.rank3.json", too_long)
    assert "an integer of 2,000,000 digits; expected at most 100,000" in sqlite_cli("ingest", tmp_path).stderr
