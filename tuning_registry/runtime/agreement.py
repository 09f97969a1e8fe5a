"""Checking, with little traffic, whether the ranks of a job chose the same configs."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tuning_registry.errors import AgreementError, printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.log import warn
from tuning_registry.model.canonical import dump_json
from tuning_registry.model.names import ranks_text
from tuning_registry.runtime.choices import Choice, ChoiceLog
from tuning_registry.runtime.control import active_policy, active_session, policy_changes
from tuning_registry.runtime.guard import warn_once
from tuning_registry.runtime.job.collectives import Group, all_gather_bytes, all_gather_numbers, current_group
from tuning_registry.runtime.job.place import current_place
from tuning_registry.runtime.known_choices import (
    CHOICE_BYTES,
    ENTRY_BYTES,
    KnownChoices,
    digest,
    entry_digest,
    lowest,
    members,
)
from tuning_registry.runtime.triton.weak_map import WeakIdentityMap
from tuning_registry.wording import count_of, list_some


class Disagreement(NamedTuple):
    """One entry for which ranks chose more than one config, launching functions of equal source.

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
        """The entry and the ranks that chose each config, on one line."""
        choices = sorted(self.ranks.items())
        sides = "; ".join(f"{ranks_text(ranks)} chose {short_config(config)}" for config, ranks in choices)
        return printable(f"{self.kernel} {self.key} on {self.arch}: {sides}")


@dataclass(frozen=True, slots=True)
class Agreement:
    """The outcome of a check; true if no compared entry differs.

    Attributes:
        ranks: Number of ranks compared; 1 means that there was no other rank.
        compared: Number of entries that at least two ranks have chosen a config for since the process group was created.
        new: Whether any rank had new choices.
        disagreements: Entries that differ.
        not_covered: `(kernel, why)` of kernels that this check does not cover.
        other_code: Kernels that ranks launched from functions of different source under one name, so that their
            configs cannot be compared.
    """

    ranks: int
    compared: int
    new: bool
    disagreements: tuple[Disagreement, ...] = ()
    not_covered: tuple[tuple[str, str], ...] = ()
    other_code: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether no difference was found. This is also true if nothing was compared: see `compared`."""
        return not self.disagreements


_known: WeakIdentityMap[KnownChoices] = (
    WeakIdentityMap()
)  # by group; weakly, since a live group keeps its port and threads
_steps = 0
_lock = threading.Lock()


def choice_log() -> list[Choice]:
    """The latest choice of every entry in this process, sorted; empty without a policy."""
    session = active_session()
    return [] if session is None else session.choices.latest()


def choice_digest() -> str:
    """SHA-256 of this process's choices that can change results: equal on ranks with equal choices."""
    session = active_session()
    return hashlib.sha256(b"{}").hexdigest() if session is None else session.choices.digest()


def maybe_verify_choices(step: int | None = None, group: Any = None) -> Agreement | None:
    """Call `verify_choices` at every `verify_every`-th step; return None in between, or without an interval.

    Args:
        step: The training step, the same on every rank; None counts the calls of this function.
        group: As for `verify_choices`.

    Raises:
        AgreementError: As for `verify_choices`.
    """
    global _steps  # noqa: PLW0603 - counts calls of this process
    session = active_session()
    if session is not None:
        session.was_verified = True
    every = 0 if session is None else session.policy.verify_every
    if step is None:
        _steps += 1
        step = _steps
    return verify_choices(group) if every and step % every == 0 else None


def verify_choices(group: Any = None) -> Agreement:
    """Compare the choices of the ranks of a group. This is a collective: every rank of the group must call it.

    Only entries that several ranks chose a config for are compared, since pipeline and expert ranks run different
    kernels; and only launches of functions of equal source, since functions may share a name. Ranks exchange the choices
    that are new since their last check: 56 bytes each if there are none, or if all ranks have the same new choices.
    Kernels whose config cannot change results are left out.

    Args:
        group: A `torch.distributed` process group; None for the default one. Without an initialised
            process group there is no other rank to compare with.

    Raises:
        AgreementError: Ranks differ and the policy sets `verify_strict`; raised on every rank.
    """
    session = active_session()
    if session is not None:
        session.was_verified = True
    where = current_group(group)
    gaps = () if session is None else tuple(session.coverage.known_gaps())
    if where is None:
        return Agreement(1, 0, new=False, not_covered=gaps)
    current_place()  # remembers the rank: the group may be gone when the recording is written
    with _lock:
        known = _known.get(where.identity) or KnownChoices()
        _known.put(where.identity, known)
    with known.lock:
        if known.session is not session:
            known.sent, known.session = 0, session
        # A rank without a policy takes part without choices: if it skipped the collective, the others would hang.
        choices = ChoiceLog() if session is None else session.choices
        fresh, known.sent = choices.since(known.sent)
        new, differ_in_gaps = _exchange(where, known, _latest(fresh), gaps)
        differing, split = known.differing(), known.split()
        _exchange_texts(where, known, {*differing, *split}, choices.latest())
        found = tuple(known.texts[entry] for entry in differing if entry in known.texts)
        other_code = {known.texts[entry].kernel for entry in split if entry in known.texts}
        compared = known.compared()
        result = Agreement(where.size, compared, new, found, gaps, tuple(sorted(other_code)))
        _report(where, known, result, is_speaker=where.rank == 0 or where.rank in differ_in_gaps)
    if found and session is not None and session.policy.verify_strict:
        raise AgreementError(
            f"{where.size} ranks chose different configs for {len(found)} of {count_of(compared, 'entry')}: "
            + list_some(list(map(str, found)), " | ", shown=3)
        )
    return result


