"""Code blocks of a Markdown page: found, run as a reader would run them, and rewritten when their output changed.

Comments in the lines above a block change how it is treated:

| mark | meaning |
| --- | --- |
| `<!-- needs: THING -->` | The block runs only where a shell provides this. The runtime suite provides `triton`, `torch` |
| | and `job` (a `train.py` that tunes a kernel, and launchers), the core suite `no-triton`. |
| `<!-- before: CODE -->` | Code in the block's language that makes what the block takes for granted; it runs first. |
| `<!-- after: CODE -->` | Shell commands that check what the block did. `$PRINTED` is a file with its output. |
| `<!-- until: TEXT -->` | The block starts a server, which is interrupted once it has printed this, and must exit 0. |
| `<!-- run by: FILE -->` | A test in this file runs the block. Here only its syntax is checked. |
| `<!-- not run: REASON -->` | Tests cannot run the block. Only its syntax is checked. |

`<!-- database: postgres -->` anywhere on a page gives the page a new Postgres server with the name `db.example.com`;
`<!-- object store: s3 -->` gives it an object store with an empty bucket `bucket`, whose endpoint is also `$STORE`. The
blocks of a page share exported variables. `/shared` and `/local` are folders of the page's shell. `$CHECKOUT` is the
project.
"""

from __future__ import annotations

import datetime as dt
import doctest
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
POSTGRES_MARK = "<!-- database: postgres -->"
STORE_MARK = "<!-- object store: s3 -->"
MARKS = ("needs", "before", "after", "until", "run by", "not run")
KINDS = {"console", "sh", "python", "json", "yaml", "sql", "toml", "text"}

_BLOCK = re.compile(
    rf"(?P<marks>(?:^ *<!-- (?:{'|'.join(MARKS)}):\s(?:(?!-->).)*-->\n+)*)"
    r"^(?P<indent> *)```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_CHECKER = doctest.OutputChecker()
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_FOLDERS = re.compile(r"(?<![\w.])/(?=(?:shared|local)\b)")
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
    """A fenced block: its language, text and line, and the marks above it."""

    kind: str
    text: str
    line: int
    marks: Mapping[str, str]


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
              line=text.count("\n", 0, match.start("kind")) + 1, marks=dict(re.findall(r"<!-- ([^:]+):\s(.*?)\s-->", match["marks"], re.DOTALL)))
        for match in _BLOCK.finditer(text)
    ]  # fmt: skip


