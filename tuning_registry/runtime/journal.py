"""One file kept up to date from the background: always whole, at most a second or two behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final

from tuning_registry.runtime.guard import guarded

# A killed rank loses what came after the last write. Writing holds the interpreter lock while it spells the
# document out, so a slow write lengthens the pause after it, up to a limit.
INTERVAL_S: Final = 1.0
_PAUSE_PER_WRITE: Final = 10.0
_LONGEST_PAUSE_S: Final = 3.0


class Journal:
    """Calls `write` from a thread of its own after changes: at once, then at most once an interval.

    All input and output of recording happens in that thread, so that a slow file system never slows a
    training step. The thread is a daemon, begins with the first change and ends with `finish`.

    Args:
        write: Replaces the file by the present state; its faults are caught, logged once and counted.
        interval_s: Least time between two writes.
    """

    def __init__(self, write: Callable[[], None], interval_s: float = INTERVAL_S) -> None:
        self._write = write
        self._interval_s = interval_s
        self._changed = threading.Event()
        self._ending = threading.Event()
        self._last: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._process = os.getpid()

    def touch(self) -> None:
        """The state has changed."""
        self._changed.set()
        if self._thread is None and self._process == os.getpid():
            with self._start_lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._work, name="tuning_registry journal", daemon=True)
                    thread.start()
                    self._thread = thread

    def finish(self, last: Callable[[], None], timeout_s: float) -> bool:
        """Run `last` in the thread and end it; True if it came to its end within `timeout_s` seconds.

        Does nothing where nothing changed, and in a forked child, which does not have the thread.
        """
        if self._thread is None or self._process != os.getpid():
            return True
        self._last = last
        self._ending.set()
        self._changed.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while not self._ending.is_set():
            self._changed.wait()
            if self._ending.is_set():
                break
            self._changed.clear()
            began = time.monotonic()
            guarded("writing the recording", self._write)
            pause_s = min(_PAUSE_PER_WRITE * (time.monotonic() - began), _LONGEST_PAUSE_S)
            self._ending.wait(max(self._interval_s, pause_s))
        if self._last is not None:
            guarded("finishing the recording", self._last)
