"""Installing a policy in this process, replacing it, and removing it."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from tuning_registry.errors import FormatError, LaunchError, PolicyError, RegistryError
from tuning_registry.locations import absolute_location
from tuning_registry.log import notify, warn
from tuning_registry.runtime.guard import fault_counts, guarded, reset_faults
from tuning_registry.runtime.inductor.launches import CompiledLaunches
from tuning_registry.runtime.inductor.seams import Seams
from tuning_registry.runtime.pinning.tables import TableSource
from tuning_registry.runtime.policies.options import environment_fields, policy_from_environment, variable_of
from tuning_registry.runtime.policies.policy import AutotunePolicy
from tuning_registry.runtime.recording.recorders import all_recorders, recorder_for
from tuning_registry.runtime.session import Session
from tuning_registry.runtime.summary import log_start
from tuning_registry.runtime.triton.adapter import Adapter, check_supported, is_installed
from tuning_registry.runtime.triton.coverage import CoverageReport
from tuning_registry.runtime.triton.keys import rename_modules

_PATIENCE_S: Final = 2.0  # how long replacing a policy waits for its recording to be finished; the exit waits longer

_lock = threading.RLock()
_session: Session | None = None
_adapter: Adapter | None = None
_seams = Seams()
_blocks: list[_Block] = []  # those whose bodies are running, in the order in which they began
_exit_hooked = False
_changes = 0


def install(
    policy: AutotunePolicy | Mapping[str, Any] | None = None, *, deterministic: bool | None = None, **fields: Any
) -> AutotunePolicy:
    """Put a policy to work in this process, in place of the one before; returns it with its mode resolved.

    `install(mode="pinned", table_path="tables")` states the fields of a policy as keywords. Keywords given with a
    policy override its fields. Without a policy and keywords, the environment states the policy.

    Installing an equal policy again, with unchanged tables, changes nothing: choices, misses and recording go on.
    `TUNING_REGISTRY_MODE=off` in the environment turns off every policy, also one that a script states.

    The policy covers autotuners that exist already and those created later. No device is touched: architecture
    and table are looked up at the first launch. If an error is raised, the policy before stays in place.

    Args:
        policy: A policy, or a mapping of its fields.
        deterministic: Requests pinning if the policy has neither a mode nor a record path. So does PyTorch's flag
            (`torch.use_deterministic_algorithms`), which is read until the first launch of an autotuner.
        **fields: Fields of `AutotunePolicy`.

    Raises:
        FormatError: A field, or a variable of the environment, is not accepted.
        PolicyError: The policy cannot work here: Triton is missing, no table path exists, or the job has several
            processes and nothing names the run.
    """
    resolved, is_open = _resolved(policy, deterministic, fields)
    if not _goes_on(resolved):
        _start(resolved, is_open=is_open)
    return resolved


@contextmanager
def installed(
    policy: AutotunePolicy | Mapping[str, Any] | None = None, *, deterministic: bool | None = None, **fields: Any
) -> Iterator[AutotunePolicy]:
    """Put a policy to work for the body of a `with` statement, for notebooks and tests.

    Afterwards, the previous policy continues with its choices, misses and recording. Blocks can be nested. If blocks of
    several threads overlap, the one that began last applies until it ends.
    A policy holds for the whole process, so the body should not end while other threads launch under it.

    Args:
        policy: As for `install`.
        deterministic: As for `install`.
        **fields: As for `install`.

    Raises:
        FormatError: As `install` does.
        PolicyError: As `install` does.
    """
    resolved, is_open = _resolved(policy, deterministic, fields)
    block = _start(resolved, suspends=True, is_open=is_open, blocks=_blocks)
    try:
        yield resolved
    finally:
        with _lock:
            _end(block)


@dataclass(slots=True, eq=False)
class _Block:
    """A `with installed(...)` whose body is running: the session to resume afterwards, and whether it was inside Triton."""

    before: Session | None
    is_patched: bool


def _end(block: _Block) -> None:
    """Resume the session that was active before a block.

    Blocks of several threads or generators may overlap instead of nesting. A block that began later then stays in
    force, and the session that it suspended ends: it would otherwise be in force after all blocks.
    """
    later = _blocks[_blocks.index(block) + 1 :]
    _blocks.remove(block)
    before = block.before
    if not later:
        _switch(before, Adapter(before, before.pins) if before is not None and block.is_patched else None)
        return
    ended = later[0].before
    later[0].before, later[0].is_patched = before, block.is_patched
    if ended is not None and ended is not before:
        guarded("logging the end", ended.close, None)
        in_use = [one.recorder for one in (_session, *(other.before for other in _blocks)) if one is not None]
        if ended.recorder is not None and not any(ended.recorder is one for one in in_use):
            guarded("finishing the recording", ended.recorder.finish, _PATIENCE_S)


def uninstall() -> None:
    """Remove the policy: Triton's own functions are back, and the recording is finished. Does nothing without a policy.

    If finishing the recording takes longer than two seconds (for example because a database is down), it goes on
    in the background, and the end of the process waits for it.
    """
    with _lock:
        _switch(None, None)


def active_policy() -> AutotunePolicy | None:
    """The installed policy with its mode resolved; None without one."""
    session = _session
    return None if session is None else session.policy


def coverage_report() -> CoverageReport:
    """Which autotuners were launched and how, which keys missed, and what escaped; empty without a policy.

    Walks all live objects to find autotuners that bypassed us: meant for the end of a run, not for every step.
    """
    session = _session
    return CoverageReport({}, (), (), fault_counts()) if session is None else session.report(_adapter)


def policy_changes() -> int:
    """How often this process has installed or removed a policy; choices are counted anew each time."""
    return _changes


def active_session() -> Session | None:
    """The installed policy at work; None without one."""
    return _session


def resolve_mode(policy: AutotunePolicy, deterministic: bool | None = None) -> AutotunePolicy:
    """`policy` with its mode filled in: record if there is a record path, pinned if determinism is requested."""
    if policy.mode is not None:
        return policy
    if policy.record_path is not None:
        return replace(policy, mode="record")
    return replace(policy, mode="pinned" if deterministic or _asks_for_determinism() else "auto")


def _asks_for_determinism() -> bool:
    """Whether PyTorch is told to use deterministic algorithms."""
    # Also absent while another thread is importing torch.
    asks = getattr(sys.modules.get("torch"), "are_deterministic_algorithms_enabled", None)
    return asks is not None and bool(asks())


def _resolved(
    policy: AutotunePolicy | Mapping[str, Any] | None, deterministic: bool | None, fields: Mapping[str, Any]
) -> tuple[AutotunePolicy, bool]:
    """The requested policy with its mode resolved, and whether the first launch may still pin; warns of unused fields."""
    if policy is None and not fields:
        stated = policy_from_environment()
    else:
        base = policy.to_mapping() if isinstance(policy, AutotunePolicy) else {} if policy is None else policy
        stated = AutotunePolicy.from_mapping({**base, **fields} if fields else base)
        if not _is_off():
            _warn_of_unused_variables(stated)
    if _is_off() or stated.mode == "off":
        return AutotunePolicy(mode="off", verify_every=stated.verify_every, verify_strict=stated.verify_strict), False
    resolved = resolve_mode(stated, deterministic)
    if resolved.table_path and resolved.mode != "pinned":
        warn("table_path has no effect in mode %s; to pin kernels, set mode to pinned", resolved.mode)
    if resolved.record_path and resolved.mode == "auto":
        warn("record_path has no effect in mode auto; to record choices, set mode to record")
    if resolved.split and resolved.mode != "record":
        warn("split has no effect in mode %s; it needs mode record", resolved.mode)
    if resolved.split and resolved.mode == "record" and resolved.audit:
        warn("split has no effect with audit: every rank times all candidates, because it compares their results")
    if resolved.audit and resolved.mode != "record":
        warn("audit has no effect in mode %s; it needs mode record", resolved.mode)
    if resolved.report_html and resolved.mode != "pinned":
        warn("report_html has no effect in mode %s; it needs mode pinned", resolved.mode)
    return resolved, stated.mode is None and resolved.mode == "auto"


def _is_off() -> bool:
    """Whether the environment turns every policy off."""
    return os.environ.get(variable_of("mode"), "").strip().lower() == "off"


def _goes_on(policy: AutotunePolicy) -> bool:
    """Whether an equal policy is at work already, with the tables that are there now.

    Raises:
        PolicyError: It is, but its tables cannot be used any more.
    """
    with _lock:
        session = _session
        if session is None or not session.is_open or session.policy != policy:
            return False
        if not session.pins:
            return True
        tables = TableSource(policy)
        tables.check()
        return tables.equals(session.tables)


def _warn_of_unused_variables(policy: AutotunePolicy) -> None:
    """Warn if the environment, or the options of `python -m tuning_registry.runtime`, contradict a given policy."""
    try:
        names, stated = environment_fields(), policy_from_environment()
    except FormatError as fault:  # one of them may have been meant as the kill switch
        warn("install() was given a policy, so the environment is ignored; it also has a value that is not accepted: %s",
             fault)  # fmt: skip
        return
    except (OSError, RuntimeError):
        return  # they are not used, so their errors do not matter
    # Used with any policy: the variable's tables are searched after the policy's, and its run names unnamed jobs.
    honoured = {"table_path"} | ({"run"} if policy.run is None else set())
    if stated.record_path is not None and policy.record_path is not None:
        same = absolute_location(os.fspath(stated.record_path)) == absolute_location(os.fspath(policy.record_path))
        honoured |= {"record_path"} if same else set()
    unused = [
        variable_of(name)
        for name in names
        if name not in honoured and getattr(stated, name) != getattr(policy, name)
    ]  # fmt: skip
    if unused:
        warn(
            "install() was given a policy, so these settings of the environment or the command line are ignored: %s",
            ", ".join(unused),
        )


def _start(
    policy: AutotunePolicy, *, suspends: bool = False, is_open: bool = False, blocks: list[_Block] | None = None
) -> _Block:
    """Put a policy to work, in place of the session before, which ends unless the policy only `suspends` it.

    Args:
        policy: With its mode resolved.
        suspends: Whether the session before goes on later.
        is_open: Whether the first launch pins instead, if PyTorch's flag requests determinism by then.
        blocks: Gets what is returned.

    Returns:
        What was there before.
    """
    with _lock:
        session, adapter = _assemble(policy, is_open=is_open)
        block = _Block(_session, _adapter is not None)
        _switch(session, adapter, suspends=suspends)
        reset_faults()  # not earlier: the page of the policy that has ended counts them
        _hook_exit()
        if blocks is not None:
            blocks.append(block)
    guarded("logging the start", log_start, policy, session.tables)
    if session.pins:
        guarded("preparing recorded keys", session.tables.put_to_work)
        guarded("compiling ahead", session.compile_ahead.begin, session.tables)
    return block


def _settle_mode(session: Session, adapter: Adapter) -> None:
    """At the first launch under a policy without a mode: pin if PyTorch's flag requests it, else leave tuning alone.

    Raises:
        LaunchError: The flag requests pinning, which cannot work here.
    """
    with _lock:
        if _session is not session or not _asks_for_determinism():
            adapter.settle()
            return
    try:
        _start(
            replace(session.policy, mode="pinned"), suspends=True
        )  # nothing happened under it that an end would tell
    except PolicyError as error:
        raise LaunchError(f"deterministic algorithms were requested, but kernels cannot be pinned: {error}") from error


def _assemble(policy: AutotunePolicy, *, is_open: bool = False) -> tuple[Session, Adapter | None]:
    """Session and adapter for a policy; there is no adapter if the policy can work without Triton and there is none.

    Raises:
        PolicyError: The policy cannot work here.
    """
    try:
        if policy.mode == "off":
            return Session(policy, None), None
        has_triton = _check_triton(policy)
        session = Session(policy, None)
        if session.pins:
            session.tables.check()
        if policy.mode != "auto" and policy.record_path is not None:
            session.recorder = recorder_for(policy)
        return session, Adapter(session, session.pins, _settle_mode if is_open else None) if has_triton else None
    except RegistryError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # of paths: ~nobody, a name that is too long, no permission
        raise PolicyError(f"a path of this policy cannot be used: {error}") from error


def _check_triton(policy: AutotunePolicy) -> bool:
    """Whether Triton can be patched; raises PolicyError if the policy needs it and it cannot."""
    is_needed = policy.mode != "auto" or policy.chaos
    if not is_needed and not is_installed():
        return False
    try:
        check_supported()
    except PolicyError:
        if is_needed:
            raise
        return False
    return True


def _switch(session: Session | None, adapter: Adapter | None, *, suspends: bool = False) -> None:
    """Replace what is installed. New functions take the place of the old ones, so no launch finds Triton's in between."""
    global _session, _adapter, _changes  # noqa: PLW0603 - one per process
    before, previous = _session, _adapter
    recorder = None if session is None else session.recorder
    if recorder is not None:
        recorder.resume()
    rename_modules(() if session is None else session.policy.module_names)
    if adapter is not None:
        adapter.attach(previous)
    elif previous is not None:
        previous.detach()
    if session is not None and adapter is not None and session.policy.torch_compile:
        _seams.watch(CompiledLaunches(session, adapter.settle_first))
    else:
        _seams.unwatch()
    if before is not None and before is not session and not suspends:
        guarded("logging the end", before.close, previous)
        if before.recorder is not None and before.recorder is not recorder:
            guarded("finishing the recording", before.recorder.finish, _PATIENCE_S)
    _session, _adapter = session, adapter
    _changes += 1


def _hook_exit() -> None:
    global _exit_hooked  # noqa: PLW0603 - registered once per process
    if _exit_hooked:
        return
    _exit_hooked = True
    atexit.register(_at_exit)
    os.register_at_fork(after_in_child=_after_fork)
    # Children of multiprocessing (torch.multiprocessing.spawn) run these finalizers instead of atexit.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _at_exit, exitpriority=0)


def _after_fork() -> None:
    """In a forked child, replace a lock that another thread may have held, and hook the exit of a worker again."""
    global _lock  # noqa: PLW0603 - one per process
    _lock = threading.RLock()
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(_at_exit, _hook_worker_exit)


def _hook_worker_exit(at_exit: Callable[[], None]) -> None:
    sys.modules["multiprocessing.util"].Finalize(None, at_exit, exitpriority=0)


def _at_exit() -> None:
    session = _session
    if session is not None:
        guarded("logging the end", session.close, _adapter)
    if session is not None and session.policy.enumerate_autotuners:
        for line in str(guarded("reporting coverage", session.report, _adapter)).splitlines():
            notify("%s", line)
    for recorder in all_recorders():
        guarded("finishing the recording", recorder.finish)
