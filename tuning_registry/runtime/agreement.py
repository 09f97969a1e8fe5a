"""Whether the ranks of a job chose the same configs, checked with as little traffic as the answer needs."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tuning_registry.errors import AgreementError, printable
from tuning_registry.log import warn
from tuning_registry.model.canonical import dump_json
from tuning_registry.model.names import rank_ranges
from tuning_registry.runtime.choices import Choice, ChoiceLog
from tuning_registry.runtime.control import active_session, policy_changes
from tuning_registry.runtime.job.collectives import Group, all_gather_bytes, all_gather_numbers, current_group
from tuning_registry.runtime.job.place import current_place
from tuning_registry.runtime.weak_map import WeakIdentityMap

_DIGEST_BYTES = 8  # per entry and per config; a job has thousands of entries, far from the 2^32 where these collide


class Disagreement(NamedTuple):
    """One entry for which ranks chose more than one config.

    Attributes:
        arch: Architecture.
        kernel: Qualified kernel name.
        key: Shape key, in lookup spelling.
        ranks: Ranks (of the group) by canonical config text.
    """

    arch: str
    kernel: str
    key: str
    ranks: dict[str, tuple[int, ...]]

    def __str__(self) -> str:
        """The entry and who chose what, on one line."""
        sides = "; ".join(f"ranks {rank_ranges(ranks)} chose {config}" for config, ranks in sorted(self.ranks.items()))
        return printable(f"{self.kernel} {self.key} on {self.arch}: {sides}")


@dataclass(frozen=True, slots=True)
class Agreement:
    """The outcome of a check; true when nothing that was compared differs.

    Attributes:
        ranks: Number of ranks compared; 1 means that there was nobody to compare with.
        compared: Entries that at least two ranks chose a config for, since the process group was made.
        new: Whether this check learned of new choices.
        disagreements: Entries that differ.
        not_covered: `(kernel, why)` this check knows it cannot speak for.
    """

    ranks: int
    compared: int
    new: bool
    disagreements: tuple[Disagreement, ...] = ()
    not_covered: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        """Whether no difference was found; nothing compared is no difference either: look at `compared`."""
        return not self.disagreements


class _Known:
    """What one group has told each other so far: the same on every rank after every check, but for `sent`."""

    def __init__(self) -> None:
        # One group's checks one after another; groups know nothing of each other, since a lock over a collective
        # of one would make another wait for ranks that wait for it.
        self.lock = threading.Lock()
        self.sent = 0
        self.session: Any = None
        # By rank, how often its policy has changed: its choices then start afresh.
        self.changes: list[int] = []
        # entry digest -> config digest -> ranks that chose it, as bits
        self.ranks: dict[bytes, dict[bytes, int]] = {}
        self.texts: dict[bytes, Disagreement] = {}
        self.warned: set[bytes] = set()
        self.warned_gaps: set[tuple[str, str]] = set()


_known: WeakIdentityMap[_Known] = WeakIdentityMap()  # by group: one that lives on would keep its port and threads
_steps = 0
_lock = threading.Lock()


def choice_log() -> list[Choice]:
    """The choice that stands for every entry of this process, sorted; empty without a policy."""
    session = active_session()
    return [] if session is None else session.choices.standing()


def choice_digest() -> str:
    """SHA-256 of this process's choices that can change values: equal on ranks that ran and chose the same."""
    session = active_session()
    return hashlib.sha256(b"{}").hexdigest() if session is None else session.choices.digest()


def maybe_verify_choices(step: int | None = None, group: Any = None) -> Agreement | None:
    """`verify_choices` at every `verify_every`-th step; None in between, or when the policy sets no interval.

    Args:
        step: The training step, the same on every rank; None counts the calls of this function.
        group: As for `verify_choices`.

    Raises:
        AgreementError: As for `verify_choices`.
    """
    global _steps  # noqa: PLW0603 - counts calls of this process
    session = active_session()
    every = 0 if session is None else session.policy.verify_every
    if step is None:
        _steps += 1
        step = _steps
    return verify_choices(group) if every and step % every == 0 else None


def verify_choices(group: Any = None) -> Agreement:
    """Compare the choices of the ranks of a group; a collective, so every rank of the group must call it.

    Only entries that several ranks chose a config for are compared: pipeline and expert ranks run different
    kernels. Ranks exchange what is new since their last check: 56 bytes each when nothing is, or when
    all have the same news. Kernels whose config cannot change values are left out.

    Args:
        group: A `torch.distributed` process group; None for the default one. Without an initialised
            process group there is nobody to compare with.

    Raises:
        AgreementError: The policy says `verify_strict` and ranks differ; raised on every rank alike.
    """
    session = active_session()
    where = current_group(group)
    gaps = () if session is None else tuple(session.coverage.known_gaps())
    if where is None:
        return Agreement(1, 0, new=False, not_covered=gaps)
    current_place()  # remembered there: the group may be gone when the recording is written
    with _lock:
        known = _known.get(where.identity) or _Known()
        _known.put(where.identity, known)
    with known.lock:
        if known.session is not session:
            known.sent, known.session = 0, session
        # A rank without a policy takes part with nothing: a collective that it left out would hang the others.
        choices = ChoiceLog() if session is None else session.choices
        fresh, known.sent = choices.since(known.sent)
        new, differ_in_gaps = _exchange(where, known, _latest(fresh), gaps)
        differing = sorted(entry for entry, configs in known.ranks.items() if len(configs) > 1)
        _exchange_texts(where, known, differing, choices.standing())
        found = tuple(known.texts[entry] for entry in differing if entry in known.texts)
        compared = sum(_is_shared(configs) for configs in known.ranks.values())
        result = Agreement(where.size, compared, new, found, gaps)
        _report(where, known, differing, result, is_speaker=where.rank == 0 or where.rank in differ_in_gaps)
    if found and session is not None and session.policy.verify_strict:
        raise AgreementError(
            f"{len(found)} of {compared} entries differ between {where.size} ranks: " + " | ".join(map(str, found[:10]))
        )
    return result


