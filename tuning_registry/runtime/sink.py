"""Handing a finished recording to a database, with retries; the implementation is imported only then."""

from __future__ import annotations

import logging
import random
import re
import time
from importlib import import_module
from typing import Final, Protocol, cast

from tuning_registry.errors import BusyError, RegistryError, UnreachableError
from tuning_registry.records import Recording

logger = logging.getLogger("tuning_registry")

# How long a rank tries at its end. Launchers kill a process some 30 s after asking it to stop.
RETRY_BUDGET_S: Final = 20.0
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 4.0
_SHORTEST_WAIT_S: Final = 0.1


class Sink(Protocol):
    """Where a recording can be written as rows."""

    def write(self, recording: Recording) -> None:
        """Insert the recording in one transaction.

        Raises:
            BusyError: Another process holds the lock; may be tried again.
            UnreachableError: The server does not answer; may be tried again.
            RegistryError: The database says no.
        """


class SinkModule(Protocol):
    """`tuning_registry.sinks`."""

    def open_sink(self, url: str, wait_s: float | None = None) -> Sink:
        """The sink for a database URL, waiting so long for a lock or a server; raises RegistryError."""


def is_database_url(path: str) -> bool:
    """Whether a record path is a database URL (`sqlite:///...`, `postgresql://...`) and not a file prefix."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path) is not None


def shown_url(url: str) -> str:
    """`url` with its password hidden, as far as the log is concerned."""
    return re.sub(r"(://[^:/@]*:)[^@]*(@)", r"\1***\2", url)


def write_with_retries(url: str, recording: Recording, budget_s: float = RETRY_BUDGET_S) -> bool:
    """Insert a recording; False, with the reason logged, if the database does not take it.

    Ranks of a job end at the same moment and meet at the lock, so each waits a random time between tries,
    longer after every failure, and gives up when `budget_s` seconds are over.
    """
    deadline = time.monotonic() + budget_s
    pause = _FIRST_PAUSE_S
    while True:
        try:
            module = cast("SinkModule", import_module("tuning_registry.sinks"))
            # Each try ends with the budget: a lock that a command would wait a minute for must not hold up an exit.
            module.open_sink(url, max(_SHORTEST_WAIT_S, deadline - time.monotonic())).write(recording)
        except (RegistryError, ImportError) as error:
            may_pass = isinstance(error, BusyError | UnreachableError)
            wait = pause * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, not a secret
            if not may_pass or time.monotonic() + wait > deadline:
                logger.warning("tuning_registry: %s did not take the recording: %s", shown_url(url), error)
                return False
            time.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        else:
            return True
