"""What tests of recording share: entries, recorders, folders, forks, and a database that answers as told."""

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from tuning_registry.formats.hand_ins import HandIn, unpack_hand_in
from tuning_registry.formats.recordings import parse_recording
from tuning_registry.model.canonical import config_text
from tuning_registry.model.records import Recording
from tuning_registry.runtime.recording import hand_in
from tuning_registry.runtime.recording.recorder import Recorder

ROOT = Path(__file__).parents[3]


CONFIGS = [config_text({"kwargs": {"B": b}, "num_warps": 4, "num_stages": 2}) for b in range(5)]


def entry(number: Any = 0, kernel: Any = "pkg.kernel") -> Any:
    return ("sm90", kernel, f"M={number}")


def made(tmp_path: Path, **options: Any) -> Any:
    (tmp_path / "rec").mkdir(exist_ok=True)
    return Recorder(
        str(tmp_path / "rec" / "r"), options.pop("run", "job"), None, interval_s=options.pop("interval_s", 0.01)
    )


def files(tmp_path: Path) -> Any:
    """The recordings in the folder, without temporary files of a write in progress."""
    return sorted(file for file in (tmp_path / "rec").iterdir() if not file.name.startswith("."))


def wait_for(condition: Any, seconds: Any = 10.0) -> None:
    event = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        event.wait(0.01)
    pytest.fail("did not happen in time")


CHILD = """
    import os, signal, sys, time
    from tests.runtime.fakes import autotuner, launch, Timer
    from tuning_registry.runtime import install
    install({"record_path": sys.argv[1], "arch": "sm90"})
    for name in ("a", "b", "c"):
        launch(autotuner(name=name))
    time.sleep(float(sys.argv[3]))
    how = sys.argv[2]
    if how == "exit": os._exit(0)
    if how == "raise": raise RuntimeError("after kernel c")
    if how != "end": os.kill(os.getpid(), getattr(signal, how))
"""


def child(tmp_path: Path, how: Any, wait: Any = 2.0, **environment: Any) -> Any:
    pytest.importorskip("triton")
    (tmp_path / "rec").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), str(tmp_path / "rec" / "r"), how, str(wait)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def forked(work: Any) -> None:
    """Run `work` in a child by `fork`."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


class FakeDatabase:
    """A stand-in for `tuning_registry.db.appending`: each answer is None or an error; the last one is repeated."""

    def __init__(self, answers: Any = (None,), accepts: bool = True) -> None:
        self.answers = list(answers)
        self.accepts = accepts
        self.urls: list[str] = []
        self.identities: list[str] = []
        self.hand_ins: list[HandIn] = []

    @property
    def recordings(self) -> list[Recording]:
        """What it has taken."""
        return [parse_recording(one.recording, "hand-in") for one in self.hand_ins]

    def append_hand_in(self, url: Any, identity: Any, payload: Any, wait_s: Any) -> None:
        assert 0 < wait_s <= hand_in.BUDGET_S
        self.urls.append(url)
        self.identities.append(identity)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer
        self.hand_ins.append(unpack_hand_in(payload))

    def may_accept(self, url: Any) -> bool:  # noqa: ARG002 - as the module has it
        return self.accepts


URL = "postgresql://user:SECRET@host/db"


def use_database(monkeypatch: pytest.MonkeyPatch, fake: Any) -> Any:
    """Let recorders hand in to this stand-in, with short pauses."""
    monkeypatch.setattr(hand_in, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(hand_in.HandIn.finish, "__defaults__", (0.5,))
    monkeypatch.setitem(sys.modules, "tuning_registry.db.appending", fake)
    return fake


def into_database(monkeypatch: pytest.MonkeyPatch, answers: Any) -> Any:
    """A stand-in with these answers, and a recorder of one vote that has finished."""
    fake = use_database(monkeypatch, FakeDatabase(answers))
    recorder = Recorder(URL, "job", None, interval_s=0.01)
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    return fake, recorder
