"""What audits of several ranks say together: whose results are equal, who is wrong, and which rank is.

Pure functions, standard library only. Audits are of one entry; a rank is identified by the id of its recording.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Final

from tuning_registry.model.audits import AuditedCandidate, AuditedEntry

ByRecording = Mapping[int, AuditedEntry]
LEAST_RANKS: Final = 3  # with equal inputs, before one of them can be alone with its result


class Bits(StrEnum):
    """Whether configs give equal bits."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedConfig:
    """One candidate of an entry as all audits together show it.

    Attributes:
        config: Canonical text.
        number: Number of its class of equal bits, 0 for the largest; None if it failed or does not repeat itself.
        recordings: Number of audits in which it ran.
        failed_on: Number of audits in which it failed.
        differs_on: Number of audits in which its runs gave different bits.
        outside_on: Number of audits in which it was outside the tolerance.
        difference: Largest relative difference, from 0 to 2; None if it never ran.
    """

    config: str
    number: int | None
    recordings: int
    failed_on: int
    differs_on: int
    outside_on: int
    difference: float | None


def bits_of(audits: ByRecording, configs: Collection[str]) -> Bits:
    """Whether some configs give equal bits: in every audit that ran both of a pair, their digests are equal.

    Unknown if a pair was never audited together, unless another pair is different.
    """
    distinct = _distinct(audits)
    found = {_compare(distinct, one, other) for one, other in combinations(sorted(configs), 2)}
    if Bits.DIFFERENT in found:
        return Bits.DIFFERENT
    return Bits.UNKNOWN if Bits.UNKNOWN in found or not distinct else Bits.EQUAL


def equal_to(audits: ByRecording, config: str) -> set[str]:
    """The configs that are known to give the same bits as one, itself included."""
    distinct = _distinct(audits)
    candidates = {one.config for audited in audits.values() for one in audited.candidates}
    return {config} | {one for one in candidates if _compare(distinct, config, one) is Bits.EQUAL}


def summarize(audits: ByRecording) -> list[AuditedConfig]:
    """Every candidate, in the order in which Triton times them, with its class of equal bits."""
    found: dict[str, list[AuditedCandidate]] = {}
    for audited in audits.values():
        for one in audited.candidates:
            found.setdefault(one.config, []).append(one)
    numbers = _classes(audits, [text for text, seen in found.items() if any(not one.failed for one in seen)])
    return [
        AuditedConfig(
            config=text,
            number=numbers.get(text),
            recordings=sum(not one.failed for one in seen),
            failed_on=sum(one.failed for one in seen),
            differs_on=sum(not one.repeats for one in seen),
            outside_on=sum(not one.within for one in seen),
            difference=max((one.difference for one in seen if one.difference is not None), default=None),
        )
        for text, seen in found.items()
    ]


def class_name(number: int | None) -> str | None:
    """The letter of a class: A is the largest. Numbers follow after Z."""
    if number is None:
        return None
    return chr(ord("A") + number) if number < 26 else f"Z{number - 25}"


def alone(audits: ByRecording) -> dict[int, tuple[int, int]]:
    """How many results each recording shares with others, and with how many of them it is in the minority.

    Only audits with equal inputs are compared, if there are at least three. A candidate that any of them found to
    is nondeterministic is left out. A recording is in the minority if more than half of the others agree on another
    digest.
    """
    counts: dict[int, tuple[int, int]] = {}
    by_inputs: dict[str, dict[int, AuditedEntry]] = {}
    for recording, audited in audits.items():
        if not audited.skipped:
            by_inputs.setdefault(audited.inputs, {})[recording] = audited
    for group in by_inputs.values():
        if len(group) >= LEAST_RANKS:
            for digests in _comparable(group):
                (most, number), *_ = Counter(digests.values()).most_common(1)
                decided = len(digests) >= LEAST_RANKS and 2 * number > len(digests)
                for recording, digest in digests.items():
                    shared, differing = counts.get(recording, (0, 0))
                    counts[recording] = (shared + decided, differing + (decided and digest != most))
    return counts


def _comparable(group: ByRecording) -> Iterable[dict[int, str]]:
    """For each candidate that always repeats itself, its digest by recording."""
    digests: dict[str, dict[int, str]] = {}
    unstable: set[str] = set()
    for recording, audited in group.items():
        for one in audited.candidates:
            if one.digest:
                digests.setdefault(one.config, {})[recording] = one.digest
            if not one.repeats:
                unstable.add(one.config)
    return [found for config, found in digests.items() if config not in unstable]


def _distinct(audits: ByRecording) -> list[dict[str, AuditedCandidate]]:
    """The candidates by config of each audit; audits that found the same are one."""
    distinct = {id(audited): audited for audited in audits.values() if audited.candidates}
    return [{one.config: one for one in audited.candidates} for audited in distinct.values()]


def _compare(distinct: Sequence[Mapping[str, AuditedCandidate]], one: str, other: str) -> Bits:
    pairs = [(found[one], found[other]) for found in distinct if one in found and other in found]
    ran = [(a, b) for a, b in pairs if not a.failed and not b.failed]
    if not ran:
        return Bits.UNKNOWN
    return Bits.EQUAL if all(a.repeats and b.repeats and a.digest == b.digest for a, b in ran) else Bits.DIFFERENT


def _classes(audits: ByRecording, configs: Iterable[str]) -> dict[str, int]:
    """Number of the class of each config that repeats itself; the largest class is 0."""
    distinct = _distinct(audits)
    classes: list[list[str]] = []
    for config in configs:
        if _compare(distinct, config, config) is not Bits.EQUAL:
            continue
        home = next((members for members in classes if _compare(distinct, members[0], config) is Bits.EQUAL), None)
        if home is None:
            classes.append([config])
        else:
            home.append(config)
    classes.sort(key=len, reverse=True)
    return {config: number for number, members in enumerate(classes) for config in members}
