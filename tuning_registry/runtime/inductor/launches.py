"""One policy at work on kernels under `torch.compile`: records what Inductor times, or decides in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import LaunchError
from tuning_registry.model.audits import AuditedEntry
from tuning_registry.model.canonical import dump_json, live_config_text, text_digest
from tuning_registry.model.names import bare_name
from tuning_registry.runtime.choices import Choice
from tuning_registry.runtime.guard import warn_once
from tuning_registry.runtime.inductor.definition import define, note_of, positions, unique
from tuning_registry.runtime.inductor.generated import (
    OWN,
    code_key,
    code_name,
    dispatching,
    function_name,
    launch_names,
    launchers_of,
    may_have_kernels,
)
from tuning_registry.runtime.inductor.notes import VERSION, CompiledCall, CompiledKernel, Note, decision_of
from tuning_registry.runtime.inductor.seams import Plan, Seam
from tuning_registry.runtime.job.devices import loaded_torch
from tuning_registry.runtime.job.place import current_place
from tuning_registry.runtime.pinning.decision import BANNED, Decision
from tuning_registry.runtime.session import Session
from tuning_registry.runtime.triton import coverage, watch
from tuning_registry.runtime.triton.keys import kernel_name

_LONGEST: Final = 200  # of a key that describes inputs; longer ones are shown by their digest
# The fields of a policy that decide what a pinned launch gets.
_DECIDING: Final = frozenset({"block_sizes", "chaos", "config_invariant", "module_names", "modules", "on_miss"})


class CompiledLaunches:
    """A policy at work on compiled kernels; the `seams.Handler` of our functions inside Inductor.

    Args:
        session: The policy.
        settle: Called before the first kernel, if the mode of the policy is still open.
    """

    def __init__(self, session: Session, settle: Callable[[], None] | None = None) -> None:
        self._session = session
        self._policy = session.policy
        self._settle = settle

    def settle(self) -> None:
        """Settle the mode of the policy, if it is still open; another handler may follow.

        Raises:
            LaunchError: Pinning is requested, which cannot work here.
        """
        settle, self._settle = self._settle, None
        if settle is not None:
            settle()

    def cache_tag(self, details: Any) -> str:
        """What the key of Inductor's caches has to hold for a graph with kernels of the user; empty for other graphs.

        It is made of everything that decides what the generated code holds: equal tags mean equal notes. See
        docs/decisions.md, D122.

        Raises:
            LaunchError: A stated table cannot be used.
        """
        if not self._leaves_notes or not may_have_kernels(details):
            return ""
        parts: dict[str, object] = {"version": VERSION, "mode": self._policy.mode}
        if self._session.pins:
            arch = self._session.devices.current().arch
            stated = self._policy.to_mapping()
            parts |= {name: stated[name] for name in _DECIDING & stated.keys()}
            parts |= {"arch": arch, "selection": self._session.tables.selection(arch)}
            parts |= {"rank": current_place().rank} if self._policy.chaos else {}
        return text_digest(dump_json(parts))[:16]

    @property
    def _leaves_notes(self) -> bool:
        """Whether generated code gets notes; not in mode `auto`. See docs/decisions.md, D126."""
        return self._session.pins or self._policy.mode == "record"

    def plan(self, kernel: Any, configs: Sequence[Any], arguments: Mapping[str, Any], *, is_fused: bool) -> Plan | None:
        """The note of a kernel whose code is about to be generated, and the candidates to compile.

        Raises:
            LaunchError: The policy refuses the launch.
        """
        if not self._leaves_notes or not configs:
            return None
        defined = define(kernel, configs, arguments)
        if defined is None or len(defined.call.autotuner.configs) < 2:
            return None
        decisions: list[Decision[Any]] = []
        pruned: list[Any] = []
        name = defined.call.kernel
        if self._session.pins and self._policy.in_scope(name):
            pruned = unique(defined.candidates)
            if defined.is_dynamic and self._times_misses(name):
                # One choice of Inductor then serves all sizes, so it must be banned for none of them.
                pruned = self._session.never_banned(name, pruned)
            elif defined.is_dynamic:
                pruned = self._session.candidates_of_any_key(defined.call, pruned)
            else:
                decisions = self._session.decide_compiled(defined.call, pruned)
                pruned = list(self._session.allowed(defined.call, pruned))  # what Inductor may time
        kept = positions(defined.candidates, [d.candidate for d in decisions if d.candidate is not None] or pruned)
        return Plan(note_of(defined, kept, decisions, is_fused).literal(), kept)

    def loaded(self, autotuner: Any, *, was_cached: bool) -> None:
        """Note the choice for a kernel whose candidates are compiled, if nothing is left to be timed.

        See docs/decisions.md, D123.
        """
        note = Note.of(autotuner)
        if note is None:
            self._loaded_without_note(autotuner, was_cached)
            return
        kernel, session = CompiledKernel(note), self._session
        name = kernel_name(kernel)
        session.coverage.cover(name)
        if not self._policy.in_scope(name):
            session.coverage.reach(name, coverage.OUT_OF_SCOPE, len(kernel.configs))
            return
        if note.is_dynamic and session.pins and not self._times_misses(name):
            self._dispatch(autotuner, kernel)
            return
        if note.is_dynamic:
            session.coverage.gap(name, "", coverage.DYNAMIC)
        if note.decisions and session.pins:
            self._launch_decided(autotuner, kernel, note.key_of(), was_cached)
        elif len(autotuner.launchers) == 1 and len(note.configs) > 1:
            self._note_untimed(autotuner, kernel, note.key_of(), was_cached)

    def _note_untimed(self, autotuner: Any, kernel: CompiledKernel, key: str | None, was_cached: bool) -> None:
        """Note the only candidate that is left: Inductor has cached its choice, or the others do not compile."""
        winner = kernel.find(autotuner.launchers[0].config)
        self._tuned(kernel, key, winner, {}, watch.ECHO if was_cached else watch.SINGLE)

    def _launch_decided(self, autotuner: Any, kernel: CompiledKernel, key: str | None, was_cached: bool) -> None:
        """Leave only the launcher of what was decided, and note it."""
        session, call = self._session, CompiledCall(kernel, key)
        decisions = [decision_of(stated, kernel.candidates) for stated in kernel.note.decisions]
        for place, decision in enumerate(decisions):
            candidate = decision.candidate
            if decision.source == "timed":  # left to Inductor: its timing is noted later, or its cached choice now
                session.note_compiled(call, key, decision)
                if len(autotuner.launchers) == 1:
                    self._note_untimed(autotuner, kernel, key, was_cached)
                return
            if candidate is None:  # it has no text; the generated code has no other candidate that was decided on
                session.coverage.reach(call.kernel, coverage.PINNED, len(kernel.configs))
                return
            if self._keep(autotuner, kernel, candidate):
                session.note_compiled(call, key, decision)
                if place:
                    warn_once(("failed", call.kernel, key), "%s, key %s: the config that was chosen first did not compile under "
                              "torch.compile, or does not fit the device; launching %s instead. Record this key and export it.",
                              call.kernel, key or "(none)", candidate.text)  # fmt: skip
                return

    def _dispatch(self, autotuner: Any, kernel: CompiledKernel) -> None:
        """Let each launch of a kernel with dynamic sizes choose for its sizes, as eager launches do.

        See docs/decisions.md, D125.
        """
        launchers, note = launchers_of(autotuner), kernel.note
        names = launch_names(launchers[0])
        places = [names.index(field[0]) for field in note.key or () if not isinstance(field, str) and field[0] in names]

        def choose(args: tuple[Any, ...]) -> Any:
            return self._launcher_for(kernel, launchers, note.key_of(dict(zip(names, args, strict=False))))

        if getattr(launchers[0], "store_cubin", False):  # Inductor generates C++, which launches one config
            self._session.coverage.gap(kernel_name(kernel), "", coverage.DYNAMIC)
            autotuner.launchers = [self._launcher_for(kernel, launchers, note.key_of())]
        else:
            autotuner.launchers = [dispatching(launchers, places, choose)]

    def _times_misses(self, name: str) -> bool:
        """Whether keys that the table does not have are left to Inductor, whose one choice then serves all sizes."""
        return self._policy.on_miss == "tune" or self._policy.is_invariant(name)

    def _launcher_for(self, kernel: CompiledKernel, launchers: Sequence[Any], key: str | None) -> Any:
        """The launcher for the key of a launch.

        Raises:
            LaunchError: The policy refuses the launch.
        """
        call = CompiledCall(kernel, key)
        by_candidate = {kernel.find(launcher.config): launcher for launcher in launchers}
        wanted, *others = self._session.decide_compiled(call, kernel.pruned)
        if wanted.candidate not in by_candidate:  # a choice among all candidates may be one that was not compiled
            others += [d._replace(source="min_cost") if d.source == "single" else d
                       for d in self._session.decide_compiled(call, kernel.candidates)]  # fmt: skip
        for decision in (wanted, *others):
            if decision.candidate in by_candidate:
                self._session.note_compiled(call, key, decision._replace(miss=wanted.miss))
                return by_candidate[decision.candidate]
        allowed = self._session.allowed(call, kernel.candidates)
        for launcher in launchers:
            if any(kernel.find(launcher.config) is candidate for candidate in allowed):
                warn_once(("failed", call.kernel, key), "%s, key %s: the config that was chosen did not compile under torch.compile, "
                          "or does not fit the device; launching another one. Record this key and export it.",
                          call.kernel, key)  # fmt: skip
                return launcher
        raise LaunchError(f"{call.kernel}, key {key}: none of the configs that compiled under torch.compile may be launched, "
                          "because the table bans them", BANNED)  # fmt: skip

    def choose(self, autotuner: Any) -> None:
        """Warn if Inductor is about to time a kernel that should be pinned."""
        if self._session.pins and Note.of(autotuner) is None and getattr(autotuner, "custom_kernel", False):
            self._warn_unpinned(function_name(autotuner))

    def timed(self, autotuner: Any, args: tuple[Any, ...], timings: Mapping[Any, float]) -> None:
        """Record the winner that Inductor is about to choose, and the times of all candidates."""
        note = Note.of(autotuner)
        if note is None or not timings:
            return
        kernel = CompiledKernel(note)
        measured: dict[Any, float] = dict.fromkeys(kernel.candidates, float("inf"))  # those that do not compile, too
        for launcher, time_ms in timings.items():
            candidate = kernel.find(launcher.config)
            if candidate is not None:
                measured[candidate] = min(time_ms, measured[candidate])
        best = kernel.find(min(timings, key=lambda launcher: timings[launcher]).config)
        key = note.key_of(dict(zip(launch_names(autotuner.launchers[0]), args, strict=False)))
        if note.is_fused:
            self._session.coverage.gap(kernel_name(kernel), key or "", coverage.FUSED)
        elif best is not None:
            self._tuned(kernel, key, best, measured, watch.TIMED)

    def chosen(self, autotuner: Any, launcher: Any) -> None:
        """Note Inductor's choice for one of its own kernels."""
        if Note.of(autotuner) is None:
            self._note_own(code_name(autotuner), code_key(autotuner), live_config_text(launcher.config), watch.TIMED)

    def selected(self, operation: str, inputs: str, timings: Mapping[Any, float], *, was_cached: bool) -> None:
        """Note Inductor's choice between templates and library functions for an operation."""
        if len(timings) < 2:
            return
        best = min(timings, key=lambda choice: timings[choice])
        described = getattr(best, "description", "") or getattr(best, "name", "")
        text = dump_json({"choice": str(getattr(best, "kind", "") or type(best).__name__), "as": str(described)})
        key = inputs if len(inputs) <= _LONGEST else f"inputs={text_digest(inputs)[:16]}"
        self._note_own(f"{OWN}.{operation}", key, text, watch.ECHO if was_cached else watch.TIMED)

    def missing(self, seam: Seam) -> None:
        """Report a function that this torch does not have: compiled kernels are then not pinned, or not seen."""
        torch = loaded_torch()
        version = getattr(torch, "__version__", "of unknown version")
        self._session.coverage.gap("torch.compile", str(seam), f"torch {version} has no usable {seam}")
        warn_once(("seam", seam), "torch %s has no %s that tuning_registry knows, so choices under torch.compile are "
                  "not recorded or pinned as usual; training continues. coverage_report() lists what is not covered.",
                  version, seam)  # fmt: skip

    def _keep(self, autotuner: Any, kernel: CompiledKernel, candidate: Any) -> bool:
        """Leave only the launcher of a candidate; False if it has none."""
        for launcher in autotuner.launchers:
            if kernel.find(launcher.config) is candidate:
                autotuner.launchers = [launcher]
                return True
        return False

    def _tuned(
        self, kernel: CompiledKernel, key: str | None, winner: Any, timings: dict[Any, float], origin: str
    ) -> None:
        tuning = watch.Tuning(kernel, kernel_name(kernel), key)
        tuning.candidates, tuning.is_whole = list(kernel.candidates), True
        tuning.timings, tuning.winner, tuning.origin = timings, winner, origin
        if origin == watch.TIMED and all(map(watch.has_failed, timings.values())):
            tuning.origin, tuning.winner = watch.FAILED, None
        tuning.audited = AuditedEntry(skipped="it was launched under torch.compile, where candidates are not audited")
        self._session.tuned(tuning)

    def _loaded_without_note(self, autotuner: Any, was_cached: bool) -> None:
        if not self._leaves_notes and (was_cached or len(autotuner.launchers) > 1):
            self._session.coverage.cover(function_name(autotuner))
        if was_cached and len(autotuner.launchers) == 1:
            text = live_config_text(autotuner.launchers[0].config)
            self._note_own(code_name(autotuner), code_key(autotuner), text, watch.ECHO)

    def _note_own(self, name: str, key: str, text: str | None, source: str) -> None:
        session = self._session
        if text is None or not self._policy.in_scope(name):
            return
        session.coverage.reach(name, coverage.INDUCTOR, 2)
        session.choices.add(Choice(session.devices.current().arch, name, key, text, source))

    def _warn_unpinned(self, function: str) -> None:
        """Warn of a kernel that Inductor is about to time, although the job pins; its code does not state its module."""
        for kernel in coverage.compiled_kernels():
            if bare_name(kernel) == function and self._policy.in_scope(kernel):
                warn_once(("not pinned", kernel), "%s is not pinned: Inductor tunes it under torch.compile, and its generated "
                          "code does not show which kernel it is", kernel)  # fmt: skip
