"""What was reached, how it was treated, and what escaped: the report behind "0 disagreements"."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tuning_registry.errors import printable
from tuning_registry.log import inform
from tuning_registry.runtime.guard import guarded
from tuning_registry.runtime.misses import Miss
from tuning_registry.runtime.triton.keys import kernel_name

PINNED: Final = "pinned"
TIMED: Final = "timed"
INVARIANT: Final = "invariant"
OUT_OF_SCOPE: Final = "out of scope"
REFUSED: Final = "refused"
EARLIER: Final = "has configs in its cache that were chosen before install, or by another tool"
COMPILED: Final = "captured by torch.compile"
OWN_PRUNING: Final = "its class prunes its own way, and nothing tells what it chose"
OWN_TIMING: Final = "its class times candidates its own way, and nothing tells what it chose"
IN_CAPTURE: Final = "its class times candidates its own way, which was not refused inside a CUDA-graph capture"
NOT_PINNED: Final = "it was timed, not pinned: its class overrides run, or the launch began before install"
BYPASSED: Final = "it was launched, its class overrides run, and it was never seen to call Autotuner.run"


@dataclass(frozen=True, slots=True)
class CoverageReport:
    """What this process did with the autotuners it met.

    Attributes:
        reached: Treatment by kernel: `pinned`, `timed`, `invariant`, `out of scope` or `refused` (by `on_miss="error"`).
        not_covered: `(kernel, why)` of autotuners whose choices were not seen.
        misses: Every miss once.
        faults: How often each kind of our own faults was caught.
    """

    reached: dict[str, str]
    not_covered: tuple[tuple[str, str], ...]
    misses: tuple[Miss, ...]
    faults: dict[str, int]

    @property
    def miss_counts(self) -> dict[str, int]:
        """Number of missed keys by reason."""
        return dict(Counter(miss.reason for miss in self.misses))

    def __str__(self) -> str:
        """The report as lines of text, for a log."""
        lines = [f"{len(self.reached)} autotuners reached: " + (counted(self.reached.values()) or "none")]
        lines += [f"  {how:<12} {kernel}" for kernel, how in sorted(self.reached.items())]
        lines += [f"  NOT COVERED  {kernel}: {why}" for kernel, why in self.not_covered]
        if self.misses:
            lines.append(f"{len(self.misses)} misses: {counted(m.reason for m in self.misses)}")
            lines += [f"  {m.reason}: {m.kernel} {m.key} ({m.source})" for m in self.misses]
        if self.faults:
            lines.append("faults caught: " + ", ".join(f"{kind} x{n}" for kind, n in sorted(self.faults.items())))
        return "\n".join(map(printable, lines))


class Coverage:
    """Collects what is met; called at first launches only.

    Safe under threads, forks and signal handlers, without a lock: every note is one entry of a dict.

    Args:
        announce: Log each autotuner when it is first reached (policy field `enumerate_autotuners`).
    """

    def __init__(self, announce: bool = False) -> None:
        self._announce = announce
        self._reached: dict[tuple[str, str], object] = {}
        self._gaps: dict[tuple[str, str], str] = {}

    def reach(self, kernel: str, treatment: str, candidates: int) -> None:
        """Note how a kernel's multi-config autotuner is treated; each treatment of a kernel is logged once."""
        mine = object()
        if self._reached.setdefault((kernel, treatment), mine) is mine and self._announce:
            inform("autotuner %s (%d candidates): %s", kernel, candidates, treatment)

    def gap(self, kernel: str, key: str, why: str) -> None:
        """Note that what is chosen for a kernel's key may not be seen, or is not ours to decide."""
        self._gaps[kernel, key] = why

    def close_gap(self, kernel: str, key: str) -> None:
        """What was chosen was seen after all."""
        if self._gaps.get((kernel, key)) in {OWN_PRUNING, OWN_TIMING}:
            self._gaps.pop((kernel, key), None)

    def reached(self) -> dict[str, str]:
        """Treatment by kernel; one that was pinned for one key and timed for another counts as timed: the weaker claim."""
        treatments: dict[str, str] = {}
        for kernel, treatment in self._reached.copy():
            if treatment != PINNED or kernel not in treatments:
                treatments[kernel] = treatment
        return treatments

    def known_gaps(self) -> list[tuple[str, str]]:
        """What is cheaply known to be uncovered: kernels in compiled graphs, kernels out of scope."""
        outside = [(kernel, OUT_OF_SCOPE) for kernel, how in sorted(self.reached().items()) if how == OUT_OF_SCOPE]
        unseen = sorted({(kernel, why) for (kernel, _), why in self._gaps.copy().items()})
        return [*((kernel, COMPILED) for kernel in sorted(compiled_kernels())), *unseen, *outside]