def _latest(choices: Iterable[Choice]) -> dict[bytes, bytes]:
    """Config digest by entry digest of the choices that can change values."""
    return {_digest(dump_json(c.entry)): _digest(c.config) for c in choices if not c.invariant}


def _exchange(
    where: Group, known: _Known, fresh: dict[bytes, bytes], gaps: tuple[tuple[str, str], ...]
) -> tuple[bool, list[int]]:
    """Tell each other what is new; whether anything was, and the ranks whose gaps are not rank 0's."""
    payload = b"".join(entry + fresh[entry] for entry in sorted(fresh))
    summary = hashlib.sha256(payload).digest()
    words = [int.from_bytes(summary[i : i + 8], "big", signed=True) for i in range(0, 32, 8)]
    shown_gaps = int.from_bytes(_digest(dump_json(gaps))[:8], "big", signed=True)
    numbers = all_gather_numbers(where, [policy_changes(), shown_gaps, len(payload), *words])
    _forget_replaced(known, [row[0] for row in numbers])
    differ_in_gaps = [rank for rank, row in enumerate(numbers) if row[1] != numbers[0][1]]
    numbers = [row[2:] for row in numbers]
    if not any(size for size, *_ in numbers):
        return False, differ_in_gaps
    if all(row == numbers[0] for row in numbers):
        payloads = [payload] * where.size  # all ranks have the same news: nothing more to send
    else:
        payloads = all_gather_bytes(where, payload, [size for size, *_ in numbers])
    for rank, received in enumerate(payloads):
        for start in range(0, len(received), 2 * _DIGEST_BYTES):
            entry = received[start : start + _DIGEST_BYTES]
            _put(known, entry, received[start + _DIGEST_BYTES : start + 2 * _DIGEST_BYTES], rank)
    return True, differ_in_gaps


def _forget_replaced(known: _Known, changes: list[int]) -> None:
    """Drop the choices of ranks whose policy has changed since; all ranks see the same counts."""
    fresh = [rank for rank, count in enumerate(known.changes) if changes[rank] != count]
    known.changes = changes
    for entry, configs in known.ranks.items() if fresh else ():
        for config in list(configs):
            for rank in fresh:
                configs[config] &= ~(1 << rank)
            if not configs[config]:
                del configs[config]
        known.texts.pop(entry, None)


def _put(known: _Known, entry: bytes, config: bytes, rank: int) -> None:
    """Note that a rank's choice for an entry is this one, and no longer another."""
    configs = known.ranks.setdefault(entry, {})
    for other in [other for other, ranks in configs.items() if other != config and ranks >> rank & 1]:
        configs[other] &= ~(1 << rank)
        if not configs[other]:
            del configs[other]
        known.texts.pop(entry, None)
    before = configs.get(config, 0)
    configs[config] = before | 1 << rank
    if len(configs) > 1 and configs[config] != before:
        known.texts.pop(entry, None)  # who chose what has changed: the text is exchanged anew


def _exchange_texts(where: Group, known: _Known, differing: Sequence[bytes], standing: Sequence[Choice]) -> None:
    """Spell out the entries that differ: for each side its lowest rank sends names and config.

    Every rank holds the same `known`, so all agree on whether this takes place.
    """
    wanted = {entry for entry in differing if entry not in known.texts}
    if not wanted:
        return
    mine: list[list[str]] = []
    for choice in standing:
        entry, config = _digest(dump_json(choice.entry)), _digest(choice.config)
        sides = known.ranks.get(entry, {})
        if entry in wanted and config in sides and _lowest(sides[config]) == where.rank:
            mine.append([*choice.entry, choice.config])
    payload = dump_json(mine).encode()
    sizes = [row[0] for row in all_gather_numbers(where, [len(payload)])]
    found: dict[bytes, Disagreement] = {}
    for received in all_gather_bytes(where, payload, sizes):
        for arch, kernel, key, text in json.loads(received):
            entry = _digest(dump_json((arch, kernel, key)))
            bits = known.ranks[entry][_digest(text)]
            found.setdefault(entry, Disagreement(arch, kernel, key, {})).ranks[text] = _members(bits)
    known.texts.update(found)


def _report(where: Group, known: _Known, differing: Sequence[bytes], result: Agreement, *, is_speaker: bool) -> None:
    """Rank 0 warns once per entry; it and each rank with other gaps than it (`is_speaker`) once per gap."""
    news = [entry for entry in differing if entry not in known.warned and entry in known.texts]
    gaps = [gap for gap in result.not_covered if gap not in known.warned_gaps]
    known.warned.update(news)
    known.warned_gaps.update(gaps)
    for entry in news if where.rank == 0 else ():
        warn("ranks disagree on %s", known.texts[entry])
    for kernel, why in gaps if is_speaker else ():
        warn("agreement does not cover %s: %s", kernel, why)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]


def _is_shared(configs: dict[bytes, int]) -> bool:
    return sum(bits.bit_count() for bits in configs.values()) > 1


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _members(bits: int) -> tuple[int, ...]:
    return tuple(rank for rank in range(bits.bit_length()) if bits >> rank & 1)
