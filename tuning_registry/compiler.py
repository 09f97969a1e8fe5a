"""A process that compiles kernels into Triton's cache; it is given modules by name and never runs `__main__`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tuning_registry.model.specializations import Specialization

COMPILED: Final = "compiled"
CACHED: Final = "cached"
FAILED: Final = "failed"
IMPORTED: Final = "imported"

_PATIENCE_S: Final = 0.5
_STANDARD_STREAMS: Final = 3

# Variables by which the ranks of a job find each other. A module that joins the job when it is imported (MPI, a process
# group) would join it a second time under the same rank, and the job would end when this process does.
_OF_RANKS: Final = ("MASTER_", "TORCHELASTIC_", "OMPI_", "PMI_", "PMIX_", "PRTE_", "HYDRA_", "HYDI_")

# The package may come from a folder that only the caller's `sys.path` names.
_BOOT: Final = (
    "import json, sys; request = json.loads(sys.stdin.buffer.readline()); sys.path[:] = request['path']; "
    "from tuning_registry.runtime.compile_ahead.worker import work; work(request)"
)


class Compiler:
    """The process at work. It and its children end with this process, however this one ends.

    Args:
        kernels: What to compile.
        workers: Number of children that compile at the same time.
        first: Number of the kernel to begin with, in the order in which they are compiled: processes that fill one cache
            begin at different ones.
        limit_s: Seconds after which it ends, whatever is left to do.
        is_background: Whether to leave processor and memory to others.
        environ: Variables for the process, beyond those of this one.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(
        self,
        kernels: Sequence[Specialization],
        *,
        workers: int,
        first: int = 0,
        limit_s: int = 3600,
        is_background: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        script = getattr(sys.modules.get("__main__"), "__file__", None)
        request = {
            "script": script and str(Path(script).absolute()),
            "path": [str(Path(entry).absolute()) for entry in sys.path],
            "parent": os.getpid(),
            "kernels": [kernel.to_dict() for kernel in kernels],
            "workers": workers,
            "first": first,
            "limit_s": limit_s,
            "is_background": is_background,
        }
        self._stop_lock = threading.Lock()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OF_RANKS)}
        with _standard_streams_taken():
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with code of ours
                [*interpreter_command(), "-c", _BOOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # A module may install a policy when it is imported.
                env={**inherited, **(environ or {}), "TUNING_REGISTRY_MODE": "off"},
                # To be killed together. Not a new session: Linux balances sessions first, and would ignore the low priority.
                process_group=0,
            )
        self._owner = os.getpid()
        self._request = json.dumps(request).encode() + b"\n"

    def outcomes(self) -> Iterator[dict[str, Any]]:
        """What became of the kernels, as the process reports it, until it ends.

        Each has `outcome` and `index` in the list of kernels. If that is `compiled` or `cached`, it has `is_expected`, whether
        its key in the cache is that of the recording, and `launcher`, why that is not built; if it is `failed`, `why`. When
        the modules are imported comes `imported`, with the folder of the `cache`.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                stdin.write(self._request)
                stdin.flush()  # and left open: its end tells the process that this one has ended
            for line in stdout:
                with contextlib.suppress(ValueError):  # cut off, of a process that was killed
                    yield json.loads(line)
        finally:
            self.stop()
            stdout.close()
            with contextlib.suppress(OSError):
                stdin.close()

    def stop(self) -> None:
        """Kill it and its children. Does nothing in a forked child of the process that started it."""
        if self._owner != os.getpid():
            return
        with self._stop_lock:
            if self._process.returncode is None:
                with contextlib.suppress(ChildProcessError, ProcessLookupError, PermissionError):
                    # Raises if the job has already waited for it (`os.wait()`): its number may be another process's now.
                    os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                    os.killpg(self._process.pid, signal.SIGKILL)
                # One that waits for a file system that hangs is not killed before it answers.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_PATIENCE_S)


def interpreter_command() -> list[str]:
    """The command that starts another interpreter like this one.

    Raises:
        OSError: It is not known. The executable of an application that is frozen, or that embeds Python, does not count:
            it would run the application again.
    """
    if not sys.executable:
        raise OSError("the path of the Python interpreter is unknown")
    if getattr(sys, "frozen", False) or "python" not in Path(sys.executable).name.lower():
        raise OSError(f"{sys.executable} is not a Python interpreter")
    # As multiprocessing does: an isolated interpreter starts isolated ones. With -P, the current folder is not searched:
    # the job itself may not search it.
    return [sys.executable, *subprocess._args_from_interpreter_flags(), "-P"]  # type: ignore[attr-defined]  # noqa: SLF001


@contextlib.contextmanager
def _standard_streams_taken() -> Iterator[None]:
    """Reserve the descriptors of closed standard streams, so that no new file gets one and receives what is printed.

    Raises:
        OSError: There are too many open files.
    """
    taken: list[int] = []
    try:
        while not taken or taken[-1] < _STANDARD_STREAMS:
            taken.append(os.open(os.devnull, os.O_RDWR))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
