"""Uploads of this process's recording to an object store, from a child process.

The packages of stores take a second to load, run threads, and cannot open a connection once the interpreter shuts down.
None of that happens in the training process.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tuning_registry.errors import FileError
from tuning_registry.formats.stores import STORED, place_of
from tuning_registry.interpreter import start_interpreter

UPLOAD_S: Final = 60.0  # of one try during the run
_SHORTEST_S: Final = 5.0  # a child process needs some time to start
_CODE: Final = "from tuning_registry.formats.stores import store_input; store_input(sys.argv[1], int(sys.argv[2]))"


class Uploads:
    """Uploads of one recording, each of which replaces the one before.

    Args:
        file: The recording's local file, whose name the object gets; None before it is written.
    """

    def __init__(self, file: Callable[[], Path | None]) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def append_hand_in(self, url: str, identity: str, payload: bytes, wait_s: float) -> None:  # noqa: ARG002 - of databases
        """Upload a recording. Stops an upload that is still running, because the older state must not arrive last.

        Args:
            url: The prefix.
            identity: Not needed: the same upload again changes nothing.
            payload: The recording.
            wait_s: How long it may take.

        Raises:
            FileError: It was not uploaded.
        """
        file = self._file()
        assert file is not None, "uploads follow a write of the file"
        place = place_of(url).with_name(file.name)
        niceness = "10" if wait_s >= UPLOAD_S else "0"  # at the end of the job there is no step to slow down
        with self._lock:
            if self._process is not None:
                self._process.kill()
            try:
                process = self._process = start_interpreter(_CODE, str(place), niceness, environ=os.environ)
            except OSError as error:
                raise FileError(f"the upload process cannot be started: {error}") from error
        try:
            answer, _ = process.communicate(payload, max(wait_s, _SHORTEST_S))
        except subprocess.TimeoutExpired:
            raise FileError(f"the upload did not finish within {max(wait_s, _SHORTEST_S):.0f} s") from None
        finally:
            process.kill()
            process.wait()
        if answer != STORED and process is self._process:  # else a later upload has killed it
            why = answer.decode(errors="replace").strip() or "the upload process was killed"
            raise FileError(why.removeprefix(f"{place}: ").removeprefix("cannot be written: "))

    def may_accept(self, url: str) -> bool:  # noqa: ARG002 - of databases
        """Return False: the packages of stores have already retried."""
        return False
