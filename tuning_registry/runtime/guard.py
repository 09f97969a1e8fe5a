"""Keeping faults of this package out of the training job: catch, log once per kind, count."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tuning_registry.errors import AgreementError, LaunchError
from tuning_registry.log import trace, warn

P = ParamSpec("P")
R = TypeVar("R")


# There is no lock, because another thread could fork, or a signal could arrive, while it is held. Each slot of the
# counts is written by one thread only, and the thread that stores a notice is the one that logs it.
_counts: dict[tuple[str, int], int] = {}
_notices: dict[object, object] = {}


def guarded(kind: str, call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R | None:
    """Return the result of `call`, or None after a fault, which is logged once per kind and counted.

    This is the broad `except` around all work of the runtime: its faults must never reach the training step.

    Args:
        kind: The work, as the log names it ("recording a choice").
        call: The function to call.
        *args: Its arguments.
        **kwargs: Its keyword arguments.

    Raises:
        LaunchError: As `call` does: the policy requests it.
        AgreementError: As `call` does: the policy requests it.
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
            "%s failed; training continues, and further faults of this kind are only counted: %s: %s",
            kind, type(error).__name__, error,
        )  # fmt: skip
        trace(f"traceback of the first fault while {kind}", error)


def warn_once(subject: object, message: str, *args: object) -> None:
    """Log a warning, but only the first one about this (hashable) subject."""
    if _is_first(("notice", subject)):
        warn(message, *args)


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
