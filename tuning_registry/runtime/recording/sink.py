"""Writing a finished recording to a database, with retries; the database code is imported only then."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Final, Protocol, cast

from tuning_registry.errors import BusyError, ConflictError, RegistryError, UnreachableError
from tuning_registry.locations import shown_url
from tuning_registry.log import warn
from tuning_registry.model.records import Recording

# How long a rank tries at its end, including all waiting for locks and connections. Launchers kill a process about
# 30 s after asking it to stop.
RETRY_BUDGET_S: Final = 20.0
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 4.0
_SHORTEST_WAIT_S: Final = 0.1


class Sink(Protocol):
    """A database that recordings can be written to."""

    def write(self, recording: Recording, *, replace: bool = False) -> bool:
        """Insert the recording in one transaction; False if the database already has it.

        Raises:
            BusyError: Another process holds the lock; a retry may succeed.
            UnreachableError: The server does not answer; a retry may succeed.
            ConflictError: The database has a different recording of this run and rank.
            RegistryError: The database rejects it.
        """


class SinkModule(Protocol):
    """`tuning_registry.operations.ingest.sink`."""

    def open_sink(self, url: str, wait_s: float | None = None) -> Sink:
        """The sink for a database URL, which waits up to `wait_s` seconds for a lock or a server; raises RegistryError."""


def warn_of_missing_packages(url: str) -> None:
    """Warn at the start of a job if this environment lacks a package that writing to the database needs."""
    needed = ("sqlalchemy", "msgspec", *(["psycopg"] if url.startswith("postgres") else []))
    missing = [name for name in needed if not _can_import(name)]
    if missing:
        warn("%s %s not installed, so the recording will stay in a file (install tuning-registry%s to write it to the "
             "database)", " and ".join(missing), "is" if len(missing) == 1 else "are",
             "[postgres]" if "psycopg" in missing else "")  # fmt: skip


def write_with_retries(
    url: str,
    recording: Recording,
    budget_s: float = RETRY_BUDGET_S,
    *,
    separate: Callable[[], Recording] | None = None,
    replace: bool = False,
) -> bool:
    """Insert a recording; if the database rejects it, log the reason and return False.

    The ranks of a job end at the same time and compete for the lock, so each waits a random time between tries,
    longer after every failure, and gives up after `budget_s` seconds. Permanent errors are not retried.

    Args:
        url: The database.
        recording: The recording to insert.
        budget_s: Seconds for everything.
        separate: If run and rank are guessed: returns the recording under a separate run, in case the database
            has a recording of the guessed run and rank from another process.
        replace: Replace the recording that this process inserted before.
    """
    deadline = time.monotonic() + budget_s
    pause = _FIRST_PAUSE_S
    is_first = True
    while True:
        try:
            module = cast("SinkModule", import_module("tuning_registry.operations.ingest.sink"))
            # No try outlasts the budget: a command may wait a minute for a lock, but an exit must not.
            wait_s = max(_SHORTEST_WAIT_S, deadline - time.monotonic())
            is_new = module.open_sink(url, wait_s).write(recording, replace=replace)
            if is_new or separate is None or not is_first:  # after a failed try, the one in the database may be ours
                return True
            recording, separate = separate(), None
        except (RegistryError, ImportError) as error:
            is_first = False
            if isinstance(error, ConflictError) and separate is not None:
                recording, separate = separate(), None
                continue
            may_succeed = isinstance(error, BusyError | UnreachableError)
            wait = pause * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, not a secret
            if not may_succeed or time.monotonic() + wait > deadline:
                warn(
                    "cannot write the recording to %s: %s",
                    shown_url(url),
                    str(error).removeprefix(f"{shown_url(url)}: "),
                )
                return False
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE_S)


def _can_import(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # a stand-in in sys.modules without a spec
        return True
