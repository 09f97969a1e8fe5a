"""Under which run and rank a recorder writes: what is stated, else what no other process can claim."""

from __future__ import annotations

import logging
import os
import threading
import time

from tuning_registry.runtime.guard import guarded, warn_once
from tuning_registry.runtime.job.place import (
    Place,
    agree_on_run,
    current_place,
    host_name,
    is_forked,
    process_group,
    resolve_run,
    stated_run,
)

logger = logging.getLogger("tuning_registry")

_AGREE_S = 2.0  # a store that does not answer must not hold up a step


class Identity:
    """Run and rank of one recorder, as far as they are known by now.

    `(run, rank)` names a recording, so no two processes may have the same by guessing. A process that
    nothing gives a rank is rank 0 of its run for as long as it knows of no other rank 0; else, and always
    in a forked child, it is rank 0 of a run of its own, whose name begins with the run's.

    Args:
        policy_run: The run's name in the policy.

    Raises:
        PolicyError: As for `resolve_run`.
    """

    def __init__(self, policy_run: str | None) -> None:
        place = current_place()
        self._policy_run = policy_run
        self._run = resolve_run(policy_run)
        self._is_shared = stated_run(policy_run) is not None or (place.certain and place.world_size != 1)
        self._own = f"{host_name()}-{os.getpid()}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        self._is_apart = is_forked()
        self._has_failed = False

    @classmethod
    def of_forked_child(cls, parent: Identity) -> Identity:
        """The identity of a child's recorder: siblings with ranks share a run, which is the parent's if it was stated."""
        child = cls(stated_run(parent._policy_run) or parent._run.removesuffix("-fork") + "-fork")
        child._is_shared = child._is_apart = True
        return child

    @property
    def is_guessed(self) -> bool:
        """Whether another process of the run may make the same guess: the run is not this process's own."""
        return self._is_shared and not self._is_apart and not current_place().certain

    @property
    def is_of_its_own(self) -> bool:
        """Whether this process is recorded as a run of its own, since it was forked and nobody gave it a rank."""
        return self._is_apart and not current_place().certain

    @property
    def is_open(self) -> bool:
        """Whether a process group that appears may still change run or rank."""
        place = current_place()
        return not place.certain or (not self._is_shared and place.world_size != 1)

    def now(self) -> tuple[str, Place]:
        """Run and place. Where a process group has appeared since, its ranks agree on one run first."""
        place = current_place()
        if not place.certain:
            return (f"{self._run}.{self._own}", Place(0, None, certain=False)) if self._is_apart else (self._run, place)
        if not self._is_shared and place.world_size != 1:
            self._agree()
        return self._run, place

    def look(self) -> None:
        """Note what can be known at this moment and not later: a process group may be gone at the next write."""
        place = current_place()
        if place.certain and place.world_size != 1 and not self._is_shared and not self._has_failed:
            self._agree()

    def set_apart(self) -> None:
        """Another process has recorded under this run and rank, and neither was given it: take a run of our own."""
        self._is_apart = True
        warn_once("set apart", "another process has recorded rank 0 of run %s and nothing says which rank this process is; "
                  "it is recorded as run %s (set RANK and WORLD_SIZE)", self._run, self.now()[0])  # fmt: skip

    def _agree(self) -> None:
        """Take the run's name that the ranks of the process group agree on; without one the own name stays."""
        agreed: list[str | None] = []

        def ask() -> None:
            agreed.append(agree_on_run())

        # In a thread of its own, so that a store that does not answer holds up nothing for long.
        thread = threading.Thread(target=ask, name="tuning_registry run name", daemon=True)
        if process_group() is not None and guarded("agreeing on a run name", _run_for, thread, _AGREE_S) and agreed:
            self._run, self._is_shared = agreed[0] or self._run, agreed[0] is not None
        if not self._is_shared:
            self._has_failed = True
            warn_once(
                "no run", "the ranks of this job could not agree on a run; this one is recorded as run %s", self._run
            )


def _run_for(thread: threading.Thread, limit_s: float) -> bool:
    """Run a thread for at most `limit_s` seconds; True if it is done."""
    thread.start()
    thread.join(limit_s)
    return not thread.is_alive()
