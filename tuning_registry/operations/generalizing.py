"""`*` entries: one config for every key of a kernel, and entries of their own where that costs too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuning_registry.evidence import generalize, median_of_medians
from tuning_registry.names import ANY_KEY
from tuning_registry.operations.election import Evidence
from tuning_registry.operations.overrides import Overrides
from tuning_registry.operations.tally import PINNED, Entry

Kernels = dict[str, dict[str, str]]  # {kernel: {key: canonical text}}


@dataclass(frozen=True, slots=True)
class Saving:
    """What generalizing did to a table.

    Attributes:
        percent: Slowdown that was allowed.
        kernels: Kernels that got a `*` entry.
        saved: Entries that are no more needed, less the `*` entries.
        worst_percent: The largest slowdown that a key now accepts against its own winner.
    """

    percent: float
    kernels: int
    saved: int
    worst_percent: float


def generalize_entries(
    entries: Sequence[Entry], percent: float, evidence: Evidence, overrides: Overrides
) -> tuple[Kernels, Saving]:
    """The configs of a table, with a `*` entry for every kernel whose timings allow it.

    Keys that are pinned, were not timed, or on which the `*` config is banned keep their own entry. A kernel
    that has a `*` entry already keeps everything as it is.
    """
    by_kernel: dict[str, list[Entry]] = {}
    for entry in entries:
        by_kernel.setdefault(entry.kernel, []).append(entry)
    table: Kernels = {}
    count, worst = 0, 0.0
    for kernel, members in by_kernel.items():
        own = {entry.key: entry.choices[0].config for entry in members}
        table[kernel] = own
        if ANY_KEY in own:
            continue
        medians = {
            entry.key: {config: median_of_medians(by_rank) for config, by_rank in evidence.of(entry.shape).items()}
            for entry in members
            if entry.decided_by != PINNED
        }
        timed = {key: found for key, found in medians.items() if own[key] in found}
        banned = overrides.banned(members[0].arch, kernel, ANY_KEY)
        made = generalize({key: own[key] for key in timed}, timed, percent, banned)
        if made is None:
            continue
        without = {
            key for key in timed
            if key not in made.kept and made.config not in overrides.banned(members[0].arch, kernel, key)
        }  # fmt: skip
        table[kernel] = {ANY_KEY: made.config, **{key: text for key, text in own.items() if key not in without}}
        count += 1
        worst = max(worst, made.worst_percent)
    saved = len(entries) - sum(map(len, table.values()))
    return table, Saving(percent, count, saved, worst)
