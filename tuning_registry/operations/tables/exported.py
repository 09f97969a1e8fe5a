"""The result of an export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from tuning_registry.errors import printable
from tuning_registry.formats.compile_file import CompileData
from tuning_registry.model.results import Result
from tuning_registry.operations.election.generalizing import Saving
from tuning_registry.operations.election.timings import Sample
from tuning_registry.operations.tables.evidence import Evidence
from tuning_registry.wording import count_of

UNKNOWN_DEVICE: Final = "unknown device"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Export(Result):
    """A table with the facts that a reader should know about it.

    Attributes:
        data: The bytes of the table file.
        payload: Its content.
        entries: Entries written.
        disagreements: Elected entries for which ranks chose more than one config.
        ties: Elected entries whose winner was decided by its text alone.
        ties_by_time: Elected entries with equally many votes for several configs, of which the timings chose one.
        dropped: Entries that the thresholds left out.
        banned_out: Entries left out because every config is banned.
        with_bans: Entries that votes or timings decided and some of whose chosen configs are banned.
        pinned: Entries that a pin decided.
        pinned_banned: Of these, entries whose pin overrides a ban of its config for every key of the kernel.
        undecided: Entries that the policy's timings could not decide; they have the majority's config.
        kept_for_bits: Entries that keep the config of the table in use, because a faster one is not known to give the same
            bits.
        stale: Elected entries with votes that chose from other candidates than the newest recording.
        evidence: The slowdowns in the table, for keys that are not in it; false if there are none.
        in_shares: Elected entries from split runs.
        fewest_ranks: Of their candidates, the least number of ranks that timed one; 0 without such entries.
        most_ranks: The largest number.
        unvoted: Entries from split runs that this policy cannot elect: they have no votes, or not even timings.
        other_kinds: Entries left out because their config is not a Triton config.
        other_devices: Entries left out because they are for one device, and others for the architecture.
        saving: The effect of generalizing; None if it was not asked for.
        compile_data: What the table's kernels need to be compiled before they are launched; false if nothing is known, or
            if it was not asked for.
        devices: Recordings by device, largest share first.
        sample: Which part of the timings the table rests on; None if on all, or if it needed none.
    """

    data: bytes
    payload: Mapping[str, Any]
    entries: int
    disagreements: int
    ties: int
    ties_by_time: int
    dropped: int
    banned_out: int
    with_bans: int
    pinned: int
    pinned_banned: int
    undecided: int
    kept_for_bits: int
    stale: int
    in_shares: int
    fewest_ranks: int
    most_ranks: int
    unvoted: int
    other_kinds: int
    other_devices: int
    saving: Saving | None
    evidence: Evidence
    compile_data: CompileData
    devices: Mapping[str, int]
    sample: Sample | None = None

    @property
    def digest(self) -> str:
        """The digest of the table's entries, as the table states it."""
        return str(self.payload["tuning_registry"]["digest"])

    @property
    def selection_digest(self) -> str:
        """The digest of everything that decides a pin, as training logs show it."""
        ours = self.payload["tuning_registry"]
        return str(ours.get("selection_digest", ours["digest"]))

    def to_dict(self) -> dict[str, Any]:
        """The facts as JSON holds them; the table itself is `payload`."""
        counts = (
            "entries",
            "disagreements",
            "ties",
            "ties_by_time",
            "dropped",
            "banned_out",
            "with_bans",
            "pinned",
            "pinned_banned",
            "undecided",
            "kept_for_bits",
            "stale",
            "in_shares",
            "fewest_ranks",
            "most_ranks",
            "unvoted",
            "other_kinds",
            "other_devices",
        )
        return {
            "arch": self.payload["arch"],
            "digest": self.digest,
            "selection_digest": self.selection_digest,
            **{name: getattr(self, name) for name in counts},
            "saving": None if self.saving is None else asdict(self.saving),
            "evidence": {"keys": self.evidence.keys, "bytes": self.evidence.size},
            "compile_data": {"entries": self.compile_data.keys, "kernels": len(self.compile_data.kernels)},
            "devices": dict(self.devices),
            **(self.sample.to_dict() if self.sample else {}),
        }

    def __str__(self) -> str:
        """One readable line."""
        arch = printable(self.payload["arch"])
        return f"table of {arch} with {count_of(self.entries, 'entry')}, digest {self.selection_digest[:16]}"
