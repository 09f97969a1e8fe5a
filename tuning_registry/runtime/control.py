"""Installing a policy in this process, replacing it, and taking it out again."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tuning_registry.errors import PolicyError
from tuning_registry.runtime import adapter as triton_adapter
from tuning_registry.runtime.coverage import CoverageReport
from tuning_registry.runtime.guard import fault_counts, guarded, reset_faults
from tuning_registry.runtime.policy import AutotunePolicy
from tuning_registry.runtime.session import Session, check_tables

if TYPE_CHECKING:
    from tuning_registry.runtime.recorder import Recorder

logger = logging.getLogger("tuning_registry")

_lock = threading.RLock()
_session: Session | None = None
_adapter: triton_adapter.Adapter | None = None
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
    elif not isinstance(policy, AutotunePolicy):
        policy = AutotunePolicy.from_mapping(policy)
    resolved = resolve_mode(policy, deterministic)
    with _lock:
        has_triton = _check(resolved)
        recorder = _recorder_of(resolved)
        session = Session(resolved, recorder)
        adapter = triton_adapter.Adapter(session, session.pins) if has_triton else None
        _take_out(keep=recorder)
        reset_faults()
        if recorder is not None:
            recorder.resume()
        if adapter is not None:
            adapter.attach()
        _session, _adapter = session, adapter
        _hook_exit()
    return resolved


def uninstall() -> None:
    """Take the policy out: Triton's own functions are back, and a recording is finished. Fine without one."""
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


def resolve_mode(policy: AutotunePolicy, deterministic: bool | None = None) -> AutotunePolicy:
    """`policy` with its mode filled in: record if a record path is given, pinned if determinism is asked for."""
    if policy.mode is not None:
        return policy
    if deterministic is None:
        torch = sys.modules.get("torch")
        deterministic = torch is not None and bool(torch.are_deterministic_algorithms_enabled())
    if policy.record_path is not None:
        return replace(policy, mode="record")
    return replace(policy, mode="pinned" if deterministic else "auto")


def coverage_report() -> CoverageReport:
    """What was reached and how, what was missed, and what is known to have escaped; empty without a policy.

    Walks all live objects to find autotuners that bypass us: for the end of a run, not for every step.
    """
    session, adapter = _session, _adapter
    if session is None:
        return CoverageReport({}, (), (), fault_counts())
    gaps = session.coverage.known_gaps()
    if adapter is not None:
        gaps += guarded("looking for uncovered autotuners", adapter.unseen) or []
    return CoverageReport(session.coverage.reached(), tuple(gaps), session.coverage.misses(), fault_counts())


def _check(policy: AutotunePolicy) -> bool:
    """Whether Triton is there to be patched; raises where the policy needs it or cannot work."""
    needed = policy.mode != "auto" or policy.chaos
    if needed or triton_adapter.is_installed():
        try:
            triton_adapter.check_supported()
        except PolicyError:
            if needed:
                raise
            return False
    else:
        return False
    if policy.mode == "pinned":
        check_tables(policy)
    return True


def _recorder_of(policy: AutotunePolicy) -> Recorder | None:
    """The recorder for a policy; one process has one per record path, run and source, so no file is begun twice."""
    if policy.record_path is None or policy.mode == "auto":
        return None
    path = os.fspath(policy.record_path)
    place = (path, policy.run, policy.source)
    if place not in _recorders:
        # With what it needs it is a fifth of the runtime's import, and a pinned job mostly records nothing.
        from tuning_registry.runtime.recorder import Recorder  # noqa: PLC0415

        _recorders[place] = Recorder(path, policy.run, policy.source)
    return _recorders[place]


def _take_out(keep: Recorder | None = None) -> None:
    global _session, _adapter, _changes  # noqa: PLW0603 - see install
    session, adapter = _session, _adapter
    if adapter is not None:
        adapter.detach()
    if session is not None and session.recorder is not None and session.recorder is not keep:
        session.recorder.finish()
    _session = _adapter = None
    _changes += 1


def _hook_exit() -> None:
    global _exit_hooked  # noqa: PLW0603 - registered once a process
    if _exit_hooked:
        return
    _exit_hooked = True
    atexit.register(_at_exit)
    # Children of multiprocessing (torch.multiprocessing.spawn) end without atexit, but run these.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _at_exit, exitpriority=0)


def _at_exit() -> None:
    session = _session
    if session is None:
        return
    if session.policy.enumerate_autotuners:
        logger.info("tuning_registry: %s", guarded("reporting coverage", coverage_report))
    if session.recorder is not None:
        guarded("finishing the recording", session.recorder.finish)
