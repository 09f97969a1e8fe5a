"""The process that compiles: imports the kernels' modules once, and forks children that share the work."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from tuning_registry.compiler import CACHED, COMPILED, FAILED, IMPORTED
from tuning_registry.model.specializations import Specialization
from tuning_registry.runtime.compile_ahead.kernels import Compilation, cache_folder, described, find_function

_LONGEST_S: Final = 300  # for one kernel; Triton's slowest take a minute
_SET_PARENT_DEATH_SIGNAL: Final = 1  # prctl(2)
_MESSAGE_BYTES: Final = 1 << 16
_STDIN: Final = 0  # a module may replace or close `sys.stdin` when it is imported


def work(request: Mapping[str, Any]) -> NoReturn:
    """Do what `compiler.Compiler` requests, and end the process."""
    _end_with(int(request["parent"]))
    _reset_signals()
    if request["is_background"]:
        _step_back()
    signal.alarm(int(request["limit_s"]))  # its default is to end the process
    report = _take_stdout()
    kernels = [Specialization.from_dict(one) for one in request["kernels"]]
    try:
        compilation = Compilation(kernels)
    except Exception as error:  # noqa: BLE001 - Triton's own, of whatever kind
        for index in range(len(kernels)):
            report({"outcome": FAILED, "index": index, "why": described(error)})
        os._exit(1)
    functions: dict[int, Any] = {}
    for index, kernel in enumerate(kernels):
        try:
            functions[index] = find_function(kernel.module, kernel.function, request["script"])
        except BaseException as error:  # noqa: BLE001 - a module may also call sys.exit
            report({"outcome": FAILED, "index": index, "why": described(error)})
    report({"outcome": IMPORTED, "cache": str(cache_folder())})

    def compile_one(index: int) -> dict[str, Any]:
        try:
            is_new, key, launcher = compilation.compile(kernels[index], functions[index])
        except Exception as error:  # noqa: BLE001 - Triton's own, of whatever kind
            return {"outcome": FAILED, "index": index, "why": described(error)}
        outcome = COMPILED if is_new else CACHED
        return {
            "outcome": outcome,
            "index": index,
            "is_expected": key == kernels[index].cache_key,
            "launcher": launcher,
        }

    # The longest functions take longest to compile: last, one of them would run alone.
    order = sorted(functions, key=lambda index: (-len(functions[index].src), index))
    first = int(request["first"]) % max(len(order), 1)
    gc.collect()
    gc.freeze()  # children share the memory of what they do not touch
    _Children(compile_one, report, int(request["workers"])).run([*order[first:], *order[:first]])
    os._exit(0)


class _Child:
    """A forked child.

    Attributes:
        pid: Its process id.
        line: Tasks go out, and outcomes come in.
        task: What it is doing; None while it waits.
        until: When that must be done, on the monotonic clock.
    """

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self.line = line
        self.task: int | None = None
        self.until = 0.0


class _Children:
    """Children that do tasks, each one at a time, so that a crash loses no more than its task.

    Args:
        do: Does a task, in a child; its result is sent as JSON.
        report: Takes each result.
        count: Number of children.
    """

    def __init__(
        self, do: Callable[[int], dict[str, Any]], report: Callable[[dict[str, Any]], None], count: int
    ) -> None:
        self._do = do
        self._report = report
        self._count = count
        self._children: list[_Child] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(_STDIN, selectors.EVENT_READ)

    def run(self, tasks: list[int]) -> None:
        """Do the tasks, in this order."""
        left = deque(tasks)
        while left or self._children:
            while left and len(self._children) < self._count:
                child = self._start()
                if child is None:
                    break
                self._give(child, left)
            if not self._children:  # no process can be started
                return
            for key, _ in self._selector.select(timeout=1):
                if key.data is None:
                    os.killpg(0, signal.SIGKILL)  # the process that asked for this has ended
                elif self._hear(key.data):
                    self._give(key.data, left)
            for child in self._children:
                if child.task is not None and time.monotonic() > child.until:
                    os.kill(child.pid, signal.SIGKILL)

    def _start(self) -> _Child | None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            return None
        if pid == 0:
            try:
                ours.close()
                for other in self._children:
                    other.line.close()
                _end_with(parent)
                self._serve(theirs)
            finally:
                os._exit(1)
        theirs.close()
        child = _Child(pid, ours)
        self._children.append(child)
        self._selector.register(ours, selectors.EVENT_READ, child)
        return child

    def _serve(self, line: socket.socket) -> None:
        while task := line.recv(_MESSAGE_BYTES):
            line.send(json.dumps(self._do(int(task))).encode())
        os._exit(0)

    def _give(self, child: _Child, left: deque[int]) -> None:
        """Give a child its next task, or let it end."""
        if not left:
            with contextlib.suppress(OSError):
                child.line.shutdown(socket.SHUT_WR)
            return
        child.task, child.until = left.popleft(), time.monotonic() + _LONGEST_S
        with contextlib.suppress(OSError):  # it has died: its line is read next
            child.line.send(str(child.task).encode())

    def _hear(self, child: _Child) -> bool:
        """Take the result of a child's task; False if it has ended instead."""
        try:
            message = child.line.recv(_MESSAGE_BYTES)
        except OSError:
            message = b""
        if message:
            child.task = None
            self._report(json.loads(message))
            return True
        self._selector.unregister(child.line)
        child.line.close()
        self._children.remove(child)
        _, status = os.waitpid(child.pid, 0)
        if child.task is not None:
            is_late = time.monotonic() > child.until
            how = f"took longer than {_LONGEST_S} s" if is_late else _ending(status)
            self._report({"outcome": FAILED, "index": child.task, "why": f"the compiler {how}"})
        return False


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"


def _end_with(parent: int) -> None:
    """End when the parent does, even if it is killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _reset_signals() -> None:
    """Reset signals that the job ignores or blocks; this process inherits those settings."""
    for number in (signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _step_back() -> None:
    """Leave processor and memory to other processes: run when a core is idle, and be the first that a lack of memory ends."""
    with contextlib.suppress(OSError):
        # A job may have a real-time priority, which `nice` would not lower.
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with contextlib.suppress(OSError):
        os.nice(19)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _take_stdout() -> Callable[[dict[str, Any]], None]:
    """Keep stdout for reports; what modules print when they are imported goes nowhere."""
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def report(outcome: dict[str, Any]) -> None:
        try:
            os.write(out, json.dumps(outcome).encode() + b"\n")
        except OSError:
            os.killpg(0, signal.SIGKILL)  # nobody reads it

    return report
