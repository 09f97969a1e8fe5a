"""Logging a line that concerns the whole job once, not once per rank."""

from __future__ import annotations

from tuning_registry.log import debug, inform
from tuning_registry.runtime.job.place import current_place


def announce(message: str, *args: object) -> None:
    """Log at level INFO on rank 0, and at level DEBUG on the other ranks."""
    (inform if current_place().rank == 0 else debug)(message, *args)
