"""Coverage: which autotuners were launched, how they were treated, and which ones escaped."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tuning_registry.errors import printable
from tuning_registry.log import notify
from tuning_registry.model.names import bare_name
from tuning_registry.runtime.guard import guarded
from tuning_registry.runtime.misses import Miss
from tuning_registry.runtime.triton.keys import kernel_name
from tuning_registry.wording import count_of

PINNED: Final = "pinned"
TIMED: Final = "timed"
INVARIANT: Final = "invariant"
OUT_OF_SCOPE: Final = "out of scope"
REFUSED: Final = "refused"
INDUCTOR: Final = "chosen by Inductor"
EARLIER: Final = "has cached configs that were chosen before install, or by another tool"
COMPILED: Final = "captured by torch.compile"
DYNAMIC: Final = (
    "torch.compile made one config for all sizes of a dynamic dimension, chosen for the sizes of the first call"
)
FUSED: Final = "Inductor fused other operations into it, so its timings are not those of the kernel"
OWN_PRUNING: Final = "its class overrides prune_configs, and nothing reports its choice"
OWN_TIMING: Final = "its class overrides _bench, and nothing reports its choice"
IN_CAPTURE: Final = "its class overrides _bench, so timing inside a CUDA-graph capture was not prevented"
NOT_PINNED: Final = "it was timed, not pinned: its class overrides run, or the launch began before install"
BYPASSED: Final = "it was launched, but its class overrides run and was never seen to call Autotuner.run"


@dataclass(frozen=True, slots=True)
class CoverageReport:
    """What this process did with the autotuners that it launched.

    Attributes:
        reached: Treatment by kernel: `pinned`, `timed`, `invariant`, `out of scope`, `refused` (by `on_miss="error"`) or
            `chosen by Inductor` (its own kernels and templates, and kernels whose module it does not tell).
        not_covered: `(kernel, why)` of autotuners whose choices may not have been seen.
        misses: Every miss once.
        faults: How often each kind of fault in this package was caught.
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
        lines = [f"{count_of(len(self.reached), 'autotuner')} reached: " + (counted(self.reached.values()) or "none")]
        lines += [f"  {how:<12} {kernel}" for kernel, how in sorted(self.reached.items())]
        lines += [f"  NOT COVERED  {kernel}: {why}" for kernel, why in self.not_covered]
        if self.misses:
            lines.append(f"misses: {counted(m.reason for m in self.misses)}")
            lines += [f"  {m.reason}: {m.kernel} {m.key} ({m.instead})" for m in self.misses]
        if self.faults:
            lines.append("faults caught: " + ", ".join(f"{kind} x{n}" for kind, n in sorted(self.faults.items())))
        return "\n".join(map(printable, lines))


class Coverage:
    """Collects the kernels that are launched; called at first launches only.

    Safe under threads, forks and signal handlers, without a lock: each note is one entry of a dict.

    Args:
        announce: Log each autotuner when it is first reached (policy field `enumerate_autotuners`).
    """

    def __init__(self, announce: bool = False) -> None:
        self._announce = announce
        self._reached: dict[tuple[str, str], object] = {}
        self._gaps: dict[tuple[str, str], str] = {}
        self._covered: dict[str, bool] = {}  # kernels in compiled graphs, by qualified or bare name

    def reach(self, kernel: str, treatment: str, candidates: int) -> None:
        """Note how a kernel's multi-config autotuner is treated; each treatment of a kernel is logged once."""
        mine = object()
        if self._reached.setdefault((kernel, treatment), mine) is mine and self._announce:
            notify("autotuner %s (%d candidates): %s", kernel, candidates, treatment)

    def gap(self, kernel: str, key: str, why: str) -> None:
        """Note that the choice for a kernel's key may not be seen, or could not be pinned."""
        self._gaps[kernel, key] = why

    def cover(self, kernel: str) -> None:
        """Note that the launches of a kernel in compiled graphs are seen; a bare name stands for all of its kernels."""
        self._covered[kernel] = True

    def close_gap(self, kernel: str, key: str) -> None:
        """Note that the choice was seen after all."""
        if self._gaps.get((kernel, key)) in {OWN_PRUNING, OWN_TIMING}:
            self._gaps.pop((kernel, key), None)

    def reached(self) -> dict[str, str]:
        """Treatment by kernel. A kernel that was pinned for one key and timed for another counts as timed, the weaker claim."""
        treatments: dict[str, str] = {}
        for kernel, treatment in self._reached.copy():
            if treatment != PINNED or kernel not in treatments:
                treatments[kernel] = treatment
        return treatments

    def known_gaps(self) -> list[tuple[str, str]]:
        """The gaps that are cheap to find: kernels in compiled graphs, unseen choices, kernels out of scope."""
        outside = [(kernel, OUT_OF_SCOPE) for kernel, how in sorted(self.reached().items()) if how == OUT_OF_SCOPE]
        unseen = sorted({(kernel, why) for (kernel, _), why in self._gaps.copy().items()})
        compiled = [k for k in sorted(compiled_kernels()) if not {k, bare_name(k)} & self._covered.keys()]
        return [*((kernel, COMPILED) for kernel in compiled), *unseen, *outside]


def compiled_kernels() -> set[str]:
    """Kernels with several configs that torch.compile has put into a graph.

    Inductor tunes them itself, from a copy of the candidate list, and never calls `Autotuner.run`.
    """
    # torch keeps every user kernel that dynamo traced in this private table; it may be missing in some releases.
    module = sys.modules.get("torch._higher_order_ops.triton_kernel_wrap")
    table = getattr(getattr(module, "kernel_side_table", None), "id_to_kernel", None)
    kernels = list(table.values()) if isinstance(table, dict) else []
    return {kernel_name(kernel) for kernel in kernels if len(getattr(kernel, "configs", ())) > 1}


def unseen_kernels(autotuner_class: Any, earlier: Callable[[Any], frozenset[Any] | None]) -> list[tuple[str, str]]:
    """`(kernel, why)`, sorted, of live autotuners that were launched but not seen, or not seen for every key.

    An autotuner that was never launched has chosen nothing, so it is not a gap. Walks all live objects: for
    reports only, never for a launch.

    Args:
        autotuner_class: Triton's.
        earlier: Returns the keys that an autotuner's cache held when it was first seen; None if it never was.
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
    """Every live autotuner with several configs, and its kernel's name. Walks all live objects."""
    for thing in gc.get_objects():
        # type() rather than isinstance(), which reads __class__ of proxies and may run their code.
        if issubclass(type(thing), autotuner_class) and len(getattr(thing, "configs", ())) > 1:
            name = guarded("naming an autotuner", kernel_name, thing)
            if name:
                yield name, thing


def was_launched(autotuner: Any) -> bool:
    """Whether an autotuner has been launched, as far as Triton's traces show; True if there are no traces to read.

    The traces are what `Autotuner.run` leaves in the autotuner, and what any launch leaves in the kernel's
    function: its compiled forms by device (`cache` in Triton 3.2, `device_caches` in later releases).
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
    """How often each item occurs, as text: `no key (2), pruned away (1)`."""
    return ", ".join(f"{item} ({number:,})" for item, number in sorted(Counter(items).items()))
