"""Why an entry has its config, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.names import ANY_KEY
from tuning_registry.operations.election.tally import PINNED, ConfigVotes, EntryVotes, Winner
from tuning_registry.rules.evidence import ByConfig, Policy, median_of_medians, worst_slowdowns
from tuning_registry.rules.overrides import BAN, Overrides


def why_elected(entry: Winner, overrides: Overrides, policy: str, times: ByConfig) -> str:
    """Why an elected entry has its config.

    Args:
        entry: The entry, as `elect_entries` returns it.
        overrides: The overrides in force for its kernel.
        policy: The requested policy.
        times: The timings of the entry.
    """
    if entry.decided_by == PINNED:
        return _by_pin(entry, overrides)
    if entry.decided_by != Policy.MAJORITY:
        return _by_time(entry, times)
    winner = entry.choices[0]
    bans = {one.config: one for one in overrides.touching(entry.arch, entry.kernel, entry.key) if one.action == BAN}
    skipped = [
        f"#{bans[choice.config].id} bans {printable(short_config(choice.config))} ({choice.count} of {entry.votes} votes)"
        for choice in entry.choices[1:]
        if choice.config in bans and choice.count >= winner.count
    ]
    reason = _by_votes(entry, [choice for choice in entry.choices if choice.config not in bans])
    reason = f"first that is not banned ({'; '.join(skipped)}): {reason}" if skipped else reason
    return reason if policy == Policy.MAJORITY else f"{reason} (no timings from which {policy} could decide)"


def why_left_out(entry: EntryVotes, overrides: Overrides) -> str:
    """Why an entry has no config although it has votes."""
    bans = (one for one in overrides.touching(entry.arch, entry.kernel, entry.key) if one.action == BAN)
    return f"every config that was chosen is banned ({', '.join(f'#{one.id}' for one in bans)})"


def _by_pin(entry: Winner, overrides: Overrides) -> str:
    pin = overrides.pin(entry.arch, entry.kernel, entry.key)
    if pin is None:
        return f"pinned; {_support(entry)}"
    scope = " (for every key)" if pin.key == ANY_KEY else ""
    return f"pinned by #{pin.id}{scope}: {printable(pin.reason)}; {_support(entry)}"


def _by_votes(entry: Winner, allowed: Sequence[ConfigVotes]) -> str:
    winner = entry.choices[0]
    if entry.is_tie:
        level = sum(choice.count == winner.count for choice in allowed)
        return f"tie of {level} configs at {winner.count} of {entry.votes} votes; its text sorts first"
    if winner.count == entry.votes:
        return "the only vote" if entry.votes == 1 else f"all {entry.votes} votes"
    word = "majority" if 2 * winner.count > entry.votes else "most votes"
    return f"{word}: {winner.count} of {entry.votes} votes"


def _by_time(entry: Winner, times: ByConfig) -> str:
    if entry.decided_by == Policy.FASTEST:
        reason = f"fastest: lowest median over ranks, {median_of_medians(times[entry.config]):.6g} ms"
    else:
        worst = 100 * (worst_slowdowns(times)[entry.config] - 1)
        reason = f"minimax: at worst {worst:.1f} % slower than a rank's fastest config, less than any other config"
    return f"{reason}; {_support(entry)}"


def _support(entry: Winner) -> str:
    return f"{entry.choices[0].count} of {entry.votes} votes are for it" if entry.votes else "nobody voted"
