"""One installed policy at work: answers the adapter's questions and keeps what came of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tuning_registry.errors import FormatError, LaunchError, PolicyError, RegistryError
from tuning_registry.formats.loader import load
from tuning_registry.formats.table import TunedTable, read_table
from tuning_registry.log import inform, warn
from tuning_registry.model.canonical import live_config_text
from tuning_registry.runtime.choices import Choice, ChoiceLog
from tuning_registry.runtime.guard import fault_counts, guarded, warn_once
from tuning_registry.runtime.job.devices import UNKNOWN, Device, Devices
from tuning_registry.runtime.job.place import current_place
from tuning_registry.runtime.policy import AutotunePolicy
from tuning_registry.runtime.select import FAULT, UNSUPPORTED_KEY, Selection, cheapest, select, shown
from tuning_registry.runtime.triton import coverage, watch
from tuning_registry.runtime.triton.adapter import Adapter, current_target, live_kernels
from tuning_registry.runtime.triton.coverage import Coverage, CoverageReport, Miss
from tuning_registry.runtime.triton.keys import call_arguments, has_tensor_key, is_interpreted, kernel_name, shape_key

if TYPE_CHECKING:
    from tuning_registry.runtime.recording.recorder import Recorder


_LOGGED_MISSES: Final = 20  # with their keys; a job may have thousands of them on each rank
_SHOWN_NAMES: Final = 5
_NO_TEXT: Final = "(no text)"  # stands in a recording for the keys of a kernel that have none
_INSTEAD: Mapping[str, str] = {"timed": "timed by Triton", "error": "not launched"}


class Session:
    """A policy at work (an `adapter.Handler`).

    Args:
        policy: With its mode resolved.
        recorder: Where choices or misses are kept; None for nowhere.
    """

    def __init__(self, policy: AutotunePolicy, recorder: Recorder | None) -> None:
        self.policy = policy
        self.recorder = recorder
        self.choices = ChoiceLog()
        self.coverage = Coverage(policy.enumerate_autotuners)
        self.devices = Devices(policy.arch, current_target)
        self._table_paths = table_paths(policy)
        self._tables: dict[str, TunedTable] = {}
        self._process = os.getpid()

    @property
    def pins(self) -> bool:
        """Whether launches are decided here rather than by Triton."""
        return self.policy.mode == "pinned" or self.policy.chaos

    def current_device(self) -> Device:
        """The device of the calling thread."""
        return self.devices.current()

    def device_index(self) -> Callable[[], int] | None:
        """See `adapter.Handler`."""
        return self.devices.current_index if self.devices.mixed else None

    def table(self, arch: str) -> TunedTable:
        """The table of an architecture, read once."""
        table = self._tables.get(arch)
        if table is None:
            table = load(arch, self._table_paths)
            if table.has_bare_names:
                # A bare name that two kernels share is a miss for whichever of them is launched first.
                live = guarded("looking for kernels of one name", live_kernels) or set()
                table.declare(filter(self.policy.in_scope, live))
            # Read by each thread that comes before it is there; all of them use the first.
            mine, table = table, self._tables.setdefault(arch, table)
            if table is mine:
                self._warn_of_unknown(arch)
                inform("%s", shown(table))
        return table

    def look_back(self) -> None:
        """At the end: say what of the policy has met nothing, since it is most likely spelt wrong."""
        reached = self.coverage.reached()
        if self._process != os.getpid():
            return  # a forked child has what its parent had reached by then
        if self.policy.modules and reached and set(reached.values()) == {coverage.OUT_OF_SCOPE}:
            warn("nothing was %s: no autotuner with several configs that was launched lies in %s; launched: %s",
                 "recorded" if self.policy.mode == "record" else "in scope", ", ".join(self.policy.modules),
                           _some(sorted(reached)))  # fmt: skip

    def is_pinned(self, autotuner: Any) -> bool:
        """See `adapter.Handler`."""
        kernel = kernel_name(autotuner)
        if self.policy.in_scope(kernel):
            return True
        if len(autotuner.configs) > 1:
            self.coverage.reach(kernel, coverage.OUT_OF_SCOPE, len(autotuner.configs))
        return False

    def pin(
        self, autotuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], pruned: list[Any], kept: dict[Any, Any]
    ) -> tuple[Any, bool]:
        """See `adapter.Handler`."""
        if len(autotuner.configs) == 1:
            return pruned[0], True
        kernel, arch = kernel_name(autotuner), self.devices.current().arch
        arguments = call_arguments(autotuner.arg_names, args, kwargs)
        key = self._key(kernel, autotuner, arguments)
        try:
            selection = self._select(autotuner, kernel, arch, key, pruned, kept)
        except LaunchError as error:
            guarded("noting a kernel", self.coverage.reach, kernel, coverage.REFUSED, len(autotuner.configs))
            guarded(
                "noting a miss", self._note_miss, autotuner, Miss(arch, kernel, key or "", error.miss, "error"), None
            )
            raise
        guarded("noting a choice", self._note_selection, autotuner, arch, kernel, key, selection)
        # A tensor as key value is equal to itself alone: keeping the pin would keep every tensor, and find none.
        return selection.candidate, key is not None or not has_tensor_key(autotuner.keys, arguments)

    def pin_after_fault(
        self, autotuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], pruned: list[Any]
    ) -> tuple[Any, bool]:
        """See `adapter.Handler`."""
        kernel = guarded("naming a kernel", kernel_name, autotuner) or "(a kernel without a name)"
        if self.policy.on_miss == "error" and not self.policy.is_invariant(kernel):
            guarded("noting a miss", self._note_miss, autotuner, Miss("", kernel, "", FAULT, "error"), None)
            raise LaunchError(
                f"{kernel} could not be pinned for a fault of tuning_registry's own, which the log names; mend it, "
                "or set on_miss to min_cost", FAULT,
            )  # fmt: skip
        candidate = guarded("estimating costs", cheapest, autotuner.configs, pruned)
        candidate = pruned[0] if candidate is None else candidate
        guarded("noting a choice", self._note_fault, autotuner, kernel, args, kwargs, candidate)
        has_tensors = guarded("reading a call", lambda: has_tensor_key(
            autotuner.keys, call_arguments(autotuner.arg_names, args, kwargs)))  # fmt: skip
        return candidate, has_tensors is False

    def key(self, autotuner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        """See `watch.Follower`."""
        kernel = kernel_name(autotuner)
        if not self.policy.in_scope(kernel):
            return None
        return self._key(kernel, autotuner, call_arguments(autotuner.arg_names, args, kwargs))

    def begins(self, autotuner: Any, key: str | None, doubt: str) -> None:
        """See `watch.Follower`."""
        kernel = kernel_name(autotuner)
        if not self.policy.in_scope(kernel):
            return
        if self.pins and not self.policy.is_invariant(kernel):
            doubt = coverage.NOT_PINNED
        if doubt:
            self._reach_timed(kernel, autotuner)
            self.coverage.gap(kernel, key or "", doubt)

    def tuned(self, tuning: watch.Tuning) -> None:
        """See `watch.Follower`."""
        autotuner, key = tuning.autotuner, tuning.key
        kernel = kernel_name(autotuner)
        if not self.policy.in_scope(kernel):
            self.coverage.reach(kernel, coverage.OUT_OF_SCOPE, len(autotuner.configs))
            return
        self._reach_timed(kernel, autotuner)
        self.coverage.close_gap(kernel, key or "")
        arch = self.devices.current().arch
        if tuning.winner is not None:
            source = watch.TIMED if tuning.origin == watch.UNMEASURED else tuning.origin
            self._note(arch, kernel, key, tuning.winner, source)
        if self.recorder is None or self.policy.mode != "record" or key is None or _is_interpreted(autotuner):
            return
        self._warn_of_unknown(arch)
        self.recorder.device = self.devices.current()
        self.recorder.keep((arch, kernel, key), tuning)

    def report(self, adapter: Adapter | None) -> CoverageReport:
        """What was met so far; `adapter` finds what was not."""
        gaps = self.coverage.known_gaps()
        if adapter is not None:
            gaps += guarded("looking for uncovered autotuners", adapter.unseen) or []
        return CoverageReport(self.coverage.reached(), tuple(gaps), self.coverage.misses(), fault_counts())

    def _select(self, autotuner: Any, kernel: str, arch: str, key: str | None, pruned: list[Any],
                kept: dict[Any, Any]) -> Selection[Any]:  # fmt: skip
        """The selection of an autotuner, arch and key, kept: every call form of one key gets the same."""
        selection: Selection[Any] | None = kept.get((arch, key))
        if key is not None and selection is not None and _is_among(selection.candidate, pruned):
            return selection
        rank = current_place().rank if self.policy.chaos else 0
        selection = select(kernel, key, autotuner.configs, pruned, self.table(arch), self.policy, rank)
        if key is None:
            return selection
        # Of threads that select at once the first has decided, unless pruning left each its own candidates.
        first: Selection[Any] = kept.setdefault((arch, key), selection)
        if not _is_among(first.candidate, pruned):
            first = kept[arch, key] = selection
        return first

    def _key(self, kernel: str, autotuner: Any, arguments: Mapping[str, Any]) -> str | None:
        try:
            return shape_key(autotuner.keys, arguments)
        except FormatError as fault:
            warn_once(("key", kernel), "%s: key argument %s; its choices are neither recorded nor looked up",
                      kernel, fault)  # fmt: skip
            return None

    def _note(self, arch: str, kernel: str, key: str | None, candidate: Any, source: str) -> None:
        text = live_config_text(candidate)
        if key is not None and text is not None:
            self.choices.add(Choice(arch, kernel, key, text, source, self.policy.is_invariant(kernel)))

    def _reach_timed(self, kernel: str, autotuner: Any) -> None:
        treatment = coverage.INVARIANT if self.policy.is_invariant(kernel) else coverage.TIMED
        self.coverage.reach(kernel, treatment, len(autotuner.configs))

    def _note_selection(
        self, autotuner: Any, arch: str, kernel: str, key: str | None, selection: Selection[Any]
    ) -> None:
        if self.recorder is not None and not _is_interpreted(autotuner):
            self.recorder.device = self.devices.current()
            self.recorder.attend()
        treatment = coverage.PINNED if selection.candidate is not None else coverage.INVARIANT
        self.coverage.reach(kernel, treatment, len(autotuner.configs))
        if selection.miss:
            miss = Miss(arch, kernel, key or "", selection.miss, selection.source)
            self._note_miss(autotuner, miss, selection.candidate)
        if selection.candidate is not None:
            self._note(arch, kernel, key, selection.candidate, selection.source)
            if selection.source == "chaos" and key is not None:
                self._observe(autotuner, (arch, kernel, key), selection.candidate, "chaos")

    def _note_fault(
        self, autotuner: Any, kernel: str, args: tuple[Any, ...], kwargs: dict[str, Any], candidate: Any
    ) -> None:
        arch, key = self.devices.current().arch, guarded("naming a key", self.key, autotuner, args, kwargs)
        self._note_selection(autotuner, arch, kernel, key, Selection(candidate, "min_cost", FAULT))

    def _note_miss(self, autotuner: Any, miss: Miss, candidate: Any) -> None:
        number = self.coverage.miss(miss)
        if number == 0:
            return
        instead = _INSTEAD.get(miss.source, f"launching by {miss.source}")
        if miss.source == "min_cost" and self.policy.block_sizes_of(miss.kernel):
            instead += " (no candidate has the block sizes of the policy)"
        if number <= _LOGGED_MISSES:
            warn("miss (%s) on %s for %s key %s: %s", miss.reason, miss.arch, miss.kernel,
                 miss.key or "(none)", instead)  # fmt: skip
        elif number == _LOGGED_MISSES + 1:
            warn("further misses are only counted: coverage_report(), and with a record path "
                 "`registry misses`")  # fmt: skip
        if miss.reason != FAULT:
            warn_once(("missed", miss.arch), "the misses are of: %s", shown(self.table(miss.arch)))
        if key := miss.key or (_NO_TEXT if miss.reason == UNSUPPORTED_KEY else ""):
            self._observe(autotuner, (miss.arch, miss.kernel, key), candidate, miss.reason, is_miss=True)

    def _warn_of_unknown(self, arch: str) -> None:
        if arch == UNKNOWN:
            warn_once("unknown arch", "this process has no GPU: its architecture is recorded and looked up as `unknown`; "
                      "the policy's arch (--arch, TUNING_REGISTRY_ARCH) states another")  # fmt: skip

    def _observe(
        self, autotuner: Any, entry: tuple[str, str, str], candidate: Any, reason: str, is_miss: bool = False
    ) -> None:
        if self.recorder is not None and not _is_interpreted(autotuner):
            config = None if candidate is None else live_config_text(candidate)
            self.recorder.device = self.devices.current()
            keep = self.recorder.miss if is_miss else self.recorder.observe
            keep(entry, config, reason)


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN_NAMES]) + (", ..." if len(names) > _SHOWN_NAMES else "")


def _is_interpreted(autotuner: Any) -> bool:
    """Whether nothing of the kernel is recorded, since it runs in Triton's interpreter; says so once."""
    found = is_interpreted(autotuner)
    if found:
        warn_once("interpreter", "kernels run in Triton's interpreter, whose times mean nothing: not recorded")
    return found


