"""The result of an export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from tuning_registry.errors import printable
from tuning_registry.model.results import Result
from tuning_registry.operations.election.generalizing import Saving
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
        dropped: Entries that the thresholds left out.
        banned_out: Entries left out because every config is banned.
        with_bans: Elected entries some of whose chosen configs are banned.
        pinned: Entries that a pin decided.
        undecided: Entries that the policy's timings could not decide; they have the majority's config.
        kept_for_bits: Entries that keep the config of the table in use, because a faster one is not known to give the same
            bits.
        stale: Elected entries with votes that chose from other candidates than the newest recording.
        saving: The effect of generalizing; None if it was not asked for.
        devices: Recordings by device, largest share first.
    """

    data: bytes
    payload: Mapping[str, Any]
    entries: int
    disagreements: int
    ties: int
    dropped: int
    banned_out: int
    with_bans: int
    pinned: int
    undecided: int
    kept_for_bits: int
    stale: int
    saving: Saving | None
    devices: Mapping[str, int]

    @property
    def digest(self) -> str:
        """The digest that the table states and that training logs show."""
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
            "dropped",
            "banned_out",
            "with_bans",
            "pinned",
            "undecided",
            "kept_for_bits",
            "stale",
        )
        return {
            "arch": self.payload["arch"],
            "digest": self.digest,
            "selection_digest": self.selection_digest,
            **{name: getattr(self, name) for name in counts},
            "saving": None if self.saving is None else asdict(self.saving),
            "devices": dict(self.devices),
        }

    def __str__(self) -> str:
        """One readable line."""
        arch = printable(self.payload["arch"])
        return f"table of {arch} with {count_of(self.entries, 'entry')}, digest {self.digest[:16]}"
