"""Installing a policy in this process, replacing it, and taking it out again."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tuning_registry.errors import FormatError
from tuning_registry.locations import absolute_location, shown_url
from tuning_registry.log import inform, warn
from tuning_registry.runtime.guard import guarded, reset_faults
from tuning_registry.runtime.options import PREFIX, environment_fields
from tuning_registry.runtime.policy import AutotunePolicy

if TYPE_CHECKING:
    from tuning_registry.runtime.recording.recorder import Recorder
    from tuning_registry.runtime.session import Session
    from tuning_registry.runtime.triton.adapter import Adapter


_PATIENCE_S: Final = 2.0  # how long replacing a policy waits for the end of a recording; the exit waits longer

_lock = threading.RLock()
_session: Session | None = None
_adapter: Adapter | None = None
_recorders: dict[tuple[str, str | None, str | None], Recorder] = {}
_exit_hooked = False
_changes = 0


def install(
    policy: AutotunePolicy | Mapping[str, Any] | None = None, *, deterministic: bool | None = None
) -> AutotunePolicy:
    """Put a policy to work in this process, in place of the one before; gives the policy with its mode resolved.

    Autotuners that exist and those to come are covered alike. No device is touched: architecture and table
    are looked up at the first launch. On an error the policy before stays in place.

    Args:
        policy: A policy, a mapping for `AutotunePolicy.from_mapping`, or None for the environment's.
        deterministic: Asks for pinning where the policy has no mode and no record path; None asks PyTorch
            (`torch.use_deterministic_algorithms`).

    Raises:
        FormatError: The mapping or the environment is no policy.
        PolicyError: The policy cannot work here: it needs Triton and there is none, no table path exists, or
            the job has many processes and nothing names the run.
    """
    global _session, _adapter
    if policy is None:
        policy = AutotunePolicy.from_environment()
    else:
        policy = policy if isinstance(policy, AutotunePolicy) else AutotunePolicy.from_mapping(policy)
        _warn_of_unused_variables(policy)
    resolved = resolve_mode(policy, deterministic)
    if resolved.table_path and resolved.mode != "pinned":
        warn("a table path is given, but mode is %s: nothing is pinned (mode: pinned)", resolved.mode)
    if resolved.record_path and resolved.mode == "auto":
        warn("a record path is given, but mode is auto: nothing is recorded (mode: record)")
    # What works behind a policy is most of the runtime, and a process that installs none need not load it.
    from tuning_registry.runtime.assembly import assemble  # noqa: PLC0415

    with _lock:
        session, adapter = assemble(resolved, _recorders)
        reset_faults()
        if session.recorder is not None:
            session.recorder.resume()
        _take_out(keep=session.recorder, successor=adapter)
        _session, _adapter = session, adapter
        _hook_exit()
    inform("%s", _describe(resolved))
    return resolved


def uninstall() -> None:
    """Take the policy out: Triton's own functions are back, and a recording is finished. Fine without one.

    A recording that takes longer than two seconds (a database that is away) is finished in the background; the
    end of the process waits for it.
    """
    with _lock:
        _take_out()


def active_policy() -> AutotunePolicy | None:
    """The installed policy, its mode resolved; None without one."""
    session = _session
    return None if session is None else session.policy


def policy_changes() -> int:
    """How often this process has installed or uninstalled a policy: each time its choices start afresh."""
    return _changes


def active_session() -> Session | None:
    """The installed policy at work; None without one."""
    return _session


def active_adapter() -> Adapter | None:
    """Our functions in Triton; None where there is no Triton, or no policy."""
    return _adapter


def resolve_mode(policy: AutotunePolicy, deterministic: bool | None = None) -> AutotunePolicy:
    """`policy` with its mode filled in: record if a record path is given, pinned if determinism is asked for."""
    if policy.mode is not None:
        return policy
    if deterministic is None:
        # Absent also where another thread is importing torch at this moment.
        asks = getattr(sys.modules.get("torch"), "are_deterministic_algorithms_enabled", None)
        deterministic = asks is not None and bool(asks())
    if policy.record_path is not None:
        return replace(policy, mode="record")
    return replace(policy, mode="pinned" if deterministic else "auto")


def _describe(policy: AutotunePolicy) -> str:
    """What a policy with its mode resolved does, as one line."""
    kept = "" if policy.record_path is None else f" to {shown_url(os.fspath(policy.record_path))}"
    if policy.mode == "record":
        return f"recording{kept}"
    if policy.mode == "pinned":
        return "pinning" + (f", misses are recorded{kept}" if kept else "")
    return "Triton times as usual, nothing is recorded or pinned"


def _warn_of_unused_variables(policy: AutotunePolicy) -> None:
    """Say so where environment, or the options of `python -m tuning_registry.runtime`, state what a given policy does not."""
    try:
        names, stated = environment_fields(), AutotunePolicy.from_environment()
    except (FormatError, OSError, RuntimeError):
        return  # not used, so not judged
    # The tables of the variable are searched after the policy's, and its run names a job that the policy does not.
    honoured = {"table_path"} | ({"run"} if policy.run is None else set())
    if stated.record_path is not None and policy.record_path is not None:
        same = absolute_location(os.fspath(stated.record_path)) == absolute_location(os.fspath(policy.record_path))
        honoured |= {"record_path"} if same else set()
    unused = [
        PREFIX + name.upper()
        for name in names
        if name not in honoured and getattr(stated, name) != getattr(policy, name)
    ]
    if unused:
        warn(
            "install() was given a policy, so what environment or command line state is not used: %s",
            ", ".join(unused),
        )


def _take_out(keep: Recorder | None = None, successor: Adapter | None = None) -> None:
    """Take the policy out; the successor's functions come in the place of ours, with no moment in between."""
    global _session, _adapter, _changes  # noqa: PLW0603 - see install
    session, adapter = _session, _adapter
    if successor is not None:
        successor.attach(adapter)
    elif adapter is not None:
        adapter.detach()
    if session is not None:
        guarded("looking back", session.look_back)
    if session is not None and session.recorder is not None and session.recorder is not keep:
        guarded("finishing the recording", session.recorder.finish, _PATIENCE_S)
    _session = _adapter = None
    _changes += 1


def _hook_exit() -> None:
    global _exit_hooked  # noqa: PLW0603 - registered once a process
    if _exit_hooked:
        return
    _exit_hooked = True
    atexit.register(_at_exit)
    os.register_at_fork(after_in_child=_after_fork)
    # Children of multiprocessing (torch.multiprocessing.spawn) end without atexit, but run these.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _at_exit, exitpriority=0)


def _after_fork() -> None:
    """In a child: another thread may have held the lock, and a worker of multiprocessing forgets its exit hooks."""
    global _lock  # noqa: PLW0603 - see above
    _lock = threading.RLock()
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(_at_exit, _hook_worker_exit)


def _hook_worker_exit(at_exit: Callable[[], None]) -> None:
    sys.modules["multiprocessing.util"].Finalize(None, at_exit, exitpriority=0)


def _at_exit() -> None:
    session = _session
    if session is not None:
        guarded("looking back", session.look_back)
    if session is not None and session.policy.enumerate_autotuners:
        for line in str(guarded("reporting coverage", session.report, _adapter)).splitlines():
            inform("%s", line)
    for recorder in list(_recorders.values()):
        guarded("finishing the recording", recorder.finish)
