"""Messages to a training job, through the logger `tuning_registry`: escaped text, and never an exception.

A log handler of the job may raise, for example when its log server is down. A launch must not.
"""

from __future__ import annotations

import logging
import traceback
from typing import Final

from tuning_registry.errors import printable

_logger: Final = logging.getLogger("tuning_registry")


def warn(message: str, *args: object) -> None:
    """Log at level WARNING. Characters in the arguments that could control a terminal are escaped."""
    _log(logging.WARNING, message, args)


def inform(message: str, *args: object) -> None:
    """Log at level INFO."""
    _log(logging.INFO, message, args)


def notify(message: str, *args: object) -> None:
    """Log what somebody asked for: at level INFO, or at level WARNING if INFO is not enabled."""
    _log(logging.INFO if _logger.isEnabledFor(logging.INFO) else logging.WARNING, message, args)


def debug(message: str, *args: object) -> None:
    """Log at level DEBUG: details, such as what ranks other than 0 do."""
    _log(logging.DEBUG, message, args)


def trace(message: str, error: BaseException) -> None:
    """Log a traceback at level DEBUG."""
    _log(logging.DEBUG, message, (), error)


def _log(level: int, message: str, args: tuple[object, ...], error: BaseException | None = None) -> None:
    try:
        if _logger.isEnabledFor(level):
            text = message % tuple(map(_shown, args))
            if error is not None:
                text += "\n" + "\n".join(map(printable, "".join(traceback.format_exception(error)).split("\n")))
            _logger.log(level, "tuning_registry: %s", text, stacklevel=3)
    except Exception:  # noqa: BLE001, S110 - there is no other place to report it
        pass


def _shown(arg: object) -> object:
    if isinstance(arg, int | float):
        return arg
    try:
        return printable(str(arg))
    except Exception:  # noqa: BLE001 - an error of foreign code whose text cannot be built
        return f"<{type(arg).__name__}>"
