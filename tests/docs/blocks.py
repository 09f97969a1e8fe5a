"""Code blocks of a Markdown page: found, run as a reader would run them, and rewritten when their output changed.

A comment in the line above a block changes how it is treated:

- `<!-- not run: REASON -->`: the block needs something that tests do not have. Only its syntax is checked.
- `<!-- needs: triton -->`: the block runs in the runtime suite, which has Triton; elsewhere only its syntax is checked.

`<!-- database: postgres -->` anywhere on a page makes an empty Postgres database the page's registry.
"""

from __future__ import annotations

import datetime as dt
import doctest
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
POSTGRES_MARK = "<!-- database: postgres -->"
SHOWN_POSTGRES_URL = "postgresql://registry@db.example.com/tuning"
KINDS = {"console", "sh", "python", "json", "yaml", "sql", "toml", "text"}

_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<mark>not run|needs): (?P<reason>[^\n]*?) -->\n+)?"
    r"^(?P<indent> *)```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_CHECKER = doctest.OutputChecker()
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_DAYS = [str(dt.datetime.now(dt.UTC).date() - dt.timedelta(days=days)) for days in (0, 1)]
_TIME = re.compile("|".join(rf"\b{day}([T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00| UTC)?)?\b" for day in _DAYS))


def pages() -> list[str]:
    """Every Markdown file of the project that a person reads, as paths relative to its folder."""
    found = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        ROOT / "benchmarks/README.md",
    ]
    return sorted(str(page.relative_to(ROOT)) for page in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its language, text and line, and the comment above it."""

    kind: str
    text: str
    line: int
    mark: str
    reason: str

    @property
    def runs(self) -> bool:
        """Whether this environment can run the block."""
        return self.mark == "" or (self.mark == "needs" and importlib.util.find_spec(self.reason) is not None)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block and the output shown below it."""

    text: str
    shown: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = (ROOT / page).read_text()
    return [
        Block(kind=match["kind"], text=re.sub(f"^{match['indent']}", "", match["text"], flags=re.MULTILINE),
              line=text.count("\n", 0, match.start("kind")) + 1, mark=match["mark"] or "", reason=match["reason"] or "")
        for match in _BLOCK.finditer(text)
    ]  # fmt: skip


def commands(text: str) -> list[Command]:
    """The commands of a console block; a command ending in a backslash continues on the next line."""
    found: list[Command] = []
    lines = iter(text.splitlines(keepends=True))
    command, shown = "", ""
    for line in lines:
        if line.startswith("$ "):
            if command:
                found.append(Command(command, shown))
            command, shown = line[2:].rstrip("\n"), ""
            while command.endswith("\\"):
                command += "\n" + next(lines).rstrip("\n")
        else:
            shown += line
    return [*found, Command(command, shown)] if command else found


class Shell:
    """A folder with the project's examples in which the blocks of one page run, one after the other."""

    def __init__(self, folder: Path, database: str | None = None) -> None:
        self.folder = folder.resolve()
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        for data in ("triton-cache", "triton-autotune-cache", "tools"):
            shutil.copytree(ROOT / "tests" / "data" / data, self.folder / "tests" / "data" / data)
        self.database = database or f"sqlite:///{self.folder}/registry.db"
        tools = self.folder / ".bin"
        tools.mkdir()
        sqlite = "import sqlite3, sys; [print(*r, sep='|') for r in sqlite3.connect(sys.argv[1]).execute(sys.argv[2])]"
        for name, arguments in {
            "registry": "-m tuning_registry",
            "python": "",
            "sqlite3": f'-c "{sqlite}"',  # a machine without SQLite's shell has Python's module
        }.items():
            script = tools / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            script.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNING_REGISTRY_")}
        self.environment = kept | {
            "PATH": f"{tools}:{Path(sys.executable).parent}:{kept['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder),
            "XDG_DATA_HOME": str(self.folder / ".data"),
            "TUNING_REGISTRY_DB": self.database,
            "COLUMNS": "120",
            "NO_COLOR": "1",
            "OMP_NUM_THREADS": "1",
        }

    def run(self, command: str) -> tuple[int, str]:
        """Exit status and output (both streams) of a shell command; paths and times are shown as `...`."""
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=300,
        )  # fmt: skip
        output = _TIME.sub("...", done.stdout.replace(str(self.folder), "..."))
        if self.database.startswith("postgresql:"):
            name = self.database.partition("?")[0].rpartition("/")[2]
            output = re.sub(rf"postgresql://\S*/{name}[^\s:]*", SHOWN_POSTGRES_URL, output)
        return done.returncode, output

    def run_console(self, block: Block) -> None:
        """Run every command of a console block and compare what it prints with what is shown."""
        for command in commands(block.text):
            status, output = self.run(command.text)
            assert same_output(command.shown, output), f"$ {command.text}\n{output}\nshown:\n{command.shown}"
            handled = "||" in command.text
            fails = not handled and re.search("^error: ", command.shown, re.MULTILINE) is not None
            assert (status != 0) == fails, f"$ {command.text}\nexit status {status}"

    def run_script(self, text: str) -> None:
        """Run a block of shell commands; the first that fails ends it."""
        status, output = self.run(f"set -eo pipefail\n{text}")
        assert status == 0, f"{text}\n{output}"

    def run_python(self, text: str) -> None:
        """Run Python code in a new process."""
        script = self.folder / ".page.py"
        script.write_text(text)
        status, output = self.run(f"python -W error::DeprecationWarning {script}")
        assert status == 0, output


