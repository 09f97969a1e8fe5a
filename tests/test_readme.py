"""Every block of the README is run: commands must print what it shows, Python must pass."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()
# Documents whose console blocks are run, and the least number of commands in them.
TOURS = {"README.md": 10, "docs/evidence.md": 10}
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


def test_every_command_is_in_the_readme() -> None:
    from tests.cli.test_cli import all_commands

    for command in all_commands():
        assert command.split()[-1] in README, command


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
