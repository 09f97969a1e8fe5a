"""When a pinned job compiles in the background, and that nothing done there reaches its launches, its end or its children."""

# mypy: disable-error-code="import-untyped, import-not-found"
# (Triton has no types, or is not installed.)

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runtime.compile_ahead.conftest import ROOT, environment
from tuning_registry.compiler import COMPILED, FAILED, Compiler
from tuning_registry.formats.compile_file import CompileData, compile_file_of, read_compile_file
from tuning_registry.formats.table import read_table
from tuning_registry.model.specializations import Specialization
from tuning_registry.runtime import install, installed, uninstall
from tuning_registry.runtime.compile_ahead import background
from tuning_registry.runtime.compile_ahead.background import THREAD_NAME, workers_beside, workers_in_memory
from tuning_registry.runtime.guard import fault_counts
from tuning_registry.runtime.job import nvml


def wait() -> None:
    """Wait for what is done in the background."""
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def tables(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the table and its compile data, and an empty cache."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(background, "usable_cores", lambda _: 4)
    monkeypatch.setattr(background, "core_quota", lambda: None)
    monkeypatch.setattr(background, "idle_cores", lambda: 64.0)
    monkeypatch.setattr(background, "available_memory", lambda: None)
    return Path(shutil.copytree(recorded / "tables", tmp_path / "tables"))


class Fake:
    """A compiler that only notes what it was asked for."""

    asked: list[Fake]

    def __init__(self, kernels: Any, **options: Any) -> None:
        self.kernels, self.options = kernels, options
        self.is_stopped = False
        Fake.asked.append(self)

    def outcomes(self) -> Iterator[dict[str, Any]]:
        for index in range(len(self.kernels)):
            yield {"outcome": COMPILED, "index": index}

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[Fake]:
    Fake.asked = []
    monkeypatch.setattr(background, "Compiler", Fake)
    return Fake


def data_of(tables: Path) -> tuple[Path, CompileData]:
    file = compile_file_of(tables / "sm90.json", read_table(tables / "sm90.json").digest)
    return file, read_compile_file(file)


def pinned(tables: Path, **fields: Any) -> None:
    install(mode="pinned", table_path=tables, **{"arch": "sm90", **fields})
    wait()


def test_all_kernels_are_compiled_from_the_install_on(tables: Path, fake: type[Fake]) -> None:
    pinned(tables)
    (asked,) = fake.asked
    assert len(asked.kernels) == 8
    assert asked.options["workers"] == 3
    assert asked.options["is_background"]
    uninstall()


def test_the_machines_architecture_is_asked_for_if_the_policy_states_none(
    tables: Path, fake: type[Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tables / "sm100.json").write_bytes((tables / "sm90.json").read_bytes().replace(b"sm90", b"sm100"))
    monkeypatch.setattr(background, "management_arch", lambda: None)
    pinned(tables, arch=None)
    assert fake.asked == []  # known at the first launch
    uninstall()
    monkeypatch.setattr(background, "management_arch", lambda: "sm90")
    pinned(tables, arch=None)
    assert len(fake.asked) == 1
    uninstall()


def test_without_an_architecture_the_first_launch_begins(
    tables: Path, fake: type[Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tuning_registry.runtime.control import active_session

    monkeypatch.setattr(background, "management_arch", lambda: None)
    pinned(tables, arch=None)
    session = active_session()
    assert session is not None
    for _ in range(3):
        session.tables.table("sm90")
        wait()
    assert len(fake.asked) == 1
    uninstall()


@pytest.mark.parametrize("fields", [{"compile_ahead": False}, {"mode": "auto"}, {"chaos": True}])
def test_it_is_off_if_the_policy_says_so_or_does_not_pin(tables: Path, fake: type[Fake], fields: Any) -> None:
    install(**{"mode": "pinned", "table_path": tables, "arch": "sm90", **fields})
    wait()
    assert fake.asked == []
    uninstall()


def test_the_variable_turns_it_off(tables: Path, fake: type[Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"MODE": "pinned", "TABLE_PATH": str(tables), "ARCH": "sm90", "COMPILE_AHEAD": "0"}.items():
        monkeypatch.setenv(f"TUNING_REGISTRY_{name}", value)
    install()
    wait()
    assert fake.asked == []
    uninstall()


def make_one_core(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    monkeypatch.setattr(background, "usable_cores", lambda _: 1)


def make_a_core_per_rank(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")


def make_busy(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    monkeypatch.setattr(background, "idle_cores", lambda: 0.4)


def make_other_triton(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    monkeypatch.setattr(background, "installed_triton", lambda: "2.1.0")


def make_no_file(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    data_of(tables)[0].unlink()


def make_broken_file(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    file = data_of(tables)[0]
    file.write_bytes(file.read_bytes()[:200])


def make_newer_file(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    file = data_of(tables)[0]
    file.write_bytes(file.read_bytes().replace(b'"version": 1', b'"version": 2'))


def make_foreign_file(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    file, data = data_of(tables)
    file.write_bytes(dataclasses.replace(data, digest="0" * 64).data)


def make_cache_a_file(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    (tables.parent / "cache").write_text("")


def make_cache_read_only(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK and access(path, mode))


def make_disk_full(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))


def make_frozen(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)


def make_temporary_full(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/temporary")
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: SimpleNamespace(free=1 << (20 if "temporary" in str(path) else 40))
    )


def make_short_of_memory(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    monkeypatch.setattr(background, "available_memory", lambda: 1 << 30)


def make_huge_file(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    with data_of(tables)[0].open("ab") as file:
        file.truncate((16 << 20) + 1)


def make_fifo(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    file = data_of(tables)[0]
    file.unlink()
    os.mkfifo(file)


def make_always_compiling(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")


def make_kernels_of_the_script(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    file, data = data_of(tables)
    kernels = [dataclasses.replace(one, specialization=dataclasses.replace(one.specialization, module="__main__"))
               for one in data.kernels]  # fmt: skip
    file.write_bytes(dataclasses.replace(data, kernels=kernels).data)


def make_kernels_of_another_module(monkeypatch: pytest.MonkeyPatch, tables: Path) -> None:
    file, data = data_of(tables)
    kernels = [dataclasses.replace(one, specialization=dataclasses.replace(one.specialization, module="antigravity"))
               for one in data.kernels]  # fmt: skip
    file.write_bytes(dataclasses.replace(data, kernels=kernels).data)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_one_core, "no core is idle"),
        (make_a_core_per_rank, "no core is idle"),
        (make_busy, "no core is idle"),
        (make_other_triton, "this process uses Triton 2.1.0"),
        (make_no_file, " is missing; "),
        (make_broken_file, "truncated"),
        (make_newer_file, "version: expected 1, found the integer 2"),
        (make_foreign_file, "is for the table with digest 0000000000000000"),
        (make_cache_a_file, "cannot be written"),
        (make_cache_read_only, "cannot be written"),
        (make_disk_full, "less than 1 GiB left"),
        (make_frozen, "is not a Python interpreter"),
        (make_temporary_full, "temporary files, /temporary, has less than 256 MiB left"),
        (make_short_of_memory, "too little memory is available"),
        (make_huge_file, "larger than the limit of 16 MiB"),
        (make_fifo, "not a regular file"),
        (make_always_compiling, "TRITON_ALWAYS_COMPILE is set"),
        (make_kernels_of_the_script, "in the script itself"),
        (make_kernels_of_another_module, "recorded under another name than that of its module, antigravity"),
    ],
)
def test_where_it_cannot_help_it_is_off_and_the_log_says_why(
    make: Any,
    reason: str,
    tables: Path,
    fake: type[Fake],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG if make is make_no_file else logging.INFO)  # most tables have none
    make(monkeypatch, tables)
    pinned(tables)
    (said,) = [line for line in caplog.messages if "not compiled in the background" in line]
    assert reason in said
    assert fake.asked == []
    assert fault_counts() == {}
    uninstall()


def test_kernels_out_of_scope_are_left_out(tables: Path, fake: type[Fake], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    pinned(tables, modules=("other",))
    assert fake.asked == []
    assert any("none of the table's kernels is in scope" in line for line in caplog.messages)
    uninstall()


def test_ranks_of_a_host_share_its_cores_and_begin_at_different_kernels(
    tables: Path, fake: type[Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "usable_cores", lambda _: 64)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    for rank in range(4):
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        pinned(tables)
        uninstall()
    assert [one.options["workers"] for one in fake.asked] == [8] * 4  # (64 - 4) / 4, and no more than kernels
    assert [one.options["first"] for one in fake.asked] == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("cores", "ranks", "quota", "idle", "workers"),
    [(16, 1, None, 15.2, 15), (1, 1, None, 1.0, 0), (2, 1, None, 1.0, 1), (128, 8, None, 128.0, 15), (8, 8, None, 8.0, 0),
     (12, 8, None, 4.0, 1), (512, 1, None, 500.0, 32), (16, 1, 16.0, 15.0, 7), (2, 1, 2.0, 2.0, 0), (16, 1, None, 3.4, 3),
     (16, 1, None, 0.3, 0)],
)  # fmt: skip
def test_each_rank_keeps_a_core(
    cores: int, ranks: int, quota: float | None, idle: float, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "idle_cores", lambda: idle)
    monkeypatch.setattr(background, "usable_cores", lambda _: cores)
    monkeypatch.setattr(background, "core_quota", lambda: quota)
    assert workers_beside(ranks) == workers


@pytest.mark.parametrize(
    ("gib", "ranks", "workers"), [(None, 8, 32), (1, 1, 0), (2, 1, 0), (4, 1, 4), (32, 8, 4), (1024, 8, 252)]
)
def test_each_rank_has_its_share_of_the_memory(
    gib: int | None, ranks: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "available_memory", lambda: None if gib is None else gib << 30)
    assert workers_in_memory(ranks) == workers


def test_a_compiler_that_cannot_be_started_is_a_fault_and_no_error(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", fail)
    pinned(tables)
    assert fault_counts() == {"compiling ahead": 1}
    uninstall()


def test_a_policy_that_has_ended_compiles_no_more(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_go_on = threading.Event(), threading.Event()
    asked: list[Any] = []

    class Slow(Fake):
        def outcomes(self) -> Iterator[dict[str, Any]]:
            begun.set()
            may_go_on.wait(30)
            yield {"outcome": COMPILED, "index": 0}

        def stop(self) -> None:
            asked.append("stopped")
            may_go_on.set()

    Fake.asked = []
    monkeypatch.setattr(background, "Compiler", Slow)
    install(mode="pinned", table_path=tables, arch="sm90")
    assert begun.wait(30)
    with installed(mode="auto"):
        assert asked == []  # the policy goes on afterwards
    child = os.fork()
    if child == 0:  # which has its parent's policy, but not its compiler
        uninstall()
        os._exit(len(asked))
    assert os.waitpid(child, 0)[1] == 0
    uninstall()
    assert asked == ["stopped"]
    wait()


def test_a_driver_without_management_library_states_no_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_LIBRARY", "no such library")
    assert nvml.management_arch() is None


class TestProcess:
    """The real process: what kills it, and what outlives it."""

    @pytest.fixture
    def kernels(self, tables: Path) -> list[Specialization]:
        return [one.specialization for one in data_of(tables)[1].kernels]

    @staticmethod
    def children_of(pid: int) -> list[int]:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    @staticmethod
    def is_alive(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
        except OSError:
            return False

    def await_end(self, *pids: int) -> None:
        deadline = time.monotonic() + 30
        while any(map(self.is_alive, pids)):
            assert time.monotonic() < deadline, pids
            time.sleep(0.05)

    def test_killed_children_lose_their_kernel_and_no_more(
        self, kernels: list[Specialization], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The module's own code stops the first two children that compile its kernel, as a lack of memory would."""
        (tmp_path / "cold_killed.py").write_text(
            "import os, signal, triton\n"
            "@triton.jit\n"
            "def hidden(x, n, B: triton.language.constexpr):\n    pass\n"
            "hidden.preload = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        killed = [dataclasses.replace(kernels[0], module="cold_killed", function="hidden")] * 2
        outcomes = list(Compiler([*killed, *kernels], workers=2, is_background=True).outcomes())
        failed = [one for one in outcomes if one["outcome"] == FAILED]
        assert sorted(one["index"] for one in failed) == [0, 1]
        assert {one["why"] for one in failed} == {"the compiler was killed by signal 9"}
        assert sum(one["outcome"] == COMPILED for one in outcomes) == len(kernels)

    def test_a_killed_process_ends_the_list(self, kernels: list[Specialization]) -> None:
        compiler = Compiler(kernels, workers=2, is_background=True)
        outcomes = compiler.outcomes()
        assert next(outcomes)["outcome"] == "imported"
        leader = compiler._process.pid
        children = self.children_of(leader)
        os.kill(leader, signal.SIGKILL)
        assert sum(one["outcome"] == COMPILED for one in outcomes) <= len(kernels)
        self.await_end(*children)

    def test_stopping_kills_all_of_it_at_once(self, kernels: list[Specialization]) -> None:
        compiler = Compiler(kernels, workers=2, is_background=True)
        outcomes = compiler.outcomes()
        next(outcomes)
        family = [compiler._process.pid, *self.children_of(compiler._process.pid)]
        compiler.stop()
        compiler.stop()
        list(outcomes)
        self.await_end(*family)

    def test_it_leaves_processor_and_memory_to_others(self, kernels: list[Specialization]) -> None:
        compiler = Compiler(kernels, workers=1, is_background=True)
        outcomes = compiler.outcomes()
        next(outcomes)
        pid = compiler._process.pid
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
        assert os.getpriority(os.PRIO_PROCESS, pid) == 19
        assert os.getsid(pid) == os.getsid(0)  # nice works among the processes of a session
        compiler.stop()
        list(outcomes)

    @pytest.mark.parametrize("end", ["return", "os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)", "1 / 0"])
    def test_however_a_job_ends_its_compiler_ends(self, end: str, tables: Path, tmp_path: Path) -> None:
        script = (
            "import os, signal, subprocess, sys, threading, time\n"
            "from tuning_registry import compiler\n"
            "from tuning_registry.runtime import install\n"
            "from tuning_registry.runtime.compile_ahead import background\n"
            "background.usable_cores = lambda _: 4\n"
            "background.idle_cores = lambda: 4.0\n"
            "background.available_memory = lambda: None\n"
            "started, popen = threading.Event(), subprocess.Popen\n"
            "def start(*args, **options):\n"
            "    process = popen(*args, **options)\n"
            "    print(process.pid, flush=True)\n"
            "    started.set()\n"
            "    return process\n"
            "subprocess.Popen = start\n"
            "def job():\n"
            f"    install(mode='pinned', table_path={str(tables)!r}, arch='sm90')\n"
            "    started.wait(30)\n"
            "    if os.fork() == 0:\n"  # a worker that outlives the job holds its pipes
            "        time.sleep(3)\n"
            "        os._exit(0)\n"
            f"    {end}\n"
            "job()\n"
        )
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script], env=environment(tmp_path / "cache"), cwd=ROOT,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert ended.stdout.strip().isdigit(), ended.stderr
        self.await_end(int(ended.stdout))
        assert "Fatal Python error" not in ended.stderr

    def test_two_jobs_on_one_cache_both_succeed(self, kernels: list[Specialization]) -> None:
        both = [Compiler(kernels, workers=1, first=first) for first in (0, 4)]
        found: list[list[dict[str, Any]]] = []
        threads = [threading.Thread(target=lambda one=one: found.append(list(one.outcomes()))) for one in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
        assert [sum(one["outcome"] == FAILED for one in outcomes) for outcomes in found] == [0, 0]

    def test_a_cache_that_cannot_be_written_is_a_reason(self, kernels: list[Specialization], tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        compiler = Compiler(kernels[:2], workers=1, environ={"TRITON_CACHE_DIR": str(tmp_path / "file" / "cache")})
        failed = [one for one in compiler.outcomes() if one["outcome"] == FAILED]
        assert len(failed) == 2
        assert all("NotADirectoryError" in one["why"] for one in failed)
