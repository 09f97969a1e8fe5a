"""One installed policy at work: answers the adapter's questions and keeps what came of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuning_registry.canonical import live_config_text
from tuning_registry.errors import FormatError, LaunchError, PolicyError, RegistryError
from tuning_registry.loader import installed_triton, load
from tuning_registry.runtime import coverage, watch
from tuning_registry.runtime.adapter import Adapter, current_target, live_kernels
from tuning_registry.runtime.arch import Device, Devices
from tuning_registry.runtime.choices import Choice, ChoiceLog
from tuning_registry.runtime.coverage import Coverage, CoverageReport, Miss
from tuning_registry.runtime.guard import fault_counts, guarded, warn_once
from tuning_registry.runtime.job import current_place
from tuning_registry.runtime.keys import call_arguments, has_tensor_key, is_interpreted, kernel_name, shape_key
from tuning_registry.runtime.policy import AutotunePolicy
from tuning_registry.runtime.select import Selection, select
from tuning_registry.table import TunedTable, read_table

if TYPE_CHECKING:
    from tuning_registry.runtime.recorder import Recorder

logger = logging.getLogger("tuning_registry")

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
        self._selections: dict[tuple[int, str, str], tuple[Any, Selection[Any]]] = {}
        self._lock = threading.RLock()

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
        with self._lock:
            if arch not in self._tables:
                table = self._tables[arch] = load(arch, self._table_paths)
                if table.has_bare_names:
                    # A bare name that two kernels share is a miss for whichever of them is launched first.
                    live = guarded("looking for kernels of one name", live_kernels) or set()
                    table.declare(filter(self.policy.in_scope, live))
            return self._tables[arch]

    def is_pinned(self, autotuner: Any) -> bool:
        """See `adapter.Handler`."""
        kernel = kernel_name(autotuner)
        if self.policy.in_scope(kernel):
            return True
        if len(autotuner.configs) > 1:
            self.coverage.reach(kernel, coverage.OUT_OF_SCOPE, len(autotuner.configs))
        return False

    def pin(self, autotuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], pruned: list[Any]) -> tuple[Any, bool]:
        """See `adapter.Handler`."""
        if len(autotuner.configs) == 1:
            return pruned[0], True
        kernel, arch = kernel_name(autotuner), self.devices.current().arch
        arguments = call_arguments(autotuner.arg_names, args, kwargs)
        key = self._key(kernel, autotuner, arguments)
        try:
            selection = self._select(autotuner, kernel, arch, key, pruned)
        except LaunchError as error:
            self._note_miss(Miss(arch, kernel, key or "", error.miss, "error"), None)
            raise
        treatment = coverage.PINNED if selection.candidate is not None else coverage.INVARIANT
        self.coverage.reach(kernel, treatment, len(autotuner.configs))
        if selection.miss:
            self._note_miss(Miss(arch, kernel, key or "", selection.miss, selection.source), selection.candidate)
        if selection.candidate is not None:
            self._note(arch, kernel, key, selection.candidate, selection.source)
            if selection.source == "chaos" and key is not None:
                self._observe((arch, kernel, key), selection.candidate, "chaos")
        # A tensor as key value is equal to itself alone: keeping the pin would keep every tensor, and find none.
        return selection.candidate, key is not None or not has_tensor_key(autotuner.keys, arguments)

    def tuned(self, tuning: watch.Tuning) -> None:
        """See `adapter.Handler`."""
        autotuner = tuning.autotuner
        kernel = kernel_name(autotuner)
        if not self.policy.in_scope(kernel):
            self.coverage.reach(kernel, coverage.OUT_OF_SCOPE, len(autotuner.configs))
            return
        invariant = self.policy.is_invariant(kernel)
        self.coverage.reach(kernel, coverage.INVARIANT if invariant else coverage.TIMED, len(autotuner.configs))
        arch = self.devices.current().arch
        key = self._key(kernel, autotuner, call_arguments(autotuner.arg_names, tuning.args, tuning.kwargs))
        if tuning.winner is not None:
            self._note(arch, kernel, key, tuning.winner, tuning.origin)
        if self.recorder is None or self.policy.mode != "record" or key is None:
            return
        if is_interpreted(autotuner):
            warn_once("interpreter", "kernels run in Triton's interpreter, whose times mean nothing: not recorded")
            return
        self.recorder.device = self.devices.current()
        self.recorder.keep((arch, kernel, key), tuning)

    def escaped(self, autotuner: Any) -> None:
        """See `adapter.Handler`."""
        kernel = kernel_name(autotuner)
        if self.policy.in_scope(kernel):
            self.coverage.reach(kernel, coverage.TIMED, len(autotuner.configs))
            self.coverage.gap(kernel, coverage.OWN_PRUNING)

    def report(self, adapter: Adapter | None) -> CoverageReport:
        """What was met so far; `adapter` finds what was not."""
        gaps = self.coverage.known_gaps()
        if adapter is not None:
            gaps += guarded("looking for uncovered autotuners", adapter.unseen) or []
        return CoverageReport(self.coverage.reached(), tuple(gaps), self.coverage.misses(), fault_counts())

    def _select(self, autotuner: Any, kernel: str, arch: str, key: str | None, pruned: list[Any]) -> Selection[Any]:
        """The selection of an autotuner, arch and key, kept: every call form of one key gets the same."""
        place = (id(autotuner), arch, key or "")
        with self._lock:
            # The autotuner is kept beside it, so that its id is not given to another while the entry lives.
            owner, kept = self._selections.get(place, (None, None))
            if key is not None and owner is autotuner and kept is not None and _is_among(kept.candidate, pruned):
                return kept
            selection = select(kernel, key, autotuner.configs, pruned, self.table(arch), self.policy,
                               current_place().rank if self.policy.chaos else 0)  # fmt: skip
            if key is not None:
                self._selections[place] = (autotuner, selection)
            return selection

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

    def _note_miss(self, miss: Miss, candidate: Any) -> None:
        if not self.coverage.miss(miss):
            return
        table = self.table(miss.arch)
        logger.warning(
            "tuning_registry: miss (%s) on %s for %s key %s: %s; table %s made with Triton %s, this is %s",
            miss.reason, miss.arch, miss.kernel, miss.key or "(none)",
            _INSTEAD.get(miss.source, f"launching by {miss.source}"),
            table.provenance.get("file", "(none)"), table.provenance.get("triton") or "?", installed_triton() or "?",
        )  # fmt: skip
        if miss.key:
            self._observe((miss.arch, miss.kernel, miss.key), candidate, miss.reason, is_miss=True)

    def _observe(self, entry: tuple[str, str, str], candidate: Any, reason: str, is_miss: bool = False) -> None:
        if self.recorder is not None:
            config = None if candidate is None else live_config_text(candidate)
            self.recorder.device = self.devices.current()
            keep = self.recorder.miss if is_miss else self.recorder.observe
            keep(entry, config, reason)


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
    for path in paths:
        if path.is_file():
            try:
                read_table(path)
            except RegistryError as error:
                raise PolicyError(f"table path: {error}") from error


def _is_among(candidate: Any, pruned: list[Any]) -> bool:
    return candidate is None or any(candidate is other for other in pruned)
