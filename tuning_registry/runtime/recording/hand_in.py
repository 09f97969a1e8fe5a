"""Hands in this process's recording to a database or a store, in the background during the run and at its end.

The code that appends, and the database's driver, are loaded with the first hand-in.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Final, NamedTuple, Protocol, cast

from tuning_registry.errors import BusyError, RegistryError, UnreachableError
from tuning_registry.formats.stores import package_of
from tuning_registry.locations import DRIVERS, shown_url
from tuning_registry.log import warn
from tuning_registry.runtime.guard import guarded, warn_once
from tuning_registry.runtime.recording.uploads import UPLOAD_S, Uploads

# How long a rank tries at its end, including all waiting for locks and connections. Launchers kill a process about
# 30 s after asking it to stop.
BUDGET_S: Final = 20.0
# A server that nobody answers for is not waited for longer than this at the end.
_PATIENCE_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 4.0
_SHORTEST_WAIT_S: Final = 0.1

# During the run: when nothing new came for a while, at a moment that differs between the ranks of a job, since all of
# them tune at the same time. What a rank has is handed in within a minute even if new choices keep coming.
QUIET_S: Final = 10.0
SPREAD_S: Final = 35.0
LATEST_S: Final = 50.0
GUESSED_S: Final = 60.0  # the hand-in of a guessed run or rank is superseded once these are known
_WAIT_S: Final = 10.0  # of one try
_PAUSE_AFTER_FAULT_S: Final = 5.0
_LONGEST_PAUSE_AFTER_FAULT_S: Final = 300.0
THREAD_NAME: Final = "tuning_registry hand-in"


class _Offer(NamedTuple):
    """A payload, and its identity: a retry appends nothing if the first try has arrived after all."""

    payload: bytes
    digest: str
    identity: str


class AppendModule(Protocol):
    """`tuning_registry.db.appending`, or `Uploads`."""

    def append_hand_in(self, url: str, identity: str, payload: bytes, wait_s: float) -> None:
        """Append a hand-in, or upload a recording; the same one again changes nothing. Raises RegistryError."""

    def may_accept(self, url: str) -> bool:
        """Whether trying again can help."""


def warn_of_missing_packages(url: str) -> None:
    """Warn at the start of a job if this environment lacks the driver of the database, or the package of the store."""
    if url.startswith("postgres") and not _can_import("psycopg"):
        warn("psycopg is not installed, so the recording will stay in a file; to write it to the database, "
             "install tuning-registry[postgres]")  # fmt: skip
    elif url.partition("://")[0] not in DRIVERS:
        package, install = package_of(url.partition("://")[0])
        if not _can_import(package):
            warn("%s is not installed, so the recording will stay in a file; to write it to the store, run: pip install %s",
                 package, install)  # fmt: skip


class HandIn:
    """The hand-ins of one recording. Each holds the whole recording, which grows by its id when it is folded.

    The thread that writes the file calls this, and never waits for the database before the end: each try during the run
    has its own thread, since a server that hangs must not keep the file from being written.

    Args:
        url: The database.
        build: Makes the payload of the present state.
        is_guessed: Whether run or rank may still change. Handing in then waits longer.
    """

    def __init__(
        self, url: str, build: Callable[[], bytes], is_guessed: Callable[[], bool], uploads: Uploads | None = None
    ) -> None:
        self._url = url
        self._build = build
        self._is_guessed = is_guessed
        self._uploads = uploads
        self._verb = "hand in" if uploads is None else "upload"
        self._first_change: float | None = None  # of those that are not handed in
        self._last_change = 0.0
        self._spread_s = random.uniform(0, SPREAD_S)  # noqa: S311 - jitter, not a secret
        self._not_before = 0.0
        self._failures = 0
        self._last_offer: _Offer | None = None
        self._accepted = ""  # digest
        self._thread: threading.Thread | None = None

    def note_change(self) -> None:
        """Note that there is something new to hand in."""
        self._last_change = time.monotonic()
        if self._first_change is None:
            self._first_change = self._last_change

    def attend(self) -> bool:
        """Start a hand-in if it is due; whether one is still to come."""
        if self._first_change is None:
            return False
        is_running = self._thread is not None and self._thread.is_alive()
        if not is_running and time.monotonic() >= max(self._due_at(self._first_change), self._not_before):
            self._first_change = None
            try:
                offer = self._offer()
            except RegistryError as error:
                self._warn(error)
                return False
            if offer is not None:
                self._thread = threading.Thread(
                    target=guarded, args=("handing in", self._try_once, offer), name=THREAD_NAME, daemon=True
                )
                self._thread.start()
        return True

    def finish(self, budget_s: float = BUDGET_S) -> bool:
        """Hand in what is new, with retries; if the database does not get it, log why and return False.

        The ranks of a job end at the same time, so each waits a random time between tries, longer after every failure.
        Permanent errors are not retried, and a server that does not answer at all only for a few seconds.
        """
        began = time.monotonic()
        if self._thread is not None:
            self._thread.join(min(budget_s / 2, _WAIT_S))
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                offer = self._offer()
                if offer is not None:
                    # No try outlasts the budget: a command may wait a minute for a lock, but an exit must not.
                    self._append(offer, max(_SHORTEST_WAIT_S, began + budget_s - time.monotonic()))
                return True
            except (RegistryError, ImportError) as error:
                wait_s = pause_s * random.uniform(0.5, 1.5)  # noqa: S311 - jitter
                if not self._may_succeed(error, time.monotonic() + wait_s - began, budget_s):
                    warn("cannot %s the recording to %s: %s", self._verb, shown_url(self._url), self._reason(error))
                    return False
                time.sleep(wait_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _reason(self, error: Exception) -> str:
        """The error without the URL that it begins with."""
        return str(error).removeprefix(f"{shown_url(self._url)}: ")

    def _due_at(self, first_change: float) -> float:
        if self._is_guessed():
            return first_change + GUESSED_S
        return min(self._last_change + QUIET_S + self._spread_s, first_change + LATEST_S)

    def _may_succeed(self, error: Exception, then_s: float, budget_s: float) -> bool:
        """Whether another try, so many seconds after the first, is within the budget and can succeed."""
        if not isinstance(error, BusyError | UnreachableError) or then_s > budget_s:
            return False
        return then_s < _PATIENCE_S or self._module().may_accept(self._url)

    def _offer(self) -> _Offer | None:
        """The present state; None if the database has it."""
        payload = self._build()
        digest = hashlib.sha256(payload).hexdigest()
        if self._last_offer is None or self._last_offer.digest != digest:
            self._last_offer = _Offer(payload, digest, os.urandom(16).hex())
        return None if digest == self._accepted else self._last_offer

    def _append(self, offer: _Offer, wait_s: float) -> None:
        self._module().append_hand_in(self._url, offer.identity, offer.payload, wait_s)
        self._accepted = offer.digest

    def _module(self) -> AppendModule:
        return self._uploads or _database()

    def _try_once(self, offer: _Offer) -> None:
        """One try during the run. If it fails, another one follows later."""
        try:
            self._append(offer, _WAIT_S if self._uploads is None else UPLOAD_S)
            self._failures = 0
        except (RegistryError, ImportError) as error:
            if not isinstance(error, BusyError | UnreachableError):
                self._warn(error)
            self._failures += 1
            pause_s = min(_PAUSE_AFTER_FAULT_S * 2.0**self._failures, _LONGEST_PAUSE_AFTER_FAULT_S)
            self._not_before = time.monotonic() + pause_s * random.uniform(0.5, 1.5)  # noqa: S311 - jitter
            self.note_change()

    def _warn(self, error: Exception) -> None:
        """Warn once about an error that waiting cannot fix. The recording stays in a file, and the end of the run tries again."""
        warn_once(
            ("hand-in", self._url),
            "cannot %s the recording to %s yet: %s",
            self._verb,
            shown_url(self._url),
            self._reason(error),
        )


def _database() -> AppendModule:
    return cast("AppendModule", import_module("tuning_registry.db.appending"))


def _can_import(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # a stand-in in sys.modules without a spec
        return True
