"""Keeping one file up to date from a background thread, at most a second or two behind."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from tuning_registry.runtime.guard import guarded

# A killed rank loses what came after the last write. A slow write, as to a distant file system, lengthens the pause
# that follows it, up to a limit.
INTERVAL_S: Final = 1.0
_PAUSE_PER_WRITE: Final = 10.0
_LONGEST_PAUSE_S: Final = 3.0
_LONGEST_PAUSE_AFTER_FAULT_S: Final = 10.0
_IDLE_S: Final = 1.0
THREAD_NAME: Final = "tuning_registry recording"


# See docs/decisions.md, D40.
class BackgroundWriter:
    """Calls `write` from a background thread after changes: at once, then at most once per interval.

    All file access of recording happens in that thread, so that a slow file system never slows a training
    step. The thread is a daemon that starts with the first change and ends with `finish`. A write that fails
    is tried again, after pauses that grow.

    Args:
        write: Replaces the file by the present state; true if the state is complete. Its faults are caught,
            logged once and counted.
        interval_s: Least time between two writes, in seconds.
        idle: Work to do after each write, and then every second until it returns False.
        before: The writer that is still finishing the same file.
        stall_s: Seconds without a `beat` after which `finish` stops waiting.
    """

    def __init__(
        self,
        write: Callable[[], bool],
        interval_s: float = INTERVAL_S,
        idle: Callable[[], bool] | None = None,
        before: BackgroundWriter | None = None,
        stall_s: float = 10.0,
    ) -> None:
        self._write = write
        self._interval_s = interval_s
        self._idle = idle
        self._before = before
        self._stall_s = stall_s
        self._alive_until = 0.0
        self._is_due = False
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()  # unlike an Event, it can be used in a signal handler
        self._ending = threading.Event()
        self._last: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._process = os.getpid()

    def touch(self) -> None:
        """Note that the state has changed. Never waits, even in a signal handler that interrupts this function."""
        if not self._is_due:
            self._is_due = True
            self._wake.put(None)
        if self._thread is None and self._process == os.getpid():
            guarded("starting the background writer", self._start)

    def beat(self, allow_s: float | None = None) -> None:
        """Note progress; `finish` waits up to `allow_s` more seconds for the next beat."""
        self._alive_until = time.monotonic() + (self._stall_s if allow_s is None else allow_s)
        if self._before is not None:
            self._before.beat(allow_s)

    def finish(self, last: Callable[[], None], wait_s: float | None = None) -> bool:
        """Run `last` in the thread and end the thread; True once it has ended.

        Waits for as long as the work makes progress (`beat`), but at most `wait_s` seconds; the thread then
        goes on, and another call waits again. If no thread could be started, `last` runs at once. Does nothing
        if nothing changed, or in a forked child, which does not have the thread.
        """
        if self._process != os.getpid():
            return True
        if not self._has_changed():
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

    def stop(self, wait_s: float = 1.0) -> None:
        """End the thread without writing again, and wait for it up to `wait_s` seconds."""
        self._last = None
        self._ending.set()
        self._wake.put(None)
        if self._thread is not None:
            self._thread.join(wait_s)

    def _has_changed(self) -> bool:
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
            return  # another thread is starting it
        try:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name=THREAD_NAME, daemon=True)
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
            self._work_idly()
            self._ending.wait(max(self._interval_s, pause_s))
        if self._last is not None:
            guarded("finishing the recording", self._last)

    def _await_change(self) -> None:
        goes_on = True
        while not self._is_due and not self._ending.is_set():
            try:
                self._wake.get(timeout=_IDLE_S if goes_on else None)
            except queue.Empty:
                goes_on = self._work_idly()

    def _work_idly(self) -> bool:
        return self._idle is not None and bool(guarded("completing the recording", self._idle))
