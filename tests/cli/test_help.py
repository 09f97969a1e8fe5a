"""The help of every command: examples that work, no Python types, and any width of terminal."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.cli.test_cli import all_commands
from tests.conftest import H200, ROOT
from tuning_registry.cli.app import PANELS, app

CLI = ROOT / "tuning_registry" / "cli"


def command_of(name: str) -> Any:
    command: Any = typer.main.get_command(app)
    for part in name.split():
        command = command.commands[part]
    return command


def examples_of(name: str) -> list[str]:
    epilog = command_of(name).epilog or ""
    return [line.removeprefix("$ ") for line in epilog.splitlines() if line.startswith("$ ")]


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words), prog_name="registry")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every example works: recordings, a cache, two tables, a registry."""
    folder = tmp_path_factory.mktemp("prepared")
    shutil.copytree(H200, folder / "recordings")
    shutil.copytree(ROOT / "tests" / "data" / "triton-cache", folder / "triton-cache")
    for words in (
        ["ingest", str(H200), "--run", "july", "--triton", "3.6.0"],
        ["ingest", str(ROOT / "tests" / "data" / "tools" / "vllm"), "--package", "vllm=0.33.0"],
        ["export", "--arch", "sm90", "-o", str(folder / "old.json")],
        ["export", "--arch", "sm90", "-o", str(folder / "sm90.json")],
    ):
        assert run("--db", str(folder / "registry.db"), *words).exit_code == 0
    return folder


@pytest.mark.parametrize("example", [example for name in all_commands() for example in examples_of(name)])
def test_every_example_works(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str) -> None:
    shutil.copytree(prepared, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("TUNING_REGISTRY_DB", "registry.db")
    program, *words = shlex.split(example.partition(" > ")[0])
    if words[0] == "warm":
        pytest.importorskip("triton")
    if words[0] == "lift":
        run(*shlex.split(examples_of("pin")[0])[1:])
    result = run(*words)
    assert (program, result.exit_code) == ("registry", 0), result.stderr


def test_every_command_has_an_example_of_itself() -> None:
    for name in all_commands():
        examples = examples_of(name)
        assert examples, name
        assert all(f"registry {name}" in example or example.startswith("registry db") for example in examples), name


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_help_uses_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for name in ["", *all_commands()]:
        shown = run(*name.split(), "--help").stdout
        assert max(map(len, shown.splitlines())) == columns, name


def test_help_names_no_python_types() -> None:
    for name in ["", *all_commands()]:
        assert re.findall(r"<\w+(?:\[\w+\])?>", run(*name.split(), "--help").stdout) == [], name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("winners", "--format", "xml"), "'--format': 'xml' is not one of 'table', 'json', 'csv', 'markdown'."),
        (("ingest", "x", "--rank", "a"), "'--rank': expected an integer, found 'a'."),
        (("ingest", "x", "--rank", "\x1b[2J"), r"'--rank': expected an integer, found '\x1b[2J'."),
        (("export", "--arch", "sm90", "--generalize", "x"), "'--generalize': expected a number, found 'x'."),
        (("runs", "withdraw"), "Missing argument 'RUN'."),
        (("lift", "one", "--reason", "r"), "'ID': expected an integer, found 'one'."),
    ],
)
def test_usage_errors_in_plain_words(words: tuple[str, ...], message: str) -> None:
    result = run(*words)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert "Value error" not in result.stderr
    assert "\x1b[2J" not in result.stderr


def test_a_panel_is_a_file() -> None:
    files = {}
    for panel, commands in PANELS.items():
        (files[panel],) = {command.__module__.rpartition(".")[2] for command in commands.values()}
        docstring = ast.get_docstring(ast.parse((CLI / f"{files[panel]}.py").read_text())) or ""
        assert f'"{panel}"' in docstring
    assert len(set(files.values())) == len(files)
    assert len([*CLI.glob("*.py")]) <= 15
