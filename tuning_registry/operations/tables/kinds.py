"""Which entries a canonical table can hold: Triton configs, of one device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tuning_registry.errors import SelectionError
from tuning_registry.model.kinds import Kind, kind_of
from tuning_registry.operations.election.tally import EntryVotes
from tuning_registry.operations.election.winners import Election
from tuning_registry.wording import count_of, list_some


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Entries that a table cannot hold.

    Attributes:
        other_kinds: Entries whose config is not a Triton config.
        other_devices: Entries for one device, next to entries for the architecture.
    """

    other_kinds: int
    other_devices: int


# See docs/decisions.md, D137.
def for_a_table(election: Election) -> tuple[Election, LeftOut]:
    """An election without the entries that a canonical table cannot hold, and their numbers.

    Raises:
        SelectionError: There are only configs of other kinds, or entries for several devices.
    """
    every = election.every_entry
    triton = [entry for entry in every if _kind(entry) is Kind.TRITON]
    if every and not triton:
        kinds = sorted({str(_kind(entry)) for entry in every})
        raise SelectionError(
            f"a table holds Triton configs, but all {count_of(len(every), 'entry')} have configs of another kind "
            f"({', '.join(kinds)}). Write them in the format of their tool with --to FORMAT (see registry formats)"
        )
    devices = sorted({entry.device for entry in triton})
    device = devices[0] if devices else ""
    if device and len(devices) > 1:
        raise SelectionError(
            f"the entries are for {len(devices)} devices: {list_some(devices)}. Nothing was written. Choose one with --device"
        )
    if len(every) == len(triton) and len(devices) < 2:
        return election, LeftOut(0, 0)
    kept = [entry for entry in election.entries if _kind(entry) is Kind.TRITON and entry.device == device]
    banned = [entry for entry in election.left_out if _kind(entry) is Kind.TRITON and entry.device == device]
    others = sum(entry.device != device for entry in triton)
    return replace(election, entries=kept, left_out=banned), LeftOut(len(every) - len(triton), others)


def _kind(entry: EntryVotes) -> Kind:
    return kind_of(entry.choices[0].config) if entry.choices else Kind.TRITON
