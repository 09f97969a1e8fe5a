"""What an audit found about the candidates of an entry: whose results are equal bit by bit, and whose are wrong."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tuning_registry.errors import FormatError, describe
from tuning_registry.model.names import check_text

DIGEST_DIGITS: Final = 16  # hexadecimal digits of a digest: 64 bits
WORST: Final = 2.0  # the largest relative difference: two numbers of opposite sign, or a number and NaN
# Number of the config, digest, difference (NaN: the candidate failed), flags.
_PACKED: Final = struct.Struct("<q8sdB")
_DIFFERS, _OUTSIDE = 1, 2
_DIGEST: Final = re.compile(rf"[0-9a-f]{{{DIGEST_DIGITS}}}")


class AuditedCandidate(NamedTuple):
    """The results of one candidate. A candidate without a digest did not run.

    Attributes:
        config: Canonical text.
        digest: 16 hexadecimal digits: what all tensors of the call held afterwards. Empty if it failed.
        difference: Largest relative difference from the results that most candidates agree with, from 0 to 2; None if it
            failed.
        repeats: Whether its runs gave equal bits.
        within: Whether the difference is within the tolerance.
    """

    config: str
    digest: str
    difference: float | None
    repeats: bool = True
    within: bool = True

    @property
    def failed(self) -> bool:
        """Whether it did not run."""
        return not self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedEntry:
    """The audit of one entry by one rank.

    Attributes:
        skipped: Why the call was not audited; empty if it was. The other attributes then have their defaults.
        inputs: 16 hexadecimal digits of everything that the candidates computed from: recordings compare only if
            they are equal.
        is_seeded: Whether floating-point tensors held seeded values in place of the job's.
        candidates: In the order in which Triton times them.
    """

    skipped: str = ""
    inputs: str = ""
    is_seeded: bool = False
    candidates: Sequence[AuditedCandidate] = ()

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            FormatError: A value has the wrong form, or a candidate appears twice.
        """
        check_text(self.skipped, ("skipped",))
        if self.skipped:
            return
        _check_digest(self.inputs, "inputs")
        for candidate in self.candidates:
            if candidate.digest:
                _check_digest(candidate.digest, "results")
            stated = candidate.difference
            if (stated is None) is not candidate.failed or not (stated is None or 0 <= stated <= WORST):
                raise FormatError(f"expected a difference from 0 to {WORST:g}, null if it failed", ("results",))
        if len({candidate.config for candidate in self.candidates}) < len(self.candidates):
            raise FormatError("one candidate is audited twice", ("results",))

    @property
    def classes(self) -> dict[str, int]:
        """Number of the class of each candidate that ran and repeats: equal numbers, equal bits. 0 is the largest."""
        return classes_of(self.candidates)


def classes_of(candidates: Sequence[AuditedCandidate]) -> dict[str, int]:
    """Number of the class of each candidate (its config) that ran and repeats itself.

    The largest class is 0; of classes of equal size, the one whose first candidate comes first.
    """
    stable = [one for one in candidates if one.digest and one.repeats]
    sizes = Counter(one.digest for one in stable)  # in order of appearance, which `most_common` keeps on ties
    numbers = {digest: number for number, (digest, _) in enumerate(sizes.most_common())}
    return {one.config: numbers[one.digest] for one in stable}


def pack_results(candidates: Sequence[AuditedCandidate], config_ids: Mapping[str, int]) -> bytes:
    """The results of candidates as a database stores them: 25 bytes each."""
    return b"".join(
        _PACKED.pack(
            config_ids[one.config],
            bytes.fromhex(one.digest or "0" * DIGEST_DIGITS),
            math.nan if one.difference is None else one.difference,
            (0 if one.repeats else _DIFFERS) | (0 if one.within else _OUTSIDE),
        )
        for one in candidates
    )


def packed_configs(packed: bytes) -> list[int]:
    """The numbers of the configs of packed results."""
    return [number for number, *_ in _PACKED.iter_unpack(packed)]


def unpack_results(packed: bytes, texts: Mapping[int, str]) -> tuple[AuditedCandidate, ...]:
    """The inverse of `pack_results`."""
    return tuple(
        AuditedCandidate(
            texts[number],
            "" if math.isnan(difference) else digest.hex(),
            None if math.isnan(difference) else difference,
            not flags & _DIFFERS,
            not flags & _OUTSIDE,
        )
        for number, digest, difference, flags in _PACKED.iter_unpack(packed)
    )


def _check_digest(value: object, name: str) -> None:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise FormatError(f"expected {DIGEST_DIGITS} hexadecimal digits, found {describe(value)}", (name,))
