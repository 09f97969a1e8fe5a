"""The canonical table of one architecture, from the votes in a database."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading, Row
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError, UsageError
from tuning_registry.formats.table import TunedTable, table_bytes, table_payload
from tuning_registry.model.canonical import load_config
from tuning_registry.model.names import ANY_KEY
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.election import Election, elect_entries
from tuning_registry.operations.election.generalizing import Kernels, Saving, generalize_entries
from tuning_registry.operations.election.staleness import find_stale
from tuning_registry.operations.election.tally import PINNED, Entry, check_packages
from tuning_registry.operations.election.versions import common_packages, refuse_mixed
from tuning_registry.operations.overrides import BAN, Overrides, refuse_expired
from tuning_registry.operations.regressions import changes_between, refuse_regressions
from tuning_registry.rules.evidence import MAJORITY, POLICIES

UNKNOWN_DEVICE = "unknown device"
_SHOWN = 5  # keys named in an error


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """How a table is made from the votes.

    Attributes:
        min_votes: Least votes on an entry; pinned entries need none.
        min_agreement: Least share of them for its config, 0 to 1.
        policy: `majority`, `fastest` or `minimax`.
        generalize_percent: Make a `*` entry per kernel, accepting this slowdown; None: do not.
        max_regression_percent: Refuse to slow down an entry of `replaced` by more than this; None: do not look.
        replaced: The table whose place the new one takes.
        source: Text for the table's `source`; by default what the recordings say.
        today: UTC day by which overrides are judged, `YYYY-MM-DD`; by default this one.
    """

    min_votes: int = 1
    min_agreement: float = 0.0
    policy: str = MAJORITY
    generalize_percent: float | None = None
    max_regression_percent: float | None = None
    replaced: TunedTable | None = None
    source: str | None = None
    today: str | None = None

    def __post_init__(self) -> None:
        """Raises UsageError outside the ranges."""
        if self.min_votes < 1:
            raise UsageError(f"--min-votes is at least 1, found {self.min_votes}")
        if not 0 <= self.min_agreement <= 1:
            raise UsageError(f"--min-agreement is a share from 0 to 1, found {self.min_agreement}")
        if self.policy not in POLICIES:
            raise UsageError(f"--policy is one of {', '.join(POLICIES)}, found {self.policy!r}")
        for name, value in (("generalize", self.generalize_percent), ("max-regression", self.max_regression_percent)):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise UsageError(f"--{name} is a percentage of at least 0, found {value}")

    @property
    def needs_evidence(self) -> bool:
        """Whether timings are read whatever the policy."""
        return self.generalize_percent is not None or self.max_regression_percent is not None

    def accept(self, entry: Entry) -> bool:
        """Whether an entry has the support."""
        if entry.decided_by == PINNED:
            return True
        share = Fraction(entry.choices[0].count, entry.votes)
        return entry.votes >= self.min_votes and share >= Fraction(str(self.min_agreement))


@dataclass(frozen=True, slots=True)
class Export:
    """A table and what to say about it.

    Attributes:
        data: The bytes of the table file.
        payload: Its content.
        entries: Entries written.
        disagreements: Elected entries for which ranks chose more than one config.
        ties: Elected entries whose winner was decided by its text alone.
        dropped: Entries that the thresholds left out.
        banned_out: Entries left out because every config is banned.
        with_bans: Elected entries some of whose chosen configs are banned.
        pinned: Entries that a pin has decided.
        undecided: Entries that the policy's timings could not decide: the majority's config is in the table.
        stale: Elected entries some of whose votes chose from other candidates than the newest recording's.
        saving: What generalizing did; None when it was not asked for.
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
    stale: int
    saving: Saving | None
    devices: Mapping[str, int]


def export_table(store: Store, selection: Selection, options: ExportOptions | None = None) -> Export:
    """The table of `selection.arch`, byte for byte the same for the same votes, timings and overrides.

    Raises:
        SelectionError: Nobody recorded the architecture, the votes are of several versions, an override has
            expired, or the table would be slower than what is allowed.
        DatabaseError: The database cannot be read.
    """
    if selection.arch is None:
        raise UsageError("an export is of one architecture")
    options = options or ExportOptions()
    with store.reading() as reading:
        check_packages(reading, selection)
        election = elect_entries(reading, selection, options.policy, needs_evidence=options.needs_evidence)
        refuse_expired(election.overrides, options.today or dt.datetime.now(dt.UTC).date().isoformat())
        facts = {row["id"]: row for row in reading.rows(queries.recordings.facts(selection))}
        used = [facts[identity] for identity in reading.scalars(queries.votes.contributing(selection))]
        if not any(entry.votes for entry in [*election.entries, *election.left_out]):
            raise _nothing_recorded(selection, reading.rows(queries.recordings.archs_recorded(Selection())))
        refuse_mixed(election.entries)
        kept = [entry for entry in election.entries if options.accept(entry)]
        if not kept:
            raise SelectionError(
                f"the thresholds and bans leave none of the {len(election.entries) + len(election.left_out)} entries; "
                "nothing is written"
            )
        unwritten = [*(entry for entry in election.entries if not options.accept(entry)), *election.left_out]
        kernels, saving = _configs_of(kept, unwritten, options, election)
        payload = _payload(selection, options, election, kept, kernels, saving, used)
        if election.overrides or options.replaced is not None:  # else nothing asks what the table serves
            table = TunedTable(payload["arch"], payload["kernels"])
            _refuse_banned(table, [*kept, *unwritten], election.overrides)
            _refuse_slower(table, options, [*kept, *unwritten], election)
        stale = _count_stale(reading, selection, kept)
    return Export(
        table_bytes(payload),
        payload,
        entries=sum(map(len, kernels.values())),
        disagreements=sum(entry.config_count > 1 for entry in kept),
        ties=sum(entry.is_tie for entry in kept),
        dropped=len(election.entries) - len(kept),
        banned_out=len(election.left_out),
        with_bans=sum(entry.banned > 0 for entry in kept),
        pinned=sum(entry.decided_by == PINNED for entry in kept),
        undecided=election.undecided,
        stale=stale,
        saving=saving,
        devices=dict(Counter(_device(row) for row in used).most_common()),
    )