def table_paths(policy: AutotunePolicy) -> list[Path]:
    """The policy's table paths, absolute: a training script may change its folder before the first launch."""
    stated = policy.table_path if isinstance(policy.table_path, tuple) else (policy.table_path,)
    return [Path(path).expanduser().absolute() for path in stated]


def check_tables(policy: AutotunePolicy) -> None:
    """Refuse table paths that cannot serve: none of them exists, or one is a file and no table.

    Which table of a folder is read depends on the device, so that is left to the first launch.

    Raises:
        PolicyError: With the paths.
    """
    paths = table_paths(policy)
    if paths and not any(path.exists() for path in paths):
        raise PolicyError(f"no table path exists: {', '.join(map(str, paths))}")
    others: dict[Path, str] = {}
    for path in paths:
        if path.exists() and not path.is_dir() and not path.is_file():
            raise PolicyError(f"table path: {path} is neither a folder nor a file")
        if path.is_file():
            try:
                table = read_table(path)
            except RegistryError as error:
                raise PolicyError(f"table path: {error}") from error
            others[path] = table.arch
    if policy.arch is not None and paths and policy.arch not in others.values() and len(others) == len(paths):
        shown_others = ", ".join(f"{path} is for {arch}" for path, arch in others.items())
        raise PolicyError(f"table path: {shown_others}, and the policy's arch is {policy.arch}")


def _is_among(candidate: Any, pruned: list[Any]) -> bool:
    return candidate is None or any(candidate is other for other in pruned)
