"""Every block of the README is run: commands must print what it shows, Python must pass, no command is missing."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.conftest import ROOT
from tuning_registry.cli.app import app

README = (ROOT / "README.md").read_text()
# Documents whose console blocks are run, and the least number of commands in them.
TOURS = {"README.md": 10, "docs/evidence.md": 10}
CODE = re.compile(r"^```\w*\n.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[tuple[str, str]]:
    """`(command, expected output)` of a console block."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copytree(ROOT / "tests" / "data", tmp_path / "tests" / "data")
    tools = tmp_path / "bin"
    tools.mkdir()
    # A machine without sqlite3's own shell still has Python's.
    shell = (
        "-c \"import sqlite3, sys; [print(*r, sep='|') for r in sqlite3.connect(sys.argv[1]).execute(sys.argv[2])]\""
    )
    for name, module in (("registry", "-m tuning_registry"), ("python", ""), ("sqlite3", shell)):
        script = tools / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        script.chmod(0o755)
    database = f"sqlite:///{tmp_path}/registry.db"
    return os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "TUNING_REGISTRY_DB": database,
                         "PYTHONPATH": str(ROOT)}  # fmt: skip


@pytest.mark.parametrize("document", TOURS)
def test_documents_tell_the_truth(tmp_path: Path, shell: dict[str, str], document: str) -> None:
    checker = doctest.OutputChecker()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    ran = 0
    blocks = BLOCK.findall((ROOT / document).read_text())
    for kind, block in blocks:
        if kind == "console":
            for command, expected in commands(block):
                done = subprocess.run(
                    command, shell=True, cwd=tmp_path, env=shell, text=True, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, check=False,
                )  # fmt: skip
                assert done.returncode == ("\nerror: " in expected), (command, done.stdout)
                assert checker.check_output(expected, done.stdout, flags), (
                    f"{command}\n{done.stdout}\nexpected:\n{expected}"
                )
                ran += 1
    assert ran >= TOURS[document]
    python = "".join(block for kind, block in blocks if kind == "python")
    subprocess.run([sys.executable, "-c", python], cwd=tmp_path, env=shell, check=True)


def reference() -> str:
    """The page docs/commands.md: every command with its arguments and the first paragraph of its help."""
    rows = []
    for name, command in leaf_commands():
        usage = command.get_usage(typer.Context(command, info_name=name))
        usage = re.sub(r" \[OPTIONS\]| COMMAND.*|[{}]", "", usage).replace("......", "...")
        summary = " ".join(command.help.partition("\n\n")[0].split()).replace("|", "\\|")
        rows.append(f"| `registry {' '.join(usage.split()[1:])}` | {summary} |\n")
    return (
        "# Commands\n\n"
        "`registry NAME --help` lists the options of a command.\n\n"
        "| command | what it does |\n| --- | --- |\n" + "".join(rows)
    )


def leaf_commands() -> list[tuple[str, Any]]:
    """Every command that can be run, with its full name, in the order of `--help`."""

    def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        if getattr(command, "invoke_without_command", True):
            yield name, command
        for key, child in getattr(command, "commands", {}).items():
            yield from walk(child, f"{name} {key}".strip())

    return list(walk(typer.main.get_command(app), ""))


def test_the_list_of_commands_is_what_the_program_has(request: pytest.FixtureRequest) -> None:
    path = ROOT / "docs" / "commands.md"
    if request.config.getoption("--rewrite-golden"):
        path.write_text(reference())
    assert path.read_text() == reference(), "docs/commands.md differs; pytest --rewrite-golden rewrites it"


def test_documents_name_no_command_that_is_gone() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    code = "\n".join(span for page in pages for span in CODE.findall(page.read_text()))
    named = set(re.findall(r"(?:^|[`$(&|] ?)registry ((?:db |runs )?[a-z]+)", code, re.MULTILINE))
    assert len(named) > 15
    assert named - {name for name, _ in leaf_commands()} <= {"db"}  # the group


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
