"""Starting another Python interpreter from a training process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_STANDARD_STREAMS: Final = 3
# The package may come from a folder that only this process's `sys.path` names.
_BOOT: Final = "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "


def start_interpreter(code: str, *arguments: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start an interpreter with the modules of this one, in a separate process group, with pipes as stdin and stdout.

    Args:
        code: What it runs.
        arguments: Its `sys.argv[1:]`.
        environ: Its environment variables. Modules that it imports install no policy.

    Raises:
        OSError: It cannot be started.
    """
    path = json.dumps([str(Path(entry).absolute()) for entry in sys.path])
    with _standard_streams_taken():
        return subprocess.Popen(  # noqa: S603 - this interpreter, with code of ours
            [*interpreter_command(), "-c", _BOOT + code, path, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environ, "TUNING_REGISTRY_MODE": "off"},
            # To be killed with its children, and not by Ctrl+C. Not a new session: Linux balances sessions first, and would
            # ignore a low priority.
            process_group=0,
        )


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
