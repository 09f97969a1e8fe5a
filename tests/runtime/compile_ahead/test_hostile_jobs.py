"""Jobs that would pass on to the process that compiles what must not reach it, or that it could disturb."""

# mypy: disable-error-code="import-untyped, import-not-found"
# (Triton has no types, or is not installed.)

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.compile_ahead.conftest import ROOT
from tuning_registry.compiler import FAILED, Compiler
from tuning_registry.model.specializations import Specialization

STATE = """
import os, signal
ranks = [name for name in ("MASTER_ADDR", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "LOCAL_RANK", "RANK") if name in os.environ]
raise ValueError(
    f"{ranks} {signal.getsignal(signal.SIGCHLD).name} {signal.getsignal(signal.SIGALRM).name}"
    f" {len(signal.pthread_sigmask(signal.SIG_BLOCK, []))} {os.sched_getscheduler(0) == os.SCHED_OTHER}"
)
"""
STDIN = """
import sys, triton
sys.stdin = None
@triton.jit
def hidden(x):
    pass
hidden.preload = lambda _: 1 / 0
"""


def specialization(module: str) -> Specialization:
    return Specialization(module=module, function="hidden", target=("cuda", 90, 32), cache_key="0" * 64, data="{}")


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A job that ignores and blocks signals, is a rank, has another scheduler, and works in a folder with a `json.py`."""
    (tmp_path / "cwd").mkdir()
    (tmp_path / "cwd" / "json.py").write_text("raise SystemExit('a file of the user')")
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("MASTER_ADDR", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "LOCAL_RANK", "RANK"):
        monkeypatch.setenv(name, "1")
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGCHLD, signal.SIGALRM)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGUSR1])
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    yield tmp_path
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_what_the_job_has_set_does_not_reach_the_process(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its signals, ranks and folder; and the script is not imported, even if the table has kernels under its name."""
    (hostile / "cold_state.py").write_text(STATE)
    (hostile / "cold_stdin.py").write_text(STDIN)
    (hostile / "cold_train.py").write_text("open(__file__ + '.trained', 'w').close()")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(hostile / "cold_train.py"), raising=False)
    modules = ["cold_state", "cold_train", "cold_stdin"]
    outcomes = list(Compiler([specialization(one) for one in modules], workers=1, is_background=True).outcomes())
    reasons = {modules[one["index"]]: one["why"] for one in outcomes if one["outcome"] == FAILED}
    assert reasons == {
        "cold_state": "ValueError: ['LOCAL_RANK', 'RANK'] SIG_DFL SIG_DFL 0 True",
        "cold_train": "LookupError: the module cold_train is the training script itself, which only the job may run",
        "cold_stdin": "ZeroDivisionError: division by zero",
    }
    assert not list(hostile.glob("*.trained"))


@pytest.mark.parametrize(
    ("name", "value"), [("executable", "/opt/app/train"), ("executable", ""), ("frozen", "macosx_app")]
)
def test_an_application_that_is_not_the_interpreter_is_not_started_again(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, name, value, raising=False)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    with pytest.raises(OSError, match="interpreter"):
        Compiler([], workers=1)


def test_a_process_that_the_job_has_waited_for_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be another process's by then."""
    killed: list[Any] = []
    compiler = Compiler([], workers=1)
    os.kill(compiler._process.pid, signal.SIGKILL)
    os.waitpid(compiler._process.pid, 0)
    monkeypatch.setattr(os, "killpg", lambda *which: killed.append(which))
    compiler.stop()
    assert killed == []
    list(compiler.outcomes())


def test_the_pipes_are_no_standard_streams_of_a_job_that_has_closed_its_own() -> None:
    """Or what the job prints would fill them, and in the end wait."""
    code = (
        "import os\n"
        "os.closerange(0, 3)\n"
        "from tuning_registry.compiler import Compiler\n"
        "compiler = Compiler([], workers=1)\n"
        "pipes = [compiler._process.stdin.fileno(), compiler._process.stdout.fileno()]\n"
        "compiler.stop()\n"
        "def is_open(number):\n"
        "    return os.path.exists(f'/proc/self/fd/{number}')\n"
        "os._exit(0 if min(pipes) > 2 and not any(map(is_open, range(3))) else 1)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=60).returncode == 0
