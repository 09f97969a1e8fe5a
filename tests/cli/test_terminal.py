"""The command on a terminal of a given width, and piped."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import H200, run_registry

OnTerminal = Callable[..., str]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    database = tmp_path_factory.mktemp("registry") / "r.db"
    done = run_registry("--db", database, "ingest", H200, "--run", "july", "--triton", "3.6.0")
    assert done.returncode == 0
    return database


@pytest.fixture
def on_terminal(registry: Path) -> OnTerminal:
    """Run a command whose stdout is a terminal: `on_terminal(80, "winners", NO_COLOR="1")`."""

    def run(width: int, *arguments: object, **variables: str) -> str:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS"}}
        command = [sys.executable, "-m", "tuning_registry", "--db", str(registry), *map(str, arguments)]
        with subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL,
            env=environment | {"TERM": "xterm-256color"} | variables,
        ):  # fmt: skip
            os.close(theirs)
            data = b""
            while True:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # Linux says so when the other side is closed
                    break
                if not part:
                    break
                data += part
        os.close(ours)
        return data.decode().replace("\r\n", "\n")

    return run


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize(
    "command",
    [
        ("disagreements", "--cost"),
        ("explain", "--arch", "sm90", "--kernel", "_chunk_cumsum_fwd_kernel"),
        ("kernels",),
        ("runs",),
    ],
    ids=" ".join,
)
def test_a_terminal_gets_lines_that_fit(command: tuple[str, ...], on_terminal: OnTerminal, registry: Path) -> None:
    piped = run_registry("--db", registry, *command).stdout
    narrow, wide = (plain(on_terminal(width, *command)) for width in (80, 200))
    assert wide == piped
    assert any(len(line) > 80 for line in piped.splitlines()) or narrow == piped
    for line in narrow.splitlines():
        assert len(line) <= 80 or len(line.split()) == 1, line  # a name alone is never broken
    assert set(narrow.split()) >= set(piped.split()) - {"KERNEL", "CONFIG", "CHOSEN", "BY", "-"}


def test_colours_repeat_what_the_text_says(on_terminal: OnTerminal) -> None:
    shown = on_terminal(200, "disagreements", "--cost")
    assert "\x1b[1;31mconflict\x1b[m" in shown
    assert re.search(r"\x1b\[1mBLOCK_SIZE_H=16 num_warps=4 num_stages=3\x1b\[m .*\[elected\]", shown)


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_colours_can_be_switched_off(variables: dict[str, str], on_terminal: OnTerminal) -> None:
    assert "\x1b" not in on_terminal(80, "disagreements", "--cost", **variables)


def test_a_pipe_gets_no_colours(registry: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"FORCE_COLOR": "1"}
    done = run_registry("--db", registry, "winners", env=environment)
    assert (done.returncode, "\x1b" in done.stdout + done.stderr) == (0, False)


def test_other_formats_are_the_same_on_a_terminal(on_terminal: OnTerminal, registry: Path) -> None:
    for style in ("json", "csv", "markdown"):
        assert on_terminal(80, "disagreements", "--format", style) == run_registry(
            "--db", registry, "disagreements", "--format", style
        ).stdout.replace("\r\n", "\n")
