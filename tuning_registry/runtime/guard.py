"""The one guard between our faults and the training job: catch, log once per kind, count."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tuning_registry.errors import AgreementError, LaunchError
from tuning_registry.log import trace, warn

P = ParamSpec("P")
R = TypeVar("R")


# No lock: one taken here could be held while another thread forks, or by the code that a signal interrupted.
# Each slot of the counts is written by one thread, and whoever puts a notice in is the one to log it.
_counts: dict[tuple[str, int], int] = {}
_notices: dict[object, object] = {}


def guarded(kind: str, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R | None:
    """What `call` returns, or None after a fault of ours, which is logged once per kind and counted.

    The broad `except` around all of our own work: a fault in recording must never reach the training step.

    Args:
        kind: What was being done, as it stands in the log ("recording a choice").
        call: The function to call.
        *args: Its arguments.
        **kwargs: Its keyword arguments.

    Raises:
        LaunchError: As `call` does: the policy asked for it.
        AgreementError: Likewise.
    """
    try:
        return call(*args, **kwargs)
    except (LaunchError, AgreementError):
        raise
    except Exception as error:  # noqa: BLE001 - the guard itself; KeyboardInterrupt and SystemExit pass
        count_fault(kind, error)
        return None


def count_fault(kind: str, error: BaseException) -> None:
    """Count a fault of one kind; the first of its kind is logged as a warning."""
    slot = (kind, threading.get_ident())
    _counts[slot] = _counts.get(slot, 0) + 1
    if _is_first(("fault", kind)):
        warn(
            "%s failed; training goes on, further faults of this kind are only counted: %s: %s",
            kind, type(error).__name__, error,
        )  # fmt: skip
        trace(f"traceback of the first fault while {kind}", error)


def warn_once(subject: object, message: str, *args: object) -> None:
    """Log a warning the first time that it is given for this (hashable) subject."""
    if _is_first(("notice", subject)):
        warn("" + message, *args)


def fault_counts() -> dict[str, int]:
    """How often each kind of fault was caught in this process."""
    counts: dict[str, int] = {}
    for (kind, _), number in _counts.copy().items():
        counts[kind] = counts.get(kind, 0) + number
    return counts


def reset_faults() -> None:
    """Forget counts and notices: a new policy starts with a clean log."""
    _counts.clear()
    _notices.clear()


def _is_first(subject: object) -> bool:
    mine = object()
    return _notices.setdefault(subject, mine) is mine