def _latest(choices: Iterable[Choice]) -> dict[bytes, bytes]:
    """Config digest by entry digest, for the choices that can change results."""
    return {entry_digest(*c.entry): digest(c.config) for c in choices if not c.invariant}


def _exchange(
    where: Group, known: KnownChoices, fresh: dict[bytes, bytes], gaps: tuple[tuple[str, str], ...]
) -> tuple[bool, list[int]]:
    """Exchange new choices; returns whether there were any, and the ranks whose gaps differ from rank 0's."""
    payload = b"".join(entry + fresh[entry] for entry in sorted(fresh))
    summary = hashlib.sha256(payload).digest()
    words = [int.from_bytes(summary[i : i + 8], "big", signed=True) for i in range(0, 32, 8)]
    shown_gaps = int.from_bytes(digest(dump_json(gaps)), "big", signed=True)
    numbers = all_gather_numbers(where, [policy_changes(), shown_gaps, len(payload), *words])
    known.forget_replaced([row[0] for row in numbers])
    differ_in_gaps = [rank for rank, row in enumerate(numbers) if row[1] != numbers[0][1]]
    numbers = [row[2:] for row in numbers]
    if not any(size for size, *_ in numbers):
        return False, differ_in_gaps
    if all(row == numbers[0] for row in numbers):
        payloads = [payload] * where.size  # all ranks have the same new choices: nothing more to send
    else:
        payloads = all_gather_bytes(where, payload, [size for size, *_ in numbers])
    for rank, received in enumerate(payloads):
        for start in range(0, len(received), CHOICE_BYTES):
            entry, config = received[start : start + ENTRY_BYTES], received[start + ENTRY_BYTES : start + CHOICE_BYTES]
            known.put(entry, config, rank)
    return True, differ_in_gaps


def _exchange_texts(where: Group, known: KnownChoices, entries: Iterable[bytes], choices: Sequence[Choice]) -> None:
    """Exchange names and configs of these entries; for each config, the lowest rank that chose it sends them.

    `known` is equal on every rank, so all ranks agree on whether this takes place.
    """
    wanted = {entry for entry in entries if entry not in known.texts}
    if not wanted:
        return
    mine: list[list[str]] = []
    for choice in choices:
        entry, config = entry_digest(*choice.entry), digest(choice.config)
        sides = known.ranks.get(entry, {})
        if entry in wanted and config in sides and lowest(sides[config]) == where.rank:
            mine.append([*choice.entry, choice.config])
    payload = dump_json(mine).encode()
    sizes = [row[0] for row in all_gather_numbers(where, [len(payload)])]
    found: dict[bytes, Disagreement] = {}
    for received in all_gather_bytes(where, payload, sizes):
        for arch, kernel, key, function, text in json.loads(received):
            entry = entry_digest(arch, kernel, key, function)
            bits = known.ranks[entry][digest(text)]
            found.setdefault(entry, Disagreement(arch, kernel, key, {})).ranks[text] = members(bits)
    known.texts.update(found)


def _report(where: Group, known: KnownChoices, result: Agreement, *, is_speaker: bool) -> None:
    """Warn once per entry on rank 0, and once per gap on rank 0 and on ranks with other gaps (`is_speaker`)."""
    gaps = [("gap", *gap) for gap in result.not_covered if known.is_first(("gap", *gap))]
    for _, kernel, why in gaps if is_speaker else ():
        warn("agreement checks do not cover %s: %s", kernel, why)
    if where.rank != 0:
        return
    choosers = known.choosers()
    if not result.compared and len(choosers) > 1 and known.is_first("nothing compared"):
        warn("no choice was compared: %d of %d ranks chose configs, but no two of them for the same kernel and key. Do they "
             "run the same modules under the same names?", len(choosers), where.size)  # fmt: skip
    for kernel in result.other_code:
        if known.is_first(("other code", kernel)):
            warn("ranks launched functions with different source code as %s, so their configs were not compared. Do all "
                 "ranks have the same version of its package?", kernel)  # fmt: skip
    news = [one for one in result.disagreements if known.is_first((one.arch, one.kernel, one.key))]
    policy = active_policy()
    if news and policy is not None and policy.mode == "record" and policy.split is not None:
        warn_once("split", "ranks share the work of this run (split), so each launches the best of the candidates that it timed: "
                  "the configs of %d of %d entries differ", len(news), result.compared)  # fmt: skip
        return
    for disagreement in news:
        warn("ranks disagree on %s", disagreement)
    if news and policy is not None and policy.on_miss == "tune":
        warn_once("tune", "on_miss is tune, so each rank times the keys that the table does not have; pin these keys, or choose "
                  "another on_miss, if ranks must agree")  # fmt: skip
