"""What a training job is told, through Python's logger `tuning_registry`: inert text, and never an error.

A handler of the job's may raise (its log server is away); a launch must not.
"""

from __future__ import annotations

import logging
from typing import Final

from tuning_registry.errors import printable

NAME: Final = "tuning_registry"
_logger: Final = logging.getLogger(NAME)


def warn(message: str, *args: object) -> None:
    """Log at level WARNING; what could drive a terminal in the arguments is escaped."""
    _log(logging.WARNING, message, args)


def inform(message: str, *args: object) -> None:
    """Log at level INFO: what is done, where nothing is wrong."""
    _log(logging.INFO, message, args)


def trace(message: str, error: BaseException) -> None:
    """Log a traceback at level DEBUG."""
    _log(logging.DEBUG, message, (), error)


def _log(level: int, message: str, args: tuple[object, ...], error: BaseException | None = None) -> None:
    try:
        if _logger.isEnabledFor(level):
            shown = (arg if isinstance(arg, int | float) else printable(str(arg)) for arg in args)
            _logger.log(level, "tuning_registry: %s", message % tuple(shown), exc_info=error, stacklevel=3)
    except Exception:  # noqa: BLE001, S110 - nobody is left to be told
        pass
