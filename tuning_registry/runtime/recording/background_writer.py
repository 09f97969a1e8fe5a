"""One file kept up to date from the background: always whole, at most a second or two behind."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from tuning_registry.runtime.guard import guarded

# A killed rank loses what came after the last write. A slow write, which is one to a slow or distant file
# system, lengthens the pause after it, up to a limit.
INTERVAL_S: Final = 1.0
_PAUSE_PER_WRITE: Final = 10.0
_LONGEST_PAUSE_S: Final = 3.0
_LONGEST_PAUSE_AFTER_FAULT_S: Final = 10.0
_WATCH_S: Final = 1.0


class Journal:
    """Calls `write` from a thread of its own after changes: at once, then at most once an interval.

    All input and output of recording happens in that thread, so that a slow file system never slows a
    training step. The thread is a daemon, begins with the first change and ends with `finish`. A write that
    fails stays due and is tried again, after pauses that grow.

    Args:
        write: Replaces the file by the present state; true if it is complete. Its faults are caught, logged
            once and counted.
        interval_s: Least time between two writes.
        watch: Called after each write, and then every second until it returns False.
        before: The journal that still finishes the same file.
        stall_s: Seconds without a `beat` after which `finish` waits no longer.
    """

    def __init__(
        self,
        write: Callable[[], bool],
        interval_s: float = INTERVAL_S,
        watch: Callable[[], bool] | None = None,
        before: Journal | None = None,
        stall_s: float = 10.0,
    ) -> None:
        self._write = write
        self._interval_s = interval_s
        self._watch = watch
        self._before = before
        self._stall_s = stall_s
        self._alive_until = 0.0
        self._is_due = False
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()  # may be put to in a signal handler, unlike an Event
        self._ending = threading.Event()
        self._last: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._process = os.getpid()

    def touch(self) -> None:
        """The state has changed. Never waits, also not in a signal handler that interrupts a call of it."""
        if not self._is_due:
            self._is_due = True
            self._wake.put(None)
        if self._thread is None and self._process == os.getpid():
            guarded("starting the journal", self._start)

    def beat(self, allow_s: float | None = None) -> None:
        """The work goes on; it may be silent for `allow_s` seconds from now."""
        self._alive_until = time.monotonic() + (self._stall_s if allow_s is None else allow_s)
        if self._before is not None:
            self._before.beat(allow_s)

    def finish(self, last: Callable[[], None], wait_s: float | None = None) -> bool:
        """Run `last` in the thread and end it; True once it has come to its end.

        Waits for as long as the work goes on (`beat`), but at most `wait_s` seconds; the thread then goes on
        by itself, and a further call waits again. Where no thread could be started `last` runs at once. Does
        nothing where nothing changed, and in a forked child, which does not have the thread.
        """
        if self._process != os.getpid():
            return True
        if not self._changed_ever():
            return self._before is None or self._before.finish(last, wait_s)
        if self._thread is None:
            if not self._ending.is_set():
                self._ending.set()
                guarded("finishing the recording", last)
            return True
        if not self._ending.is_set():
            self.beat()
            self._last = last
            self._ending.set()
            self._wake.put(None)
        return self._join(self._thread, wait_s)

    def _changed_ever(self) -> bool:
        return self._thread is not None or self._is_due

    def _join(self, thread: threading.Thread, wait_s: float | None) -> bool:
        latest = None if wait_s is None else time.monotonic() + wait_s
        while thread.is_alive():
            until = self._alive_until if latest is None else min(latest, self._alive_until)
            rest = until - time.monotonic()
            if rest <= 0:
                return False
            thread.join(rest)
        return True

    def _start(self) -> None:
        if not self._start_lock.acquire(blocking=False):
            return  # somebody starts it at this moment
        try:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="tuning_registry journal", daemon=True)
                thread.start()
                self._thread = thread
        finally:
            self._start_lock.release()

    def _work(self) -> None:
        if self._before is not None and self._before._thread is not None:  # noqa: SLF001 - of this class
            self._before._thread.join()  # noqa: SLF001
        faults = 0
        while not self._ending.is_set():
            self._await_change()
            if self._ending.is_set():
                break
            self._is_due = False
            began = time.monotonic()
            if guarded("writing the recording", self._write):
                faults = 0
                pause_s = min(_PAUSE_PER_WRITE * (time.monotonic() - began), _LONGEST_PAUSE_S)
            else:
                faults += 1
                self._is_due = True
                pause_s = min(self._interval_s * 2.0 ** min(faults, 10), _LONGEST_PAUSE_AFTER_FAULT_S)
            self._look()
            self._ending.wait(max(self._interval_s, pause_s))
        if self._last is not None:
            guarded("finishing the recording", self._last)

    def _await_change(self) -> None:
        watching = True
        while not self._is_due and not self._ending.is_set():
            try:
                self._wake.get(timeout=_WATCH_S if watching else None)
            except queue.Empty:
                watching = self._look()

    def _look(self) -> bool:
        return self._watch is not None and bool(guarded("looking around the recording", self._watch))
