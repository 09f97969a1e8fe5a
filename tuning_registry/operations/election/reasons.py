"""Why an entry has the config it has, in one sentence."""

from __future__ import annotations

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.names import ANY_KEY, lookup_key
from tuning_registry.operations.election.tally import PINNED, Choice, Entry
from tuning_registry.operations.overrides import BAN, Override, Overrides
from tuning_registry.rules.evidence import FASTEST, MAJORITY, ByConfig, median_of_medians, worst_slowdowns


def overrides_of(entry: Entry, overrides: Overrides) -> tuple[Override, ...]:
    """The standing overrides of an entry's key, those of `*` among them."""
    keys = {lookup_key(entry.key), ANY_KEY}
    return tuple(
        o for o in overrides.standing
        if (o.arch, o.kernel) == (entry.arch, entry.kernel) and lookup_key(o.key) in keys
    )  # fmt: skip


def why_elected(entry: Entry, overrides: Overrides, policy: str, times: ByConfig) -> str:
    """Why an elected entry has its first choice's config.

    Args:
        entry: As `elect_entries` gives it back.
        overrides: What stands for its kernel.
        policy: The policy that was asked for.
        times: The entry's timings.
    """
    winner = entry.choices[0]
    if entry.decided_by == PINNED:
        pin = overrides.pin(entry.arch, entry.kernel, entry.key)
        by = f"pinned by #{pin.id}" + (" (for every key)" if pin.key == ANY_KEY else "") if pin else "pinned"
        reason = f": {printable(pin.reason)}" if pin else ""
        return f"{by}{reason}; {_support(winner, entry.votes)}"
    if entry.decided_by != MAJORITY:
        return _by_time(entry, times)
    banned = {o.config: o for o in overrides_of(entry, overrides) if o.action == BAN}
    passed = [choice for choice in entry.choices[1:] if choice.config in banned and choice.count >= winner.count]
    skipped = [
        f"#{banned[choice.config].id} bans {printable(short_config(choice.config))} ({choice.count} of {entry.votes} votes)"
        for choice in passed
    ]
    said = _by_votes(entry, [choice for choice in entry.choices if choice.config not in banned])
    said = f"next after a ban ({'; '.join(skipped)}): {said}" if skipped else said
    return said if policy == MAJORITY else f"{said} (no timings that decide by {policy})"


def why_left_out(entry: Entry, overrides: Overrides) -> str:
    """Why an entry has no config although it has votes."""
    bans = ", ".join(f"#{o.id}" for o in overrides_of(entry, overrides) if o.action == BAN)
    return f"none: every config that was chosen is banned ({bans})"


def _by_votes(entry: Entry, allowed: list[Choice]) -> str:
    winner = entry.choices[0]
    if entry.is_tie:
        level = sum(choice.count == winner.count for choice in allowed)
        return f"tie of {level} configs at {winner.count} of {entry.votes} votes, decided by text: it sorts first"
    if winner.count == entry.votes:
        return "the only vote" if entry.votes == 1 else f"all {entry.votes} votes"
    word = "majority" if 2 * winner.count > entry.votes else "most votes"
    return f"{word}: {winner.count} of {entry.votes} votes"


def _by_time(entry: Entry, times: ByConfig) -> str:
    winner = entry.choices[0]
    if entry.decided_by == FASTEST:
        said = f"fastest: lowest median over ranks, {median_of_medians(times[winner.config]):.6g} ms"
    else:
        worst = 100 * (worst_slowdowns(times)[winner.config] - 1)
        said = f"minimax: smallest worst slowdown on any rank, {worst:.1f} %"
    return f"{said}; {_support(winner, entry.votes)}"


def _support(winner: Choice, votes: int) -> str:
    return f"{winner.count} of {votes} votes are for it" if votes else "nobody voted"
