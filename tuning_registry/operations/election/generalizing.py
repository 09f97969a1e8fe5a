"""`*` entries: one config for every key of a kernel, and entries of their own where that costs too much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tuning_registry.model.names import ANY_KEY, bare_name
from tuning_registry.operations.election.election import Evidence
from tuning_registry.operations.election.tally import PINNED, Entry
from tuning_registry.operations.overrides import Overrides
from tuning_registry.rules.evidence import generalize, median_of_medians

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
    entries: Sequence[Entry], unwritten: Sequence[Entry], percent: float, evidence: Evidence, overrides: Overrides
) -> tuple[Kernels, Saving]:
    """The configs of a table, with a `*` entry for every kernel whose timings allow it.

    Keys that are pinned, were not timed, or on which the `*` config is banned keep their own entry. A kernel
    keeps everything as it is when it has a `*` entry already, when its function name has entries of its own (which
    `*` would come before), or when `*` would serve a key on which that config is banned and nothing else is left.

    Args:
        entries: Those that get into the table.
        unwritten: Those that thresholds or bans keep out of it: `*` will serve their keys.
        percent: Slowdown that is allowed.
        evidence: Their timings.
        overrides: Bans and pins.
    """
    by_kernel: dict[str, list[Entry]] = {}
    for entry in entries:
        by_kernel.setdefault(entry.kernel, []).append(entry)
    table: Kernels = {}
    count, worst = 0, 0.0
    for kernel, members in by_kernel.items():
        own = {entry.key: entry.choices[0].config for entry in members}
        table[kernel] = own
        if ANY_KEY in own or (bare_name(kernel) != kernel and bare_name(kernel) in by_kernel):
            continue
        medians = {
            entry.key: {config: median_of_medians(by_rank) for config, by_rank in evidence.of(entry.shape).items()}
            for entry in members
            if entry.decided_by != PINNED
        }
        timed = {key: found for key, found in medians.items() if own[key] in found}
        banned = overrides.banned(members[0].arch, kernel, ANY_KEY)
        made = generalize({key: own[key] for key in timed}, timed, percent, banned)
        others = [entry for entry in unwritten if entry.kernel == kernel]
        arch = members[0].arch
        if made is None or any(made.config in overrides.banned(arch, kernel, entry.key) for entry in others):
            continue
        without = {
            key for key in timed
            if key not in made.kept and made.config not in overrides.banned(arch, kernel, key)
        }  # fmt: skip
        table[kernel] = {ANY_KEY: made.config, **{key: text for key, text in own.items() if key not in without}}
        count += 1
        worst = max([worst, made.worst_percent, *(_slowdown_of(made.config, entry, evidence) for entry in others)])
    saved = len(entries) - sum(map(len, table.values()))
    return table, Saving(percent, count, saved, worst)


def _slowdown_of(config: str, entry: Entry, evidence: Evidence) -> float:
    """What `*` costs a key that is not in the table, against the config it would have had; 0 where not timed."""
    timed = evidence.of(entry.shape)
    own = entry.choices[0].config
    if own not in timed or config not in timed:
        return 0.0
    best, mine = median_of_medians(timed[own]), median_of_medians(timed[config])
    return max(0.0, 100 * (mine / best - 1)) if 0 < best < math.inf else 0.0