def same_output(shown: str, output: str) -> bool:
    """Whether an output matches what a page shows: `...` matches anything, white space does not count."""
    return _CHECKER.check_output(shown, output, _FLAGS)


def check_syntax(block: Block) -> None:
    """Check a block without running it."""
    assert block.kind in KINDS, f"a block in the language {block.kind!r}"
    if block.kind == "python":
        compile(block.text, "block", "exec")
    elif block.kind == "json":
        json.loads(block.text)
    elif block.kind == "toml":
        tomllib.loads(block.text)
    elif block.kind in {"sh", "console"}:
        scripts = [block.text] if block.kind == "sh" else [command.text for command in commands(block.text)]
        assert scripts, "a console block without a command"
        for script in scripts:
            subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def run_page(page: str, shell: Shell, *, rewriting: bool = False) -> None:
    """Run the blocks of a page that can run here. Python blocks run last, as one program.

    Args:
        page: Path of the page.
        shell: Where to run them.
        rewriting: Replace what the page shows by what the commands print, where the two differ.
    """
    file = ROOT / page
    text, done, end = file.read_text(), "", 0
    python = ""
    for block, match in zip(blocks(page), _BLOCK.finditer(text), strict=True):
        check_syntax(block)
        if not block.runs:
            continue
        if block.kind == "console" and rewriting:
            done += text[end : match.start("text")] + "".join(_as_it_prints(c, shell) for c in commands(block.text))
            end = match.end("text")
        elif block.kind == "console":
            shell.run_console(block)
        elif block.kind == "sh":
            shell.run_script(block.text)
        elif block.kind == "sql":
            shell.run_script(f'sqlite3 registry.db "{block.text}"')
        elif block.kind == "yaml":
            for step in workflow_steps(block.text):
                shell.run_script(step)
        elif block.kind == "python":
            python += block.text
    if rewriting:
        file.write_text(done + text[end:])
    if python:
        shell.run_python(python)


def _as_it_prints(command: Command, shell: Shell) -> str:
    _, output = shell.run(command.text)
    return f"$ {command.text}\n" + (command.shown if same_output(command.shown, output) else output)


def workflow_steps(text: str) -> Iterator[str]:
    """The commands of a workflow's `run:` lines, except those that install something."""
    for step in re.findall(r"^ *-? *run: ([^|\n].*)$", text, re.MULTILINE):
        if "pip install" not in step:
            yield step
