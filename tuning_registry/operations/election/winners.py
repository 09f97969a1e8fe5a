"""The config that each entry gets: bans first, then pins, then the policy."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading
from tuning_registry.db.store import Store
from tuning_registry.model.names import lookup_key
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.same_bits import SameBits
from tuning_registry.operations.election.shares import Shares
from tuning_registry.operations.election.tally import (
    PINNED,
    SAME_BITS,
    TIE_BY_TIME,
    ConfigVotes,
    EntryVotes,
    Winner,
    check_packages,
    entries_of,
    winners_of,
)
from tuning_registry.operations.election.votes_by_shape import VotesByShape
from tuning_registry.rules.evidence import Policy, Ties, elect, fastest, fastest_of_tie, least_slow_at_worst
from tuning_registry.rules.overrides import Overrides, in_force

E = TypeVar("E", bound=EntryVotes)
Track = Callable[[Sequence[Any]], Iterable[Any]]  # iterates over what is worked on, and may show how far it is
_ENTRY_FIELDS = [field.name for field in fields(EntryVotes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The outcome for every entry of a selection.

    Attributes:
        entries: Every entry with its elected config first among its choices, sorted by arch, kernel and key.
        left_out: Entries of which every config is banned.
        undecided: Entries that the timings could not decide and that fell back to the majority.
        overrides: The overrides in force for the selection's arch and kernel.
        votes: The votes and timings, for further questions.
        shares: The entries that ranks timed in shares.
    """

    entries: list[Winner]
    left_out: list[EntryVotes]
    undecided: int
    overrides: Overrides
    votes: VotesByShape
    shares: Shares

    @property
    def every_entry(self) -> list[EntryVotes]:
        """Elected entries and those left out."""
        return [*self.entries, *self.left_out]


def find_winners(store: Store, selection: Selection, policy: str = Policy.MAJORITY) -> list[Winner]:
    """The config that each entry gets, per version group, sorted by arch, kernel and key.

    Bans and pins apply (`rules.overrides`).

    Raises:
        SelectionError: A package filter names a distribution that owns no recorded kernel.
        DatabaseError: The database cannot be read.
    """
    with store.reading() as reading:
        election = elect_entries(reading, selection, policy)
        check_packages(election.votes)
        stale = election.votes.stale
    return [replace(entry, stale=stale[entry.shape]) if entry.shape in stale else entry for entry in election.entries]


def elect_entries(
    reading: Reading,
    selection: Selection,
    policy: str = Policy.MAJORITY,
    ties: str = Ties.TEXT,
    *,
    every_choice: bool = False,
    same_bits: SameBits | None = None,
    track: Track = iter,
) -> Election:
    """The config of every entry of a selection.

    By votes alone, without overrides, this is one query. Everything else reads every choice, and policies that
    judge by time read the timings of one entry at a time.

    Args:
        reading: The transaction.
        selection: Which votes count.
        policy: Who decides.
        ties: Who decides between configs with equally many votes.
        every_choice: Read every choice in any case.
        same_bits: The table whose results the election must not change, for a policy that judges by time.
        track: Wraps the entries that are elected one by one, to show progress.
    """
    policy, ties = Policy(policy), Ties(ties)
    votes = VotesByShape(reading, selection)
    shares = Shares(votes)
    history = in_force(reading.rows(queries.overrides.history()))
    overrides = Overrides(one for one in history if selection.covers(one.arch, one.kernel))
    if policy is Policy.MAJORITY and ties is Ties.TEXT and not overrides and not every_choice:
        winners = winners_of(votes.winners())
        return Election(entries=winners, left_out=[], undecided=0, overrides=overrides, votes=votes, shares=shares)
    elected: list[Winner] = []
    left_out: list[EntryVotes] = []
    undecided = 0
    voted = entries_of(votes.choices)
    for entry in track(voted if policy is Policy.MAJORITY else _with_shared(voted, shares)):
        in_shares = policy is Policy.MINIMAX and entry.shape in shares  # only this policy compares within a rank
        winner, was_decided = _elect_one(entry, overrides, policy, ties, votes, same_bits, in_shares=in_shares)
        undecided += not was_decided
        if winner is not None:
            elected.append(winner)
        elif entry.choices or votes.medians(entry.shape):  # else ranks died before they timed any candidate
            left_out.append(entry)
    entries = _with_pins(elected, left_out, overrides)
    return Election(
        entries=entries, left_out=left_out, undecided=undecided, overrides=overrides, votes=votes, shares=shares
    )


