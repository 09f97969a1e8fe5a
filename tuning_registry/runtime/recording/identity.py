"""The run and rank under which a recorder writes: as stated, or else a pair that no other process can have."""

from __future__ import annotations

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

_AGREE_S = 2.0  # a store that does not answer must not hold up a step


class Identity:
    """Run and rank of one recorder, as far as they are known by now.

    `(run, rank)` identifies a recording, so two processes must never guess the same pair. A process without a
    rank is rank 0 of its run until it finds another rank 0. From then on, and always in a forked child, it is
    rank 0 of a separate run, whose name begins with the run's.

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
        self._suffix = f"{host_name()}-{os.getpid()}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        self._is_separate = is_forked()
        self._has_failed = False

    @classmethod
    def of_forked_child(cls, parent: Identity) -> Identity:
        """The identity of a forked child's recorder: siblings with ranks share a run, the parent's if it was stated."""
        child = cls(stated_run(parent._policy_run) or parent._run.removesuffix("-fork") + "-fork")
        child._is_shared = child._is_separate = True
        return child

    @property
    def is_guessed(self) -> bool:
        """Whether another process of the run may guess the same rank."""
        return self._is_shared and not self._is_separate and not current_place().certain

    @property
    def is_separate(self) -> bool:
        """Whether this process is recorded as a separate run, because its rank is unknown."""
        return self._is_separate and not current_place().certain

    @property
    def separate_run(self) -> str:
        """The name under which this process counts if another process of the run has its rank."""
        return f"{self._run}.{self._suffix}"

    @property
    def is_open(self) -> bool:
        """Whether a process group that appears may still change run or rank."""
        place = current_place()
        return not place.certain or (not self._is_shared and place.world_size != 1)

    def now(self) -> tuple[str, Place]:
        """Run and place. If a process group has appeared meanwhile, its ranks first agree on one run."""
        place = current_place()
        if not place.certain:
            return (self.separate_run, Place(0, None, certain=False)) if self._is_separate else (self._run, place)
        if not self._is_shared and place.world_size != 1:
            self._agree()
        return self._run, place

    def join_group(self) -> None:
        """Adopt rank and run of the process group now, if there is one: it may be gone at the next write."""
        place = current_place()
        if place.certain and place.world_size != 1 and not self._is_shared and not self._has_failed:
            self._agree()

    def start_separate_run(self) -> None:
        """Take a separate run, because another process has recorded under the run and rank that this one guessed."""
        self._is_separate = True
        warn_once("separate run", "another process recorded rank 0 of run %s, and this process does not know its rank; it is "
                  "recorded as run %s. Set RANK and WORLD_SIZE to avoid this.", self._run, self.now()[0])  # fmt: skip

    def _agree(self) -> None:
        """Take the run's name that the ranks of the process group agree on; without agreement, keep this process's name."""
        agreed: list[str | None] = []

        def ask() -> None:
            agreed.append(agree_on_run())

        # In a separate thread, so that a store that does not answer delays nothing for long.
        thread = threading.Thread(target=ask, name="tuning_registry run name", daemon=True)
        if process_group() is not None and guarded("agreeing on a run name", _run_for, thread, _AGREE_S) and agreed:
            self._run, self._is_shared = agreed[0] or self._run, agreed[0] is not None
        if not self._is_shared:
            self._has_failed = True
            warn_once(
                "no run",
                "the ranks of this job could not agree on a run name; this rank is recorded as run %s. Set "
                "TUNING_REGISTRY_RUN to the same text on every rank to avoid this.",
                self._run,
            )


def _run_for(thread: threading.Thread, limit_s: float) -> bool:
    """Run a thread for at most `limit_s` seconds; True if it has ended."""
    thread.start()
    thread.join(limit_s)
    return not thread.is_alive()
