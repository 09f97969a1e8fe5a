"""Progress bars on stderr, for work that takes longer than a second."""

from __future__ import annotations

import datetime as dt
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
_DELAY: Final = 1.0  # seconds


class Work:
    """What a command is doing, and how far it is.

    Args:
        bars: Where it is shown; None if stderr is not a terminal.
        doing: What is done, such as `reading files`.
    """

    def __init__(self, bars: Progress | None, doing: str) -> None:
        self._bars = bars
        self._doing = doing
        if bars is not None:
            bars.add_task(doing, total=None, left="")

    def track(self, items: Sequence[T], doing: str = "reading files") -> Iterator[T]:
        """Iterate over what is worked on, one after the other; the rest of the work comes afterwards."""
        for number, item in enumerate(items):
            self.step(number, len(items), doing)
            yield item
        self.step(0, None, self._doing)

    def step(self, done: int, total: int | None, doing: str = "") -> None:
        """Show that so many of so many steps are done; a total of None if it is unknown."""
        if self._bars is None:
            return
        doing = doing or self._doing
        task = self._bars.tasks[-1]
        if (task.total, task.description) != (total, doing):  # other work, timed separately
            self._bars.remove_task(task.id)
            self._bars.add_task(doing, total=total, left="")
            task = self._bars.tasks[-1]
        self._bars.update(task.id, completed=done)
        left = None if total is None else task.time_remaining
        self._bars.update(task.id, left="" if left is None else f"{dt.timedelta(seconds=int(left))} left")


@contextmanager
def show_progress(doing: str) -> Iterator[Work]:
    """Show how far the work in the block is, with counts and the time left if they are known.

    Shows nothing in the first second, nor if stderr is not a terminal, and leaves nothing behind. The block prints
    nothing.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield Work(None, doing)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    bars = Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    )
    timer = threading.Timer(_DELAY, bars.start)
    timer.daemon = True
    timer.start()
    try:
        yield Work(bars, doing)
    finally:
        timer.cancel()
        timer.join()  # it may be starting the bars right now
        bars.stop()
