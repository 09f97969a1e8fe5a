"""Handing a finished recording to a database, with retries; the implementation is imported only then."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from importlib import import_module
from typing import Final, Protocol, cast

from tuning_registry.errors import BusyError, ConflictError, RegistryError, UnreachableError
from tuning_registry.locations import shown_url
from tuning_registry.log import warn
from tuning_registry.model.records import Recording

# How long a rank tries at its end, all waiting for locks and connections included. Launchers kill a process some
# 30 s after asking it to stop.
RETRY_BUDGET_S: Final = 20.0
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 4.0
_SHORTEST_WAIT_S: Final = 0.1


class Sink(Protocol):
    """Where a recording can be written as rows."""

    def write(self, recording: Recording, *, replace: bool = False) -> bool:
        """Insert the recording in one transaction; False if the same one was there already.

        Raises:
            BusyError: Another process holds the lock; may be tried again.
            UnreachableError: The server does not answer; may be tried again.
            ConflictError: Another one of its run and rank is there.
            RegistryError: The database says no.
        """


class SinkModule(Protocol):
    """`tuning_registry.operations.ingest.sink`."""

    def open_sink(self, url: str, wait_s: float | None = None) -> Sink:
        """The sink for a database URL, waiting so long for a lock or a server; raises RegistryError."""


def write_with_retries(
    url: str,
    recording: Recording,
    budget_s: float = RETRY_BUDGET_S,
    *,
    apart: Callable[[], Recording] | None = None,
    replace: bool = False,
) -> bool:
    """Insert a recording; False, with the reason logged, if the database does not take it.

    Ranks of a job end at the same moment and meet at the lock, so each waits a random time between tries,
    longer after every failure, and gives up when `budget_s` seconds are over. What cannot pass is not tried again.

    Args:
        url: The database.
        recording: What to insert.
        budget_s: Seconds for everything.
        apart: Given where run and rank are guessed: the recording under a run of its own, for when the database
            has one of this run and rank that is not ours.
        replace: It takes the place of what this process has handed in before.
    """
    deadline = time.monotonic() + budget_s
    pause = _FIRST_PAUSE_S
    is_first = True
    while True:
        try:
            module = cast("SinkModule", import_module("tuning_registry.operations.ingest.sink"))
            # Each try ends with the budget: a lock that a command would wait a minute for must not hold up an exit.
            wait_s = max(_SHORTEST_WAIT_S, deadline - time.monotonic())
            is_new = module.open_sink(url, wait_s).write(recording, replace=replace)
            if is_new or apart is None or not is_first:  # after a try that failed it may be ours that is there
                return True
            recording, apart = apart(), None
        except (RegistryError, ImportError) as error:
            is_first = False
            if isinstance(error, ConflictError) and apart is not None:
                recording, apart = apart(), None
                continue
            may_pass = isinstance(error, BusyError | UnreachableError)
            wait = pause * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, not a secret
            if not may_pass or time.monotonic() + wait > deadline:
                warn("%s did not take the recording: %s", shown_url(url), error)
                return False
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
