"""One installed policy at work: decides pinned launches and notes every choice."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuning_registry.errors import FormatError
from tuning_registry.log import warn
from tuning_registry.model.canonical import live_config_text
from tuning_registry.runtime.choices import Choice, ChoiceLog
from tuning_registry.runtime.compile_ahead.background import CompileAhead
from tuning_registry.runtime.guard import fault_counts, guarded, warn_once
from tuning_registry.runtime.job.devices import UNKNOWN, Device, Devices, loaded_torch
from tuning_registry.runtime.job.place import current_place
from tuning_registry.runtime.misses import Miss, MissLog
from tuning_registry.runtime.pinning.decision import FAILED, UNSUPPORTED_KEY, Decision, describe_table
from tuning_registry.runtime.pinning.launches import Pinning
from tuning_registry.runtime.pinning.tables import TableSource
from tuning_registry.runtime.policies.fields import SEEDED
from tuning_registry.runtime.policies.policy import AutotunePolicy
from tuning_registry.runtime.summary import log_end
from tuning_registry.runtime.triton import coverage, watch
from tuning_registry.runtime.triton.adapter import Adapter, current_target
from tuning_registry.runtime.triton.coverage import Coverage, CoverageReport
from tuning_registry.runtime.triton.keys import Call, is_interpreted, source_hash
from tuning_registry.runtime.triton.share import SHARE, Share
from tuning_registry.runtime.triton.specializations import specialization_of
from tuning_registry.runtime.triton.weak_map import WeakIdentityMap

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
        self.compile_ahead = CompileAhead(policy)
        self.misses = MissLog(policy, lambda arch: describe_table(self.tables.table(arch)))
        self._pinning = Pinning(self)
        self._functions: WeakIdentityMap[str] = WeakIdentityMap()  # hashes of their sources, by autotuner
        self.was_verified = False  # whether the script has called an agreement check
        self._process = os.getpid()
        self._is_closed = False
        # Absolute, since a script may change its folder.
        self._page = Path(policy.report_html).expanduser().absolute() if policy.report_html else None

    @property
    def pins(self) -> bool:
        """Whether this session decides launches, rather than Triton."""
        return self.policy.mode == "pinned" or self.policy.chaos

    def close(self, adapter: Adapter | None) -> None:
        """Log what this policy did, and write its page. Later calls do nothing, and neither do calls in a forked child.

        Args:
            adapter: As for `report`.
        """
        if self._is_closed or self._process != os.getpid():
            return
        self._is_closed = True
        self.compile_ahead.stop()
        unknown = self._pinning.unknown_sizes()
        if unknown:
            warn("block_sizes names %s, which no launched kernel has", ", ".join(unknown))
        if self.policy.verify_every and not self.was_verified:
            warn("verify_every is %s, but the script never called maybe_verify_choices(step), so nothing was compared: only "
                 "the script knows a step that all ranks reach", self.policy.verify_every)  # fmt: skip
        for kernel, why in self.coverage.known_gaps() if self.pins else ():
            if why == coverage.COMPILED and self.policy.in_scope(kernel):
                warn_once(("not pinned", kernel), "%s is not pinned: it was compiled by torch.compile before install, or where "
                          "tuning_registry cannot see it", kernel)  # fmt: skip
        reached = {kernel: how for kernel, how in self.coverage.reached().items() if how != coverage.INDUCTOR}
        log_end(self.policy, self.tables, self.choices, self.misses, reached)
        if self._page is not None and self.policy.mode == "pinned" and current_place().rank == 0:
            guarded("writing the report of the job", self._write_page, self._page, adapter)

    def _write_page(self, file: Path, adapter: Adapter | None) -> None:
        from tuning_registry.runtime.page import write_page  # noqa: PLC0415 - few jobs ask for it

        write_page(file, self.policy, self.tables, self.choices, self.report(adapter))

    @property
    def is_open(self) -> bool:
        """Whether it was made in this process and has not ended."""
        return not self._is_closed and self._process == os.getpid()

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

    def pin(self, call: Call, pruned: list[Any], kept: dict[Any, Any]) -> watch.Launch:
        """Decide a launch of a key that has no pin yet (`Pinning.pin`)."""
        return self._pinning.pin(call, pruned, kept)

    def pin_after_fault(self, call: Call, pruned: list[Any]) -> watch.Launch:
        """Decide the launch after a fault in `pin` (`Pinning.pin_after_fault`)."""
        return self._pinning.pin_after_fault(call, pruned)

    def check_hook(self, call: Call, candidate: Any) -> None:
        """Refuse a config that its hook has changed to a banned one (`Pinning.check_hook`)."""
        self._pinning.check_hook(call, candidate)

    def decide_compiled(self, call: Call, pruned: list[Any]) -> list[Decision[Any]]:
        """What a kernel under `torch.compile` launches (`Pinning.decide_compiled`)."""
        return self._pinning.decide_compiled(call, pruned)

    def candidates_of_any_key(self, call: Call, pruned: list[Any]) -> list[Any]:
        """What is compiled for a kernel with dynamic sizes (`Pinning.candidates_of_any_key`)."""
        return self._pinning.candidates_of_any_key(call, pruned)

    def note_compiled(self, call: Call, key: str | None, decision: Decision[Any]) -> None:
        """Note what a kernel under `torch.compile` launches."""
        arch = self.devices.current().arch
        self.note_launch(call, arch, key, decision, is_news=self.note_decision(call, arch, key, decision))

    def never_banned(self, kernel: str, candidates: list[Any]) -> list[Any]:
        """The candidates that the table bans for no key of a kernel (`Pinning.never_banned`)."""
        return self._pinning.never_banned(kernel, self.devices.current().arch, candidates)

    def allowed(self, call: Call, pruned: Any) -> Any:
        """What the table's bans leave of the candidates that Triton is about to time (`Pinning.allowed`)."""
        return self._pinning.allowed(call, pruned)

    def share(self, call: Call, pruned: Any) -> Any:
        """What this rank times, if ranks share the work (`Recorder.share`); None for all candidates."""
        if self.policy.split is None or self.policy.audit or self.policy.mode != "record":
            return None
        key = self.key(call)
        device = self.devices.current()
        recorder = None if key is None else self._recorder_for(call.autotuner, device)
        return (
            None
            if recorder is None or key is None
            else recorder.share((device.arch, call.kernel, key), call.autotuner, pruned)
        )

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
        if self.pins and not self.policy.is_invariant(kernel) and not self._is_tuned(tuning):
            doubt = coverage.NOT_PINNED
            warn_once(("not pinned", kernel), "%s is not pinned: %s", kernel, doubt)
        if doubt:
            self._reach_timed(tuning)
            self.coverage.gap(kernel, tuning.key or "", doubt)

    def times(self, tuning: watch.Tuning, call: Call) -> None:
        """Audit the candidates on copies of the call's tensors, if the policy requests it."""
        if not self._audits(tuning.kernel) or is_interpreted(call.autotuner) or loaded_torch() is None:
            return
        candidates = tuning.candidates or ()
        if tuning.is_whole and len(candidates) > 1:  # of a single one, old releases take a time
            # Needs torch, and takes milliseconds to import.
            from tuning_registry.runtime.audit.candidates import audit  # noqa: PLC0415

            tuning.audited = audit(
                call, candidates, seeded=self.policy.audit == SEEDED, limit_bytes=self.policy.audit_memory
            )

    def _audits(self, kernel: str) -> bool:
        return self.policy.audit is not False and self.policy.mode == "record" and self.policy.in_scope(kernel)

    def leads(self, tuning: watch.Tuning, call: Call, candidate: Any) -> None:
        """Keep what the fastest candidate so far needs to be compiled, if choices are recorded with it."""
        if self.policy.compile_ahead and self._records and self.policy.in_scope(tuning.kernel):
            tuning.compiled = None
            found = None if is_interpreted(call.autotuner) else specialization_of(call, candidate)
            tuning.compiled = None if found is None else (candidate, found)

    @property
    def _records(self) -> bool:
        """Whether Triton's choices are recorded."""
        is_asked = self.policy.mode == "record" or (self.policy.mode == "pinned" and self.policy.on_miss == "tune")
        return is_asked and self.recorder is not None

    def tuned(self, tuning: watch.Tuning) -> None:
        """Note Triton's choice, and record it in mode `record`, or in mode `pinned` with `on_miss="tune"`."""
        kernel, key = tuning.kernel, tuning.key
        if not self.policy.in_scope(kernel):
            self.coverage.reach(kernel, coverage.OUT_OF_SCOPE, len(tuning.autotuner.configs))
            return
        self._reach_timed(tuning)
        self.coverage.close_gap(kernel, key or "")
        device = self.devices.current()
        if tuning.winner is not None:
            source = watch.TIMED if tuning.origin == watch.UNMEASURED else tuning.origin
            if isinstance(tuning.candidates, Share):
                source = SHARE
            self._note(tuning.autotuner, device.arch, kernel, key, tuning.winner, source,
                       is_launching=watch.launch_of(tuning.autotuner))  # fmt: skip
        if self._records and key is not None:
            recorder = self._recorder_for(tuning.autotuner, device)
            if recorder is not None:
                self.warn_if_unknown(device.arch)
                if self._audits(kernel):
                    recorder.keep_audit((device.arch, kernel, key), tuning)
                recorder.keep((device.arch, kernel, key), tuning)

    def report(self, adapter: Adapter | None) -> CoverageReport:
        """The coverage report so far; `adapter` finds the autotuners that bypassed us."""
        gaps = self.coverage.known_gaps()
        if adapter is not None:
            gaps += guarded("looking for uncovered autotuners", adapter.unseen) or []
        return CoverageReport(self.coverage.reached(), tuple(gaps), self.misses.all(), fault_counts())

    def _note(self, autotuner: Any, arch: str, kernel: str, key: str | None, candidate: Any, source: str,
              nearest: str = "", is_launching: Callable[[], bool] | None = None) -> None:  # fmt: skip
        text = live_config_text(candidate)
        if key is not None and text is not None:
            invariant, function = self.policy.is_invariant(kernel), self._function(autotuner)
            self.choices.add(Choice(arch, kernel, key, text, source, invariant, function, nearest), is_launching)

    def _function(self, autotuner: Any) -> str:
        """The hash of the source of a kernel's function; empty if there is no source."""
        known = self._functions.get(autotuner)
        if known is None:
            known = guarded("reading the source of a kernel", source_hash, autotuner) or ""
            self._functions.put(autotuner, known)
        return known

    def _is_tuned(self, tuning: watch.Tuning) -> bool:
        """Whether the policy leaves a tuning to Triton, because the table does not have its key."""
        return self.misses.is_tuned(self.devices.current().arch, tuning.kernel, tuning.key or "")

    def _reach_timed(self, tuning: watch.Tuning) -> None:
        self.coverage.reach(tuning.kernel, self._timed(tuning.kernel), len(tuning.autotuner.configs))

    def _timed(self, kernel: str) -> str:
        """How a kernel that Triton tunes is treated."""
        return coverage.INVARIANT if self.policy.is_invariant(kernel) else coverage.TIMED

    def note_decision(self, call: Call, arch: str, key: str | None, decision: Decision[Any]) -> bool:
        """Note what is about to be launched; whether it is a miss that is new."""
        count = len(call.autotuner.configs)
        recorder = self._recorder_for(call.autotuner, self.devices.current())
        if count == 1:
            return False
        if recorder is not None:
            recorder.attend()
        treatment = coverage.PINNED if decision.candidate is not None else self._timed(call.kernel)
        self.coverage.reach(call.kernel, treatment, count)
        return bool(decision.miss) and self.misses.note(_miss_of(call, arch, key, decision))

    def note_launch(self, call: Call, arch: str, key: str | None, decision: Decision[Any], *, is_news: bool) -> None:
        """Note the choice of a launch that has succeeded, and record a miss if it `is_news`."""
        candidate = decision.candidate
        if is_news:
            self._record_miss(call.autotuner, _miss_of(call, arch, key, decision), candidate)
        if candidate is not None:
            self._note(call.autotuner, arch, call.kernel, key, candidate, decision.source, decision.nearest)
            recorder = self._recorder_for(call.autotuner, self.devices.current())
            if decision.source == "chaos" and key is not None and recorder is not None:
                recorder.observe((arch, call.kernel, key), live_config_text(candidate), "chaos")

    def note_failure(self, call: Call, arch: str, key: str | None, candidate: Any) -> None:
        """Record that the config of an entry does not run."""
        recorder = self._recorder_for(call.autotuner, self.devices.current())
        if recorder is not None and key is not None:
            recorder.miss((arch, call.kernel, key), live_config_text(candidate), FAILED)

    def note_refusal(self, autotuner: Any, miss: Miss) -> None:
        """Note and record a miss whose launch was refused."""
        if len(autotuner.configs) > 1:
            self.coverage.reach(miss.kernel, coverage.REFUSED, len(autotuner.configs))
        if self.misses.note(miss):
            self._record_miss(autotuner, miss, None)

    def _record_miss(self, autotuner: Any, miss: Miss, candidate: Any) -> None:
        key = miss.key or (_NO_TEXT if miss.reason == UNSUPPORTED_KEY else "")
        recorder = self._recorder_for(autotuner, self.devices.current())
        if recorder is not None and key:
            config = None if candidate is None else live_config_text(candidate)
            recorder.miss((miss.arch, miss.kernel, key), config, miss.reason, miss.nearest)

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

    def warn_if_unknown(self, arch: str) -> None:
        """Warn once if the architecture is not known."""
        if arch == UNKNOWN:
            warn_once("unknown arch", "no GPU was found, so the architecture is recorded and looked up as `unknown`; to set "
                      "it, use the policy's arch (--arch or TUNING_REGISTRY_ARCH)")  # fmt: skip


def _miss_of(call: Call, arch: str, key: str | None, decision: Decision[Any]) -> Miss:
    return Miss(arch, call.kernel, key or "", decision.miss, decision.source, decision.nearest)