def compiled_kernels() -> set[str]:
    """Kernels with several configs that torch.compile has put into a graph.

    Inductor tunes those itself from a copy of the candidate list and never calls `Autotuner.run`.
    """
    # torch keeps every user kernel that dynamo traced in this table; it is private, so absence is no error.
    module = sys.modules.get("torch._higher_order_ops.triton_kernel_wrap")
    table = getattr(getattr(module, "kernel_side_table", None), "id_to_kernel", None)
    kernels = list(table.values()) if isinstance(table, dict) else []
    return {kernel_name(kernel) for kernel in kernels if len(getattr(kernel, "configs", ())) > 1}


def unseen_kernels(autotuner_class: Any, earlier: Callable[[Any], frozenset[Any] | None]) -> list[tuple[str, str]]:
    """`(kernel, why)` of live autotuners that were launched and not seen, or not for every key, sorted.

    One that was never launched chose nothing, whatever its class does: it is no gap. Walks all live objects: for reports, never for a launch.

    Args:
        autotuner_class: Triton's.
        earlier: The keys that an autotuner's cache held when it was first met; None if it never was.
    """
    found: set[tuple[str, str]] = set()
    for name, autotuner in live_autotuners(autotuner_class):
        met = earlier(autotuner)
        overrides = met is None and type(autotuner).run is not autotuner_class.run
        if met is not None:
            launched = any(key in autotuner.cache for key in met)
        else:
            launched = was_launched(autotuner) if overrides else bool(getattr(autotuner, "cache", None))
        if launched:
            found.add((name, BYPASSED if overrides and not getattr(autotuner, "cache", None) else EARLIER))
    return sorted(found)


def live_autotuners(autotuner_class: Any) -> Iterator[tuple[str, Any]]:
    """Every live autotuner that has a choice to make, with its kernel's name. Walks all live objects."""
    for thing in gc.get_objects():
        # type(), not isinstance(): the latter asks proxies for their __class__ and may run their code.
        if issubclass(type(thing), autotuner_class) and len(getattr(thing, "configs", ())) > 1:
            name = guarded("naming an autotuner", kernel_name, thing)
            if name:
                yield name, thing


def was_launched(autotuner: Any) -> bool:
    """Whether an autotuner has been launched, as far as Triton's own traces tell; True where they do not.

    The traces: what `Autotuner.run` leaves in the autotuner, and what a launch by whatever road leaves in the
    kernel's function, its compiled forms by device (`cache` in Triton 3.2, `device_caches` since).
    """
    if getattr(autotuner, "cache", None) or hasattr(autotuner, "best_config"):
        return True
    function = autotuner
    while hasattr(function, "fn"):
        caches = getattr(function, "device_caches", getattr(function, "cache", None))
        if function is not autotuner and isinstance(caches, dict):
            return any(of_device[0] if isinstance(of_device, tuple) else of_device for of_device in caches.values())
        function = function.fn
    return True


def counted(items: Iterable[str]) -> str:
    """How often each item occurs, as text: `2 no key, 1 pruned away`."""
    return ", ".join(f"{number} {item}" for item, number in sorted(Counter(items).items()))
