"""`*` entries: one config for all keys of a kernel, except those that it would slow down too much."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuning_registry.model.names import ANY_KEY, bare_name
from tuning_registry.operations.election.tally import PINNED, EntryVotes, Winner
from tuning_registry.operations.election.votes_by_shape import VotesByShape
from tuning_registry.rules.evidence import Generalized, generalize
from tuning_registry.rules.overrides import Overrides

Kernels = dict[str, dict[str, str]]  # {kernel: {key: canonical text}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """How much smaller generalizing made a table, and the slowdown that it costs.

    Attributes:
        percent: Slowdown that was allowed.
        kernels: Kernels that got a `*` entry.
        saved: Entries that are not needed any more, less the `*` entries.
        worst_percent: The largest slowdown of a key against its own winner.
    """

    percent: float
    kernels: int
    saved: int
    worst_percent: float


def generalize_entries(
    entries: Sequence[Winner],
    unwritten: Sequence[EntryVotes],
    percent: float,
    votes: VotesByShape,
    overrides: Overrides,
) -> tuple[Kernels, Saving]:
    """The configs of a table, with a `*` entry for every kernel whose timings allow it.

    Keys that are pinned, were not timed, or ban the `*` config keep their entry. A kernel keeps all its entries if
    it has a `*` entry already, if its bare function name has entries (`*` would come before them), or if `*` would
    serve a key that bans its config and has no other.

    Args:
        entries: The entries that the table gets.
        unwritten: Entries that thresholds or bans keep out of the table; `*` will serve their keys.
        percent: Slowdown that is allowed.
        votes: Their timings.
        overrides: Bans and pins.
    """
    by_kernel: dict[str, list[Winner]] = {}
    for entry in entries:
        by_kernel.setdefault(entry.kernel, []).append(entry)
    table: Kernels = {}
    count, worst = 0, 0.0
    for kernel, members in by_kernel.items():
        table[kernel] = {entry.key: entry.config for entry in members}
        if ANY_KEY in table[kernel] or (bare_name(kernel) != kernel and bare_name(kernel) in by_kernel):
            continue
        others = [entry for entry in unwritten if entry.kernel == kernel]
        medians = _medians(members, votes)
        made = _any_key_entry(members, others, medians, percent, overrides)
        if made is not None:
            table[kernel] = _shortened(members, medians, made, overrides)
            count += 1
            worst = max([worst, made.worst_percent, *(_slowdown_percent(made.config, one, votes) for one in others)])
    saved = len(entries) - sum(map(len, table.values()))
    return table, Saving(percent=percent, kernels=count, saved=saved, worst_percent=worst)


def _medians(members: Sequence[Winner], votes: VotesByShape) -> dict[str, Mapping[str, float]]:
    """The median of medians of every config, for each key that is not pinned and whose own config was timed."""
    found = {}
    for entry in members:
        if entry.decided_by != PINNED:
            medians = votes.medians(entry.shape)
            if entry.config in medians:
                found[entry.key] = medians
    return found


def _any_key_entry(
    members: Sequence[Winner],
    others: Sequence[EntryVotes],
    medians: Mapping[str, Mapping[str, float]],
    percent: float,
    overrides: Overrides,
) -> Generalized | None:
    """The `*` entry of a kernel; None if there is none, or if it would serve a key that bans its config."""
    arch, kernel = members[0].arch, members[0].kernel
    winners = {entry.key: entry.config for entry in members if entry.key in medians}
    made = generalize(winners, medians, percent, overrides.banned(arch, kernel, ANY_KEY))
    if made is None or any(made.config in overrides.banned(arch, kernel, entry.key) for entry in others):
        return None
    return made


def _shortened(
    members: Sequence[Winner], medians: Mapping[str, Mapping[str, float]], made: Generalized, overrides: Overrides
) -> dict[str, str]:
    """The `*` entry, then the entries of the keys that it does not serve."""

    def is_served(entry: Winner) -> bool:
        if entry.key not in medians or entry.key in made.kept:
            return False
        return made.config not in overrides.banned(entry.arch, entry.kernel, entry.key)

    return {ANY_KEY: made.config, **{entry.key: entry.config for entry in members if not is_served(entry)}}


def _slowdown_percent(config: str, entry: EntryVotes, votes: VotesByShape) -> float:
    """The cost of `*` for a key outside the table, against the config it would have had; 0 if either was not timed."""
    medians = votes.medians(entry.shape)
    own = entry.choices[0].config
    if own not in medians or config not in medians:
        return 0.0
    best, mine = medians[own], medians[config]
    return max(0.0, 100 * (mine / best - 1)) if 0 < best < math.inf else 0.0
