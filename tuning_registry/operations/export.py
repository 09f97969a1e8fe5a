"""The canonical table of one architecture, from the votes in a database."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tuning_registry.canonical import parse_config
from tuning_registry.db.reading import Row
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError, UsageError
from tuning_registry.operations.reports import Entry, check_packages, entries_of
from tuning_registry.packages import normal_distribution
from tuning_registry.selection import Selection
from tuning_registry.table import table_bytes, table_payload

POLICY = "majority"
UNKNOWN_DEVICE = "unknown device"
_SHOWN = 5  # mixed entries named in an error


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How much support an entry needs to be exported.

    Attributes:
        min_votes: Least votes on the entry.
        min_agreement: Least share of them for the winner, 0 to 1.
    """

    min_votes: int = 1
    min_agreement: float = 0.0

    def __post_init__(self) -> None:
        """Raises UsageError outside the ranges."""
        if self.min_votes < 1:
            raise UsageError(f"--min-votes is at least 1, found {self.min_votes}")
        if not 0 <= self.min_agreement <= 1:
            raise UsageError(f"--min-agreement is a share from 0 to 1, found {self.min_agreement}")

    def accept(self, entry: Entry) -> bool:
        """Whether an entry has the support."""
        share = Fraction(entry.choices[0].count, entry.votes)
        return entry.votes >= self.min_votes and share >= Fraction(str(self.min_agreement))


@dataclass(frozen=True, slots=True)
class Export:
    """A table and what to say about it.

    Attributes:
        data: The bytes of the table file.
        payload: Its content.
        entries: Entries written.
        disagreements: Entries written for which ranks chose more than one config.
        ties: Entries written whose winner was decided by its text alone.
        dropped: Entries that the thresholds left out.
        devices: Recordings by device, largest share first.
    """

    data: bytes
    payload: Mapping[str, Any]
    entries: int
    disagreements: int
    ties: int
    dropped: int
    devices: Mapping[str, int]


def export_table(
    store: Store, selection: Selection, thresholds: Thresholds | None = None, source: str | None = None
) -> Export:
    """The table of `selection.arch`, byte for byte the same for the same votes.

    Args:
        store: The database.
        selection: Which votes; `arch` must be set.
        thresholds: Support an entry needs.
        source: Text for the table's `source`; by default what the recordings say.

    Raises:
        SelectionError: Nobody recorded the architecture, or the votes are of several versions.
        DatabaseError: The database cannot be read.
    """
    if selection.arch is None:
        raise UsageError("an export is of one architecture")
    thresholds = thresholds or Thresholds()
    selection = selection.normalised()
    with store.reading() as reading:
        check_packages(reading, selection)
        entries = entries_of(reading.winners(selection))
        facts = {row["id"]: row for row in reading.recording_facts(selection)}
        archs = reading.archs_recorded(selection)
        if not entries:
            raise _nothing_recorded(selection, reading.archs_recorded(Selection()))
    used = [facts[row["recording_id"]] for row in archs if row["arch"] == selection.arch]
    _refuse_mixed(entries)
    kept = [entry for entry in entries if thresholds.accept(entry)]
    if not kept:
        raise SelectionError(f"the thresholds leave none of the {len(entries)} entries; nothing is written")
    kernels: dict[str, dict[str, Any]] = {}
    for entry in kept:
        kernels.setdefault(entry.kernel, {})[entry.key] = parse_config(entry.choices[0].config)
    weakest = min(kept, key=lambda e: (Fraction(e.choices[0].count, e.votes), -e.votes))
    payload = table_payload(
        str(selection.arch),
        kernels,
        source if source is not None else "; ".join(sorted({row["source"] for row in used} - {""})),
        triton=kept[0].triton,
        packages=_common_packages(used, kept),
        extra={
            "policy": POLICY,
            "recordings": len(used),
            "runs": sorted({row["run"] for row in used}),
            "weakest_agreement": [weakest.choices[0].count, weakest.votes],
        },
    )
    return Export(
        table_bytes(payload),
        payload,
        entries=len(kept),
        disagreements=sum(entry.config_count > 1 for entry in kept),
        ties=sum(entry.is_tie for entry in kept),
        dropped=len(entries) - len(kept),
        devices=dict(Counter(_device(row) for row in used).most_common()),
    )


def only_arch(store: Store) -> str:
    """The one architecture that has votes.

    Raises:
        SelectionError: There are none, or several: then it must be named.
    """
    with store.reading() as reading:
        archs = sorted({row["arch"] for row in reading.archs_recorded(Selection())})
    if len(archs) != 1:
        raise SelectionError(
            f"the recordings hold votes on {', '.join(archs) or 'no architecture'}; choose with --arch"
        )
    return str(archs[0])


def _nothing_recorded(selection: Selection, archs: Sequence[Row]) -> SelectionError:
    known = sorted({row["arch"] for row in archs})
    if selection.arch in known:
        return SelectionError(f"no vote on {selection.arch} passes the filters; registry runs lists what is there")
    shown = ", ".join(known) or "none (registry runs lists withdrawn runs, too)"
    return SelectionError(f"no counting recording has votes on {selection.arch}; recorded archs: {shown}")


def _refuse_mixed(entries: Sequence[Entry]) -> None:
    """Refuse votes of two Triton versions, or of two versions of the package that owns a kernel.

    One table stands for one version of each, so it is refused also when no single entry mixes them.
    """
    for what, name_of, flag in (
        ("Triton", lambda _: "", "--triton V"),
        ("package", lambda e: e.kernel.partition(".")[0], "--package NAME=V"),
    ):
        versions: dict[str, Counter[str]] = {}
        for entry in entries:
            label = entry.triton if what == "Triton" else f"{entry.package} {entry.version}".strip()
            versions.setdefault(name_of(entry), Counter())[label or "none"] += entry.votes
        mixed = {name: counted for name, counted in versions.items() if len(counted) > 1}
        if mixed:
            lists = "; ".join(
                (f"{name}: " if name else "")
                + ", ".join(
                    f"{version} ({count} vote{'s' * (count != 1)})" for version, count in sorted(counted.items())
                )
                for name, counted in sorted(mixed.items())[:_SHOWN]
            )
            raise SelectionError(
                f"the votes are of several {what} versions: {lists}. Choose with registry export "
                f"{flag} (none: not stated), --run or --source; nothing is written"
            )


def _common_packages(used: Sequence[Row], kept: Sequence[Entry]) -> dict[str, str]:
    """Packages on whose version all recordings that state it agree, and the owners of the kernels written."""
    stated: dict[str, set[str]] = {}
    for text in {row["packages"] for row in used}:
        for name, version in json.loads(text).items():
            stated.setdefault(name, set()).add(version)
    common = {name: next(iter(versions)) for name, versions in stated.items() if len(versions) == 1}
    there = {normal_distribution(name) for name in common}
    owners = {entry.package: entry.version for entry in kept if entry.package and entry.package not in there}
    return {**owners, **common}


def _device(row: Row) -> str:
    if not row["device_name"]:
        return UNKNOWN_DEVICE
    count = row["multiprocessor_count"]
    return f"{row['device_name']} ({count} multiprocessors)" if count else str(row["device_name"])