def blocks_run_by(file: str, page: str) -> list[Block]:
    """The blocks of a page that a test file runs itself."""
    return [block for block in blocks(page) if block.marks.get("run by") == str(Path(file).relative_to(ROOT))]


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
    """A folder with the project's examples in which the blocks of one page run, one after the other.

    Args:
        folder: An empty folder.
        provides: What this environment has of the things that blocks need.
        variables: Environment variables to set.
        tools: Folders of programs that take precedence over those of the machine.
    """

    def __init__(
        self,
        folder: Path,
        *,
        provides: Collection[str] = (),
        variables: Mapping[str, str] | None = None,
        tools: Collection[Path] = (),
    ) -> None:
        self.folder = folder.resolve()
        self.provides = set(provides)
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        for data in ("triton-cache", "triton-autotune-cache", "tools"):
            shutil.copytree(ROOT / "tests" / "data" / data, self.folder / "tests" / "data" / data)
        for made in (".bin", "shared", "local", "scratch"):
            (self.folder / made).mkdir()
        self.exports = self.folder / ".exports"
        self.exports.touch()
        sqlite = "import sqlite3, sys; [print(*r, sep='|') for r in sqlite3.connect(sys.argv[1]).execute(sys.argv[2])]"
        for name, arguments in {
            "registry": "-m tuning_registry",
            "python": "",
            "sqlite3": f'-c "{sqlite}"',  # a machine without SQLite's shell has Python's module
        }.items():
            self.add_tool(name, arguments)
        path = [self.folder / ".bin", *tools, Path(sys.executable).parent]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNING_REGISTRY_")}
        self.environment = kept | {
            "PATH": ":".join([*map(str, path), kept["PATH"]]),
            "PYTHONPATH": str(ROOT),
            "CHECKOUT": str(ROOT),
            "HOME": str(self.folder),
            "SCRATCH": str(self.folder / "scratch"),
            "XDG_DATA_HOME": str(self.folder / ".data"),
            "TUNING_REGISTRY_DB": f"sqlite:///{self.folder}/registry.db",
            "PRINTED": str(self.folder / ".printed"),
            "COLUMNS": "120",
            "NO_COLOR": "1",
            "OMP_NUM_THREADS": "1",
            **(variables or {}),
        }  # fmt: skip

    def add_tool(self, name: str, arguments: str) -> None:
        """A program on the path that runs Python with these arguments, in front of those that it gets."""
        script = self.folder / ".bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        script.chmod(0o755)

    def runs(self, block: Block) -> bool:
        """Whether this shell can run the block."""
        needed = set(block.marks.get("needs", "").split())
        return block.marks.keys().isdisjoint({"not run", "run by"}) and needed <= self.provides

    def here(self, code: str) -> str:
        """Code whose folders on the machine's root are folders of this shell."""
        return _FOLDERS.sub(f"{self.folder}/", code)

    def run(self, command: str) -> tuple[int, str]:
        """Exit status and output (both streams) of a shell command; paths and times are shown as `...`."""
        done = subprocess.run(
            ["bash", "-c", f". {self.exports}\n{self.here(command)}"], cwd=self.folder, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=300,
        )  # fmt: skip
        output = _TIME.sub("...", done.stdout.replace(str(self.folder), "..."))
        (self.folder / ".printed").write_text(output)
        return done.returncode, output

    def prepare(self, block: Block) -> None:
        """Make what the block takes for granted."""
        if "before" in block.marks:
            self.run_script(block.marks["before"])

    def run_block(self, block: Block) -> None:
        """Run a block in a language of the shell, and what checks it; blocks of data need no running."""
        self.prepare(block)
        if block.kind == "console":
            self.run_console(block)
        elif "until" in block.marks:
            self.run_server(block.text, block.marks["until"])
        elif block.kind == "sh":
            self.run_script(block.text)
        elif block.kind == "sql":
            self.run_script(f'sqlite3 registry.db "{block.text}"')
        elif block.kind == "yaml":
            for step in workflow_steps(block.text):
                self.run_script(step)
        if "after" in block.marks:
            self.run_script(block.marks["after"])

    def run_console(self, block: Block) -> None:
        """Run every command of a console block and compare what it prints with what is shown."""
        for command in commands(block.text):
            status, output = self.run(command.text)
            assert same_output(command.shown, output), f"$ {command.text}\n{output}\nshown:\n{command.shown}"
            handled = "||" in command.text
            fails = not handled and re.search("^error: ", command.shown, re.MULTILINE) is not None
            assert (status != 0) == fails, f"$ {command.text}\nexit status {status}"

    def run_script(self, text: str) -> None:
        """Run a block of shell commands; the first that fails ends it. What it exports, later commands have."""
        status, output = self.run(f"set -eo pipefail\n{text}\nexport -p >{self.exports}")
        assert status == 0, f"{text}\n{output}"

    def run_server(self, text: str, sign: str) -> None:
        """Run shell commands of which the last is a server, and interrupt it once its output has the sign."""
        *first, last = text.rstrip().split("\n")
        self.run_script("\n".join(first))
        with subprocess.Popen(
            ["bash", "-c", f". {self.exports}\nexec env --default-signal=INT timeout --foreground 120 {self.here(last)}"], cwd=self.folder, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as server:  # fmt: skip
            assert server.stdout is not None
            output = ""
            while sign not in output and (line := server.stdout.readline()):
                output += line
            server.send_signal(signal.SIGINT)
            output += server.stdout.read()
        assert sign in output, output
        assert server.returncode == 0, output

    def run_python(self, text: str) -> None:
        """Run Python code in a new process."""
        script = self.folder / ".page.py"
        script.write_text(self.here(text))
        status, output = self.run(f"PYTHONPATH={self.folder}:$PYTHONPATH python -W error::DeprecationWarning {script}")
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
        if not shell.runs(block):
            continue
        if block.kind == "python":
            python += f"{block.marks.get('before', '')}\n{block.text}"
        elif block.kind == "console" and rewriting:
            shell.prepare(block)
            done += text[end : match.start("text")] + "".join(_as_it_prints(c, shell) for c in commands(block.text))
            end = match.end("text")
        else:
            shell.run_block(block)
    if rewriting:
        file.write_text(done + text[end:])
    if python:
        shell.run_python(python)


def _as_it_prints(command: Command, shell: Shell) -> str:
    _, output = shell.run(command.text)
    return f"$ {command.text}\n" + (command.shown if same_output(command.shown, output) else output)


def workflow_steps(text: str) -> Iterator[str]:
    """The commands of a workflow's `run:` fields, except those that install something."""
    for indent, line, lines in re.findall(r"^( *-? *)run: (?:([^|\n].*)|[|]\n((?:\1 +.*\n)+))", text, re.MULTILINE):
        del indent
        if "pip install" not in line:
            yield line or lines
