"""One installed policy at work: decides pinned launches and notes every choice."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tuning_registry.errors import FormatError, LaunchError
from tuning_registry.model.canonical import live_config_text
from tuning_registry.runtime.choices import Choice, ChoiceLog
from tuning_registry.runtime.decision import FAULT, UNSUPPORTED_KEY, Decision, cheapest, decide, describe_table
from tuning_registry.runtime.guard import fault_counts, guarded, warn_once
from tuning_registry.runtime.job.devices import UNKNOWN, Device, Devices
from tuning_registry.runtime.job.place import current_place
from tuning_registry.runtime.misses import Miss, MissLog
from tuning_registry.runtime.policy import AutotunePolicy
from tuning_registry.runtime.summary import log_end
from tuning_registry.runtime.tables import TableSource
from tuning_registry.runtime.triton import coverage, watch
from tuning_registry.runtime.triton.adapter import Adapter, current_target
from tuning_registry.runtime.triton.coverage import Coverage, CoverageReport
from tuning_registry.runtime.triton.keys import Call, is_interpreted

if TYPE_CHECKING:
    from tuning_registry.runtime.recording.recorder import Recorder

_NO_TEXT = "(no text)"  # in recordings, the key of calls whose key has no text


class Session:
    """A policy at work; the `watch.Handler` of our functions inside Triton.

    Args:
        policy: With its mode resolved.
        recorder: Records choices or misses; None to record nothing.
    """

    def __init__(self, policy: AutotunePolicy, recorder: Recorder | None) -> None:
        self.policy = policy
        self.recorder = recorder
        self.choices = ChoiceLog()
        self.coverage = Coverage(policy.enumerate_autotuners)
        self.devices = Devices(policy.arch, current_target)
        self.tables = TableSource(policy)
        self.misses = MissLog(policy, lambda arch: describe_table(self.tables.table(arch)))
        self._process = os.getpid()
        self._is_closed = False

    @property
    def pins(self) -> bool:
        """Whether this session decides launches, rather than Triton."""
        return self.policy.mode == "pinned" or self.policy.chaos

    def close(self) -> None:
        """Log what this policy did. Later calls do nothing, and neither do calls in a forked child."""
        if self._is_closed or self._process != os.getpid():
            return
        self._is_closed = True
        log_end(self.policy, self.tables, self.choices, self.misses, self.coverage.reached())

    def device_index(self) -> Callable[[], int] | None:
        """A function that returns the current device's index; None if all visible devices have one architecture."""
        return self.devices.current_index if self.devices.mixed else None

    def is_pinned(self, call: Call) -> bool:
        """Whether the kernel is in scope; a kernel out of scope is noted for the coverage report."""
        if self.policy.in_scope(call.kernel):
            return True
        if len(call.autotuner.configs) > 1:
            self.coverage.reach(call.kernel, coverage.OUT_OF_SCOPE, len(call.autotuner.configs))
        return False

    def pin(self, call: Call, pruned: list[Any], kept: dict[Any, Any]) -> tuple[Any, bool]:
        """Decide the candidate of a launch, and note the choice or the miss.

        Raises:
            LaunchError: The table has no entry and the policy refuses the launch.
        """
        count = len(call.autotuner.configs)
        if count == 1:
            return pruned[0], True
        arch, key = self.devices.current().arch, self.key(call)
        try:
            decision = self._decide(call, arch, key, pruned, kept)
        except LaunchError as error:
            miss = Miss(arch, call.kernel, key or "", error.miss, "error")
            guarded("noting a kernel", self.coverage.reach, call.kernel, coverage.REFUSED, count)
            guarded("noting a miss", self._note_miss, call.autotuner, miss, None)
            raise
        guarded("noting a choice", self._note_decision, call, arch, key, decision)
        # A tensor as a key value equals only itself: a pin for it would keep the tensor alive and never be found.
        return decision.candidate, key is not None or not call.has_tensor_key

    def pin_after_fault(self, call: Call, pruned: list[Any]) -> tuple[Any, bool]:
        """Launch the cheapest candidate after a fault in `pin`, and note it as a miss.

        Raises:
            LaunchError: The policy refuses launches that the table does not decide.
        """
        kernel = guarded("naming a kernel", lambda: call.kernel) or "(a kernel without a name)"
        if self.policy.on_miss == "error" and not self.policy.is_invariant(kernel):
            miss = Miss("", kernel, "", FAULT, "error")
            guarded("noting a miss", self._note_miss, call.autotuner, miss, None)
            raise LaunchError(
                f"{kernel} could not be pinned because of a fault in tuning_registry itself; the log describes the fault. "
                "To launch it anyway, set on_miss to min_cost.", FAULT,
            )  # fmt: skip
        candidate = guarded("estimating costs", cheapest, call.autotuner.configs, pruned)
        candidate = pruned[0] if candidate is None else candidate
        guarded("noting a choice", self._note_fault, call, candidate)
        return candidate, guarded("reading a call", lambda: call.has_tensor_key) is False

    def key(self, call: Call) -> str | None:
        """The shape key of a call; None if it has none, or if its kernel is out of scope."""
        if not self.policy.in_scope(call.kernel):
            return None
        try:
            return call.key
        except FormatError as fault:
            warn_once(("key", call.kernel), "%s: key argument %s; its choices are neither recorded nor looked up",
                      call.kernel, fault)  # fmt: skip
            return None

    def begins(self, tuning: watch.Tuning, doubt: str) -> None:
        """Note a gap in coverage if Triton tunes a kernel that should be pinned, or tunes it unseen."""
        kernel = tuning.kernel
        if not self.policy.in_scope(kernel):
            return
        if self.pins and not self.policy.is_invariant(kernel):
            doubt = coverage.NOT_PINNED
        if doubt:
            self._reach_timed(tuning)
            self.coverage.gap(kernel, tuning.key or "", doubt)

    def tuned(self, tuning: watch.Tuning) -> None:
        """Note Triton's choice, and record it in mode `record`."""
        kernel, key = tuning.kernel, tuning.key
        if not self.policy.in_scope(kernel):
            self.coverage.reach(kernel, coverage.OUT_OF_SCOPE, len(tuning.autotuner.configs))
            return
        self._reach_timed(tuning)
        self.coverage.close_gap(kernel, key or "")
        device = self.devices.current()
        if tuning.winner is not None:
            source = watch.TIMED if tuning.origin == watch.UNMEASURED else tuning.origin
            self._note(device.arch, kernel, key, tuning.winner, source)
        if self.policy.mode == "record" and key is not None:
            recorder = self._recorder_for(tuning.autotuner, device)
            if recorder is not None:
                self._warn_if_unknown(device.arch)
                recorder.keep((device.arch, kernel, key), tuning)

    def report(self, adapter: Adapter | None) -> CoverageReport:
        """The coverage report so far; `adapter` finds the autotuners that bypassed us."""
        gaps = self.coverage.known_gaps()
        if adapter is not None:
            gaps += guarded("looking for uncovered autotuners", adapter.unseen) or []
        return CoverageReport(self.coverage.reached(), tuple(gaps), self.misses.all(), fault_counts())

    def _decide(self, call: Call, arch: str, key: str | None, pruned: list[Any],
                kept: dict[Any, Any]) -> Decision[Any]:  # fmt: skip
        """The decision for an autotuner, architecture and key; kept, so that every form of a call gets the same one."""
        decision: Decision[Any] | None = kept.get((arch, key))
        if key is not None and decision is not None and _is_among(decision.candidate, pruned):
            return decision
        rank = current_place().rank if self.policy.chaos else 0
        self._warn_if_unknown(arch)
        table = self.tables.table(arch)
        decision = decide(call.kernel, key, call.autotuner.configs, pruned, table, self.policy, rank)
        if key is None:
            return decision
        # If threads decide at the same time, the first decision counts, unless pruning left each its own candidates.
        first: Decision[Any] = kept.setdefault((arch, key), decision)
        if not _is_among(first.candidate, pruned):
            first = kept[arch, key] = decision
        return first

    def _note(self, arch: str, kernel: str, key: str | None, candidate: Any, source: str) -> None:
        text = live_config_text(candidate)
        if key is not None and text is not None:
            self.choices.add(Choice(arch, kernel, key, text, source, self.policy.is_invariant(kernel)))

    def _reach_timed(self, tuning: watch.Tuning) -> None:
        treatment = coverage.INVARIANT if self.policy.is_invariant(tuning.kernel) else coverage.TIMED
        self.coverage.reach(tuning.kernel, treatment, len(tuning.autotuner.configs))

    def _note_decision(self, call: Call, arch: str, key: str | None, decision: Decision[Any]) -> None:
        autotuner, kernel, candidate = call.autotuner, call.kernel, decision.candidate
        recorder = self._recorder_for(autotuner, self.devices.current())
        if recorder is not None:
            recorder.attend()
        treatment = coverage.PINNED if candidate is not None else coverage.INVARIANT
        self.coverage.reach(kernel, treatment, len(autotuner.configs))
        if decision.miss:
            self._note_miss(autotuner, Miss(arch, kernel, key or "", decision.miss, decision.source), candidate)
        if candidate is not None:
            self._note(arch, kernel, key, candidate, decision.source)
            if decision.source == "chaos" and key is not None and recorder is not None:
                recorder.observe((arch, kernel, key), live_config_text(candidate), "chaos")

    def _note_fault(self, call: Call, candidate: Any) -> None:
        key = guarded("naming a key", self.key, call)
        self._note_decision(call, self.devices.current().arch, key, Decision(candidate, "min_cost", FAULT))

    def _note_miss(self, autotuner: Any, miss: Miss, candidate: Any) -> None:
        key = miss.key or (_NO_TEXT if miss.reason == UNSUPPORTED_KEY else "")
        if not self.misses.note(miss) or not key:
            return
        recorder = self._recorder_for(autotuner, self.devices.current())
        if recorder is not None:
            config = None if candidate is None else live_config_text(candidate)
            recorder.miss((miss.arch, miss.kernel, key), config, miss.reason)

    def _recorder_for(self, autotuner: Any, device: Device) -> Recorder | None:
        """The recorder, if choices of this autotuner are recorded; it is told which device they were made on."""
        recorder = self.recorder
        if recorder is None:
            return None
        if is_interpreted(autotuner):
            warn_once("interpreter", "kernels run in Triton's interpreter, whose timings are meaningless, so nothing is "
                      "recorded for them")  # fmt: skip
            return None
        recorder.device = device
        return recorder

    def _warn_if_unknown(self, arch: str) -> None:
        if arch == UNKNOWN:
            warn_once("unknown arch", "no GPU was found, so the architecture is recorded and looked up as `unknown`; to set "
                      "it, use the policy's arch (--arch or TUNING_REGISTRY_ARCH)")  # fmt: skip


def _is_among(candidate: Any, pruned: list[Any]) -> bool:
    return candidate is None or any(candidate is other for other in pruned)
