"""The recorders of this process: one per record path, stated run and source, however the path is spelled."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tuning_registry.locations import absolute_location, is_url
from tuning_registry.runtime.job.place import stated_run
from tuning_registry.runtime.policies.policy import AutotunePolicy

if TYPE_CHECKING:
    from tuning_registry.runtime.recording.recorder import Recorder

_recorders: Final[dict[tuple[str, str | None, str | None], Recorder]] = {}


def recorder_for(policy: AutotunePolicy) -> Recorder:
    """The recorder of a policy with a record path, made when it is first asked for.

    Raises:
        PolicyError: As `Recorder` does.
        OSError: As `Recorder` does.
        RuntimeError: As `Recorder` does.
    """
    assert policy.record_path is not None
    # Most pinned jobs record nothing and should not spend milliseconds on importing this.
    from tuning_registry.runtime.recording.hand_in import warn_of_missing_packages  # noqa: PLC0415
    from tuning_registry.runtime.recording.recorder import Recorder  # noqa: PLC0415

    path = os.fspath(policy.record_path)
    resolved = absolute_location(path) if is_url(path) else os.path.realpath(os.path.expanduser(path))  # noqa: PTH111  # ~nobody
    place = (resolved, stated_run(policy.run), policy.source)
    if place not in _recorders:
        if is_url(path):
            warn_of_missing_packages(path)
        _recorders[place] = Recorder(path, policy.run, policy.source)
    _recorders[place].share_work(policy.split, policy.split_repeats)
    return _recorders[place]


def all_recorders() -> list[Recorder]:
    """Every recorder that this process has made."""
    return list(_recorders.values())


def forget_recorders() -> None:
    """Start without recorders, as a new process does."""
    _recorders.clear()