def _configs_of(
    kept: Sequence[Entry], unwritten: Sequence[Entry], options: ExportOptions, election: Election
) -> tuple[Kernels, Saving | None]:
    if options.generalize_percent is not None and election.evidence is not None:
        return generalize_entries(kept, unwritten, options.generalize_percent, election.evidence, election.overrides)
    kernels: Kernels = {}
    for entry in kept:
        kernels.setdefault(entry.kernel, {})[entry.key] = entry.choices[0].config
    return kernels, None


def _payload(
    selection: Selection,
    options: ExportOptions,
    election: Election,
    kept: Sequence[Entry],
    kernels: Kernels,
    saving: Saving | None,
    used: Sequence[Row],
) -> dict[str, Any]:
    voted = [entry for entry in kept if entry.votes]
    weakest = min(voted, key=lambda e: (Fraction(e.choices[0].count, e.votes), -e.votes), default=None)
    extra: dict[str, Any] = {
        "policy": options.policy,
        "recordings": len(used),
        "runs": sorted({row["run"] for row in used}),
        "weakest_agreement": [weakest.choices[0].count, weakest.votes] if weakest else [0, 0],
    }
    if options.policy != MAJORITY:
        extra["decided_by_majority"] = election.undecided
    if saving is not None:
        extra["generalized"] = {"percent": saving.percent, "saved": saving.saved,
                                "worst_percent": round(saving.worst_percent, 3)}  # fmt: skip
    if election.overrides:
        extra["overrides"] = _shown_overrides(election.overrides)
    return table_payload(
        str(selection.arch),
        {kernel: {key: load_config(text) for key, text in keys.items()} for kernel, keys in kernels.items()},
        options.source if options.source is not None else "; ".join(sorted({row["source"] for row in used} - {""})),
        triton=next((entry.triton for entry in voted), ""),
        packages=common_packages(used, kept),
        extra=extra,
    )


def _shown_overrides(overrides: Overrides) -> list[dict[str, Any]]:
    """The overrides as a table lists them: no author, no time, in an order of their own."""
    return [
        {"action": o.action, "kernel": o.kernel, "key": o.key, "config": load_config(o.config), "reason": o.reason}
        for o in sorted(overrides.standing, key=lambda o: (o.kernel, o.key, o.action, o.config))
    ]


def _refuse_banned(table: TunedTable, entries: Sequence[Entry], overrides: Overrides) -> None:
    """Refuse a table in which a wider entry (`*`, a bare name) serves a key with a config that is banned there.

    An entry of which every config is banned has none of its own, so that such a wider one decides.
    """
    places = {(entry.arch, entry.kernel, entry.key) for entry in entries}
    places |= {(o.arch, o.kernel, o.key) for o in overrides.standing if o.action == BAN and o.key != ANY_KEY}
    wrong = sorted(
        (kernel, key)
        for arch, kernel, key in places
        if arch == table.arch
        and (text := table.text_for(kernel, key)) in overrides.banned(arch, kernel, key)
        and ((pin := overrides.pin(arch, kernel, key)) is None or pin.config != text)
    )
    if wrong:
        shown = "; ".join(f"{kernel} {key}" for kernel, key in wrong[:_SHOWN])
        raise SelectionError(
            f"the table would serve {len(wrong)} of its keys with a config that is banned there, by a wider entry: {shown}. "
            "Pin another config for each, or ban that config for *; nothing is written"
        )


def _refuse_slower(table: TunedTable, options: ExportOptions, entries: Sequence[Entry], election: Election) -> None:
    if options.max_regression_percent is None or options.replaced is None or election.evidence is None:
        return
    changes = changes_between(options.replaced, table, entries, election.evidence)
    refuse_regressions(changes, options.max_regression_percent)


def _count_stale(reading: Reading, selection: Selection, kept: Sequence[Entry]) -> int:
    stale = find_stale(reading, selection)
    return sum(entry.shape in stale for entry in kept) if stale else 0


def only_arch(store: Store) -> str:
    """The one architecture that has votes.

    Raises:
        SelectionError: There are none, or several: then it must be named.
    """
    with store.reading() as reading:
        archs = sorted({row["arch"] for row in reading.rows(queries.recordings.archs_recorded(Selection()))})
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
    return SelectionError(
        f"no counting recording has votes on {selection.arch}; recorded archs: {shown}. Timings alone, and Triton caches "
        "taken in without --rank, do not vote"
    )


def _device(row: Row) -> str:
    if not row["device_name"]:
        return UNKNOWN_DEVICE
    count = row["multiprocessor_count"]
    return f"{row['device_name']} ({count} multiprocessors)" if count else str(row["device_name"])
