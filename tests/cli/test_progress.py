"""Progress bars: on a terminal, after a second, and gone at the end."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import config, version_2, write_recording
from tuning_registry.db.migrate import downgrade_database, upgrade_database
from tuning_registry.db.store import Store
from tuning_registry.operations.ingest.ingest import ingest

WORK = """
import sys, time
from tuning_registry.cli import progress
progress._DELAY = float(sys.argv[1])
with progress.show_progress("writing to the database") as work:
    for _ in work.track(range(4)):
        time.sleep(0.2)
    time.sleep(0.3)
print("done", file=sys.stderr)
"""


def stderr_of(delay: float) -> str:
    """What the script shows on a terminal."""
    ours, theirs = pty.openpty()
    environment = {
        "TERM": "xterm",
        "COLUMNS": "100",
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", WORK, str(delay)]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs, env=environment):
        os.close(theirs)
        data = b""
        try:
            while part := os.read(ours, 65536):
                data += part
        except OSError:  # Linux reports the end of a terminal like this
            pass
    os.close(ours)
    return data.decode()


def test_a_terminal_sees_counts_and_the_time_left() -> None:
    shown = stderr_of(0)
    assert re.search(
        r"reading files [^\r]* [23]/4 0:00:0\d 0:00:0\d left", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    )
    assert "writing to the database" in shown
    assert shown.endswith("\x1b[2Kdone\r\n")  # the line of the bar was erased


def test_work_of_less_than_a_second_shows_nothing() -> None:
    assert stderr_of(60) == "done\r\n"


def test_a_pipe_gets_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", WORK, "0"], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("", "done\n")


@pytest.mark.parametrize("revision", ["base", "0004"])
def test_an_upgrade_reports_its_steps(store: Store, revision: str) -> None:
    upgrade_database(store)
    downgrade_database(store, revision)
    steps: list[tuple[int, int]] = []
    upgrade_database(store, report=lambda done, total: steps.append((done, total)))
    total = len(steps) - 1
    assert total >= 2
    assert steps == [(done, total) for done in range(total + 1)]


def _recorded(folder: Path, rank: int, keys: list[str]) -> Path:
    """A recording with a vote and two timings per key, and one observation."""
    timed = {key: [[config(B=16), [1.0, 1.0, 1.0]], [config(B=32), None]] for key in keys}
    seen = {"M=9": {"reason": "miss: no key", "config": None}}
    document = version_2({"sm90": {"k": dict.fromkeys(keys, config(B=16))}}, rank, rank=rank,
                         timings={"sm90": {"k": timed}}, observations={"sm90": {"k": seen}})  # fmt: skip
    return write_recording(folder / f"rec.rank{rank}.json", document)


def test_an_ingest_reports_what_it_has_inserted(store: Store, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []

    def ingested() -> int:
        steps.clear()
        ingest(store, [tmp_path], report=lambda done, total: steps.append((done, total)))
        assert (steps[0][0], steps[-1][0]) == (0, steps[0][1])
        assert steps == sorted(steps)
        return steps[0][1]

    _recorded(tmp_path, 0, ["M=1"])
    _recorded(tmp_path, 1, ["M=1"])
    assert ingested() == 2 * (1 + 2)
    _recorded(tmp_path, 0, ["M=1", "M=2"])  # it has grown by a vote and two timings
    _recorded(tmp_path, 2, ["M=1"])
    assert ingested() == (1 + 2) + (1 + 2)
