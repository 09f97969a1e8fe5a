"""Why an entry has its config, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.names import ANY_KEY
from tuning_registry.operations.election.tally import PINNED, ConfigVotes, EntryVotes, Winner
from tuning_registry.rules.evidence import ByConfig, Policy, median_of_medians, worst_slowdowns
from tuning_registry.rules.overrides import Overrides
from tuning_registry.wording import count_of


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
    bans = {
        choice.config: overrides.ban_of(entry.arch, entry.kernel, entry.key, choice.config) for choice in entry.choices
    }
    skipped = [
        f"#{ban.id} bans {printable(short_config(choice.config))} ({choice.count} of {count_of(entry.votes, 'vote')})"
        for choice in entry.choices[1:]
        if (ban := bans[choice.config]) is not None and choice.count >= winner.count
    ]
    reason = _by_votes(entry, [choice for choice in entry.choices if bans[choice.config] is None])
    reason = f"first that is not banned ({'; '.join(skipped)}): {reason}" if skipped else reason
    return reason if policy == Policy.MAJORITY else f"{reason} (too few timings to decide by {policy})"


def why_left_out(entry: EntryVotes, overrides: Overrides) -> str:
    """Why an entry has no config although it has votes."""
    touching = overrides.touching(entry.arch, entry.kernel, entry.key)
    bans = (one for one in touching if any(one.bans(choice.config) for choice in entry.choices))
    return f"every config that was chosen is banned ({', '.join(f'#{one.id}' for one in bans)})"


@dataclass(frozen=True, slots=True)
class Left:
    """What bans leave to the launches of an entry of which every chosen config is banned.

    Attributes:
        text: In words.
        is_nothing: Whether no config that was recorded for the entry may be launched.
    """

    text: str
    is_nothing: bool


def what_bans_leave(entry: EntryVotes, overrides: Overrides, times: ByConfig, wider: str | None) -> Left:
    """What the launches of an entry get although every config that was chosen for it is banned.

    Args:
        entry: The entry.
        overrides: The overrides in force for its kernel.
        times: Its timings.
        wider: The config of the entry that serves its key instead, such as `*`; None if there is none.
    """
    banned = overrides.banned(entry.arch, entry.kernel, entry.key)
    if wider is not None and wider not in banned:
        return Left(f"launches use a wider entry of the table: {printable(short_config(wider))}", is_nothing=False)
    others = [config for config in times if config not in banned]
    if others:
        left = count_of(len(others), "other recorded config")
        return Left(f"launches use the job's fallback, for which bans leave {left}", is_nothing=False)
    text = "every recorded config is banned, so launches fail if the kernel has no other candidate"
    return Left(text, is_nothing=True)


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
    return f"{word}: {winner.count} of {count_of(entry.votes, 'vote')}"


def _by_time(entry: Winner, times: ByConfig) -> str:
    if entry.decided_by == Policy.FASTEST:
        reason = f"fastest: lowest median over ranks, {median_of_medians(times[entry.config]):.6g} ms"
    else:
        worst = 100 * (worst_slowdowns(times)[entry.config] - 1)
        reason = f"minimax: at worst {worst:.1f} % slower than a rank's fastest config, less than any other config"
    return f"{reason}; {_support(entry)}"


def _support(entry: Winner) -> str:
    count = entry.choices[0].count
    verb = "is" if count == 1 else "are"
    return f"{count} of {count_of(entry.votes, 'vote')} {verb} for it" if entry.votes else "no votes"