def _elect_one(
    entry: EntryVotes,
    overrides: Overrides,
    policy: Policy,
    ties: Ties,
    votes: VotesByShape,
    same_bits: SameBits | None = None,
    *,
    in_shares: bool,
) -> tuple[Winner | None, bool]:
    """The entry with its elected config, None if every config is banned; and whether the policy could decide."""
    banned = overrides.banned(entry.arch, entry.kernel, entry.key)
    allowed = [choice for choice in entry.choices if choice.config not in banned]
    pin = overrides.pin(entry.arch, entry.kernel, entry.key)
    if pin is not None:
        return _with_winner(entry, pin.config, allowed, PINNED), True
    held = None if same_bits is None else same_bits.config_of(entry)
    if same_bits is not None and held is not None and held not in banned:
        times = votes.timings_by_config(entry.shape, percentiles=False)
        same = same_bits.allowed(entry, held, votes)
        config = elect(policy, times, {one for one in times if one in banned or one not in same}, in_shares=in_shares)
        same_bits.kept += config in {None, held} and elect(policy, times, banned, in_shares=in_shares) not in {
            None,
            held,
        }
        return _with_winner(entry, config or held, allowed, policy if config else SAME_BITS), True
    timed = _by_time(policy, entry, votes, banned, in_shares=in_shares)
    was_decided = policy is Policy.MAJORITY or timed is not None
    if timed is not None:
        return _with_winner(entry, timed, allowed, policy), was_decided
    if not allowed:
        return None, was_decided
    first = _tie_by_time(entry, allowed, votes) if ties is Ties.FASTEST else None
    if first is not None:
        return _with_winner(entry, first, allowed, TIE_BY_TIME), was_decided
    return _with_winner(entry, allowed[0].config, allowed, Policy.MAJORITY), was_decided


def _tie_by_time(entry: EntryVotes, allowed: Sequence[ConfigVotes], votes: VotesByShape) -> str | None:
    """The fastest of several configs with most votes; None if one has more than the others, or the timings do not say."""
    level = [choice.config for choice in allowed if choice.count == allowed[0].count]
    return fastest_of_tie(level, votes.medians(entry.shape)) if len(level) > 1 else None


def _by_time(
    policy: Policy, entry: EntryVotes, votes: VotesByShape, banned: Container[str], *, in_shares: bool
) -> str | None:
    """The config that a policy elects by the timings; None if they do not say, or the votes decide."""
    if policy is Policy.FASTEST:
        return fastest(votes.medians(entry.shape), banned)
    if policy is Policy.MINIMAX:
        columns = None if in_shares else votes.median_columns(entry.shape)
        if columns is not None:
            return least_slow_at_worst(columns, banned)
        return elect(policy, votes.timings_by_config(entry.shape, percentiles=False), banned, in_shares=in_shares)
    return None


def _with_winner(entry: EntryVotes, config: str, allowed: Sequence[ConfigVotes], by: str) -> Winner:
    """The entry with its elected config first."""
    chosen = next((choice for choice in entry.choices if choice.config == config), ConfigVotes(config=config))
    others = (choice for choice in entry.choices if choice.config != config)
    counts = [choice.count for choice in allowed]
    known = {name: getattr(entry, name) for name in _ENTRY_FIELDS}
    return Winner(**known | {
        "choices": (chosen, *others),
        "is_tie": by == Policy.MAJORITY and len(counts) > 1 and counts[0] == counts[1],
        "decided_by": by,
        "banned": len(entry.choices) - len(allowed),
    })  # fmt: skip


def _with_shared(entries: Sequence[EntryVotes], shares: Shares) -> list[EntryVotes]:
    """The entries that have votes, and those without that ranks timed in shares."""
    voted = {entry.shape for entry in entries}
    added = [
        EntryVotes(
            arch=shape[0],
            kernel=shape[1],
            key=key,
            triton=shape[3],
            package=shape[4],
            version=shape[5],
            device=shape[6],
        )
        for shape, key in shares
        if shape not in voted
    ]
    return in_order([*entries, *added])


def _with_pins(elected: list[Winner], left_out: list[EntryVotes], overrides: Overrides) -> list[Winner]:
    """The elected entries and the pins of keys without votes, `*` included."""
    if not elected and not left_out:
        return elected  # filters that match no vote match no pin
    there = {entry.shape[:3] for entry in [*elected, *left_out]}
    added = [
        Winner(
            arch=pin.arch, kernel=pin.kernel, key=pin.key, choices=(ConfigVotes(config=pin.config),), decided_by=PINNED
        )
        for pin in overrides.pins()
        if (pin.arch, pin.kernel, lookup_key(pin.key)) not in there
    ]
    if not added:
        return elected
    return in_order([*elected, *added])


def in_order(entries: Iterable[E]) -> list[E]:
    """Entries by arch, kernel and key, compared byte by byte, then by version group."""
    return sorted(entries, key=lambda e: (e.arch.encode(), e.kernel.encode(), e.key.encode(), e.group))
