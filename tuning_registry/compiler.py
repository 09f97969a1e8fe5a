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

from tuning_registry.interpreter import start_interpreter
from tuning_registry.model.specializations import Specialization

COMPILED: Final = "compiled"
CACHED: Final = "cached"
FAILED: Final = "failed"
IMPORTED: Final = "imported"

_PATIENCE_S: Final = 0.5

# Variables by which the ranks of a job find each other. A module that joins the job when it is imported (MPI, a process
# group) would join it a second time under the same rank, and the job would end when this process does.
_OF_RANKS: Final = ("MASTER_", "TORCHELASTIC_", "OMPI_", "PMI_", "PMIX_", "PRTE_", "HYDRA_", "HYDI_")

_CODE: Final = (
    "from tuning_registry.runtime.compile_ahead.worker import work; work(json.loads(sys.stdin.buffer.readline()))"
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
            "parent": os.getpid(),
            "kernels": [kernel.to_dict() for kernel in kernels],
            "workers": workers,
            "first": first,
            "limit_s": limit_s,
            "is_background": is_background,
        }
        self._stop_lock = threading.Lock()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OF_RANKS)}
        self._process = start_interpreter(_CODE, environ={**inherited, **(environ or {})})
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
