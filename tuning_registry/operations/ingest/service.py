"""Folding at intervals, as a service."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Final

from tuning_registry.db.store import Store
from tuning_registry.errors import DatabaseError, ForbiddenError, SchemaError
from tuning_registry.operations.ingest.folding import fold
from tuning_registry.operations.ingest.report import FoldReport

_LONGEST_PAUSE_S: Final = 60.0


def fold_forever(
    store: Store,
    every_s: float,
    ending: threading.Event,
    *,
    on_fold: Callable[[FoldReport], None],
    on_fault: Callable[[DatabaseError | None], None],
) -> None:
    """Fold now and then at intervals, until `ending` is set; the batch in progress is finished first.

    A database that cannot be reached or written is tried again, after pauses that grow to a minute. Several services
    may run on one database.

    Args:
        store: The database.
        every_s: Seconds from the end of one fold to the start of the next.
        ending: Ends the service.
        on_fold: Called after each fold that found hand-ins.
        on_fault: Called with the first error of a series, and with None once folding works again.

    Raises:
        SchemaError: There is no registry, or it is of another revision.
        ForbiddenError: The user may not fold.
    """
    faults = 0
    while not ending.is_set():
        try:
            report = fold(store, should_stop=ending.is_set)
        except (SchemaError, ForbiddenError):
            raise
        except DatabaseError as error:
            if not faults:
                on_fault(error)
            faults += 1
            pause_s = min(every_s, 2.0 ** min(faults, 10), _LONGEST_PAUSE_S)
            ending.wait(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret
            continue
        if faults:
            on_fault(None)
        faults = 0
        if report != FoldReport():
            on_fold(report)
        ending.wait(every_s)
