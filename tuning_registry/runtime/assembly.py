"""The parts of a policy, made and checked before any of them is put in place."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tuning_registry.errors import PolicyError, RegistryError
from tuning_registry.locations import absolute_location, is_url
from tuning_registry.log import warn
from tuning_registry.runtime.job.place import stated_run
from tuning_registry.runtime.policy import AutotunePolicy
from tuning_registry.runtime.session import Session, check_tables
from tuning_registry.runtime.triton.adapter import Adapter, check_supported, is_installed

if TYPE_CHECKING:
    from tuning_registry.runtime.recording.recorder import Recorder


# A process has one recorder per record path (however it is spelt), stated run and source, so that none is begun twice.
Recorders = dict[tuple[str, str | None, str | None], "Recorder"]


def assemble(policy: AutotunePolicy, recorders: Recorders) -> tuple[Session, Adapter | None]:
    """Session and adapter for a policy whose mode is resolved; no adapter where there is no Triton to patch.

    Args:
        policy: The policy.
        recorders: Those of this process; a new one is added.

    Raises:
        PolicyError: The policy cannot work here.
    """
    try:
        has_triton = _check(policy)
        session = Session(policy, _recorder_of(policy, recorders))
        return session, Adapter(session, session.pins) if has_triton else None
    except RegistryError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # what paths raise: ~nobody, names too long, no right to look
        raise PolicyError(f"a path of this policy cannot be used: {error}") from error


def _check(policy: AutotunePolicy) -> bool:
    """Whether Triton is there to be patched; raises where the policy needs it or cannot work."""
    needed = policy.mode != "auto" or policy.chaos
    if not needed and not is_installed():
        return False
    try:
        check_supported()
    except PolicyError:
        if needed:
            raise
        return False
    if policy.mode == "pinned":
        check_tables(policy)
    return True


def _warn_of_missing_packages(url: str) -> None:
    """Say at the start of a job what its end would say: the database cannot take the recording."""
    needed = ("sqlalchemy", "msgspec", *(["psycopg"] if url.startswith("postgres") else []))
    missing = [name for name in needed if not _is_there(name)]
    if missing:
        warn("%s not installed here, so the recording stays in a file: %s (see the README)",
                       "is" if len(missing) == 1 else "are", ", ".join(missing))  # fmt: skip


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # a stand-in that somebody has put into sys.modules
        return True


def _recorder_of(policy: AutotunePolicy, recorders: Recorders) -> Recorder | None:
    if policy.record_path is None or policy.mode == "auto":
        return None
    # A pinned job mostly records nothing, and need not load what writes recordings.
    from tuning_registry.runtime.recording.recorder import Recorder  # noqa: PLC0415

    path = os.fspath(policy.record_path)
    resolved = absolute_location(path) if is_url(path) else os.path.realpath(os.path.expanduser(path))  # noqa: PTH111  # ~nobody
    place = (resolved, stated_run(policy.run), policy.source)
    if place not in recorders:
        if is_url(path):
            _warn_of_missing_packages(path)
        recorders[place] = Recorder(path, policy.run, policy.source)
    return recorders[place]
