"""The canonical table of one architecture, from the votes in a database."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading, Row
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError, UsageError
from tuning_registry.formats.compile_file import CompileData
from tuning_registry.formats.table import TunedTable, table_bytes, table_payload
from tuning_registry.model.canonical import load_config
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.generalizing import Kernels, Saving, generalize_entries
from tuning_registry.operations.election.same_bits import SameBits
from tuning_registry.operations.election.tally import (
    PINNED,
    SAME_BITS,
    TIE_BY_TIME,
    EntryVotes,
    Winner,
    check_packages,
)
from tuning_registry.operations.election.versions import common_packages, refuse_mixed
from tuning_registry.operations.election.winners import Election, Track, elect_entries
from tuning_registry.operations.overrides import refuse_expired
from tuning_registry.operations.tables.compile_data import compile_data_of
from tuning_registry.operations.tables.evidence import Evidence, make_evidence
from tuning_registry.operations.tables.export_checks import (
    refuse_banned,
    refuse_gaps,
    refuse_regressions,
    unvoted_in_shares,
)
from tuning_registry.operations.tables.exported import UNKNOWN_DEVICE, Export
from tuning_registry.operations.tables.kinds import for_a_table
from tuning_registry.rules.evidence import Policy, Ties
from tuning_registry.rules.overrides import Overrides
from tuning_registry.wording import count_of, list_some


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """How a table is made from the votes.

    Attributes:
        min_votes: Least number of votes on an entry; pinned entries need none.
        min_agreement: Least share of them for its config, 0 to 1.
        policy: `majority`, `fastest` or `minimax`.
        ties: How to choose between configs with equally many votes: `text`, or `fastest` by the timings.
        evidence: Write the slowdowns of all candidates, where there are timings, for keys that are not in the table.
        compile_data: Also make the compile data of the table's kernels, if it was recorded.
        generalize_percent: Make one `*` entry per kernel, accepting this slowdown; None for no `*` entries.
        max_regression_percent: Refuse to slow down an entry of `replaced` by more than this; None for any slowdown.
        replaced: The table that the new one replaces.
        same_bits_as: Replace a config of this table only by one that audits found to give the same bits; None to allow
            any.
        source: Text for the table's `source`; by default the sources that the recordings state.
        today: UTC day on which overrides are judged, `YYYY-MM-DD`; by default the current one.
    """

    min_votes: int = 1
    min_agreement: float = 0.0
    policy: str = Policy.MAJORITY
    ties: str = Ties.TEXT
    evidence: bool = True
    compile_data: bool = False
    generalize_percent: float | None = None
    max_regression_percent: float | None = None
    replaced: TunedTable | None = None
    same_bits_as: TunedTable | None = None
    source: str | None = None
    today: str | None = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is outside its range.
        """
        if self.min_votes < 1:
            raise UsageError(f"--min-votes {self.min_votes}: expected at least 1")
        if not 0 <= self.min_agreement <= 1:
            raise UsageError(f"--min-agreement {self.min_agreement}: expected a share from 0 to 1")
        object.__setattr__(self, "policy", Policy(self.policy))
        object.__setattr__(self, "ties", Ties(self.ties))
        for name, value in (("generalize", self.generalize_percent), ("max-regression", self.max_regression_percent)):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise UsageError(f"--{name} {value}: expected a percentage of at least 0")

        if self.same_bits_as is not None and self.policy is Policy.MAJORITY:
            raise UsageError("--same-bits-as needs --policy fastest or --policy minimax")
        if self.same_bits_as is not None and self.generalize_percent is not None:
            raise UsageError("--same-bits-as cannot be combined with --generalize, which merges keys by time alone")

    @property
    def needs_evidence(self) -> bool:
        """Whether timings are needed under any policy."""
        return self.generalize_percent is not None or self.max_regression_percent is not None

    def accept(self, entry: Winner) -> bool:
        """Whether an entry has enough votes and agreement."""
        if entry.decided_by in {PINNED, SAME_BITS} or not entry.votes:  # timed in shares: there are no votes to count
            return True
        share = Fraction(entry.choices[0].count, entry.votes)
        return entry.votes >= self.min_votes and share >= Fraction(str(self.min_agreement))


def export_table(
    store: Store, selection: Selection, options: ExportOptions | None = None, track: Track = iter
) -> Export:
    """The table of `selection.arch`, byte for byte the same for the same votes, timings and overrides.

    Args:
        store: The database.
        selection: Which votes count.
        options: How the table is made.
        track: Wraps the entries to elect, then the kernels whose evidence is made, to show progress.

    Raises:
        SelectionError: The architecture was never recorded, the votes come from several versions, an override has
            expired, or the table would be slower than allowed.
        DatabaseError: The database cannot be read.
    """
    if selection.arch is None:
        raise UsageError("an export needs an architecture; choose one with --arch")
    options = options or ExportOptions()
    if options.same_bits_as is not None and options.same_bits_as.arch != selection.arch:
        raise UsageError(
            f"--same-bits-as: this table is for {options.same_bits_as.arch}, not {selection.arch}; "
            f"give the table for {selection.arch} that is in use"
        )
    with store.reading() as reading:
        same_bits = None if options.same_bits_as is None else SameBits(options.same_bits_as)
        election = elect_entries(
            reading,
            selection,
            options.policy,
            options.ties,
            every_choice=options.needs_evidence,
            same_bits=same_bits,
            track=track,
        )
        election, left_out = for_a_table(election)
        check_packages(election.votes)
        refuse_expired(election.overrides, options.today or dt.datetime.now(dt.UTC).date().isoformat())
        used = _recordings_used(reading, selection, election)
        shared = [entry for entry in election.every_entry if not entry.votes and entry.shape in election.shares]
        if not shared and not any(entry.votes for entry in election.every_entry):
            raise _nothing_recorded(selection, reading, election, by_time=options.policy != Policy.MAJORITY)
        refuse_mixed(election.entries)
        refuse_gaps(election)
        kept, dropped = _split(election.entries, options)
        # If bans alone leave nothing, the table is written: jobs learn of the bans from it.
        if not kept and dropped:
            raise SelectionError(
                f"thresholds and bans leave out every entry ({len(election.every_entry)}). Nothing was written. Lower the "
                "thresholds, or lift a ban (see registry overrides)"
            )
        unwritten = [*dropped, *election.left_out]
        kernels, saving = _configs_of(kept, unwritten, options, election)
        evidence = make_evidence(kernels, kept, election.votes, track) if options.evidence else Evidence()
        payload = _payload(selection, options, election, kept, kernels, saving, evidence, used)
        _refuse_bad(payload, [*kept, *unwritten], options, election)
        compile_data = CompileData(payload["arch"], "", "")
        if options.compile_data:
            compile_data = compile_data_of(reading, selection, payload)
        stale = election.votes.stale
        in_shares = [election.shares.entry(entry.shape) for entry in kept if entry.shape in election.shares]
        unvoted = unvoted_in_shares(election)
    return Export(
        data=table_bytes(payload),
        payload=payload,
        entries=sum(map(len, kernels.values())),
        disagreements=_count(kept, lambda entry: entry.config_count > 1),
        ties=_count(kept, lambda entry: entry.is_tie),
        ties_by_time=_count(kept, lambda entry: entry.decided_by == TIE_BY_TIME),
        dropped=len(dropped),
        banned_out=len(election.left_out),
        with_bans=_count(kept, lambda entry: entry.banned > 0 and entry.decided_by != PINNED),
        pinned=_count(kept, lambda entry: entry.decided_by == PINNED),
        pinned_banned=_count(kept, lambda entry: _is_pinned_to_banned(entry, election)),
        undecided=election.undecided,
        kept_for_bits=0 if same_bits is None else same_bits.kept,
        stale=_count(kept, lambda entry: entry.shape in stale),
        saving=saving,
        evidence=evidence,
        compile_data=compile_data,
        in_shares=len(in_shares),
        fewest_ranks=min((one.fewest for one in in_shares), default=0),
        most_ranks=max((one.most for one in in_shares), default=0),
        unvoted=unvoted,
        other_kinds=left_out.other_kinds,
        other_devices=left_out.other_devices,
        devices=dict(Counter(map(_device, used)).most_common()),
        sample=election.votes.timed.sample,
    )


def _is_pinned_to_banned(entry: Winner, election: Election) -> bool:
    banned = election.overrides.banned(entry.arch, entry.kernel, entry.key)
    return entry.decided_by == PINNED and entry.config in banned


def _recordings_used(reading: Reading, selection: Selection, election: Election) -> list[Row]:
    """The facts about each recording that has a vote, or a share of an entry's timings, in the table."""
    facts = {row["id"]: row for row in reading.rows(queries.recordings.facts(selection))}
    used = set(reading.scalars(queries.votes.contributing(selection)))
    by_time = (Policy.FASTEST, Policy.MINIMAX)
    if any(
        (not entry.votes or entry.decided_by in by_time) and entry.shape in election.shares
        for entry in election.entries
    ):
        used.update(reading.scalars(queries.observations.of_shares(selection)))
    return [facts[identity] for identity in sorted(used)]


def _split(entries: Sequence[Winner], options: ExportOptions) -> tuple[list[Winner], list[Winner]]:
    """Entries with enough support, and the others."""
    kept = [entry for entry in entries if options.accept(entry)]
    return kept, [entry for entry in entries if not options.accept(entry)]


def _count(entries: Sequence[Winner], holds: Callable[[Winner], bool]) -> int:
    return sum(map(holds, entries))


def _refuse_bad(
    payload: Mapping[str, Any], entries: Sequence[EntryVotes], options: ExportOptions, election: Election
) -> None:
    """Refuse a table that serves banned configs or slows entries down too much."""
    if not election.overrides and options.replaced is None:
        return
    table = TunedTable(payload["arch"], payload["kernels"])
    if election.overrides:
        refuse_banned(table, entries, election.overrides)
    if options.max_regression_percent is not None and options.replaced is not None:
        refuse_regressions(options.replaced, table, entries, election, options.max_regression_percent)


def _configs_of(
    kept: Sequence[Winner], unwritten: Sequence[EntryVotes], options: ExportOptions, election: Election
) -> tuple[Kernels, Saving | None]:
    if options.generalize_percent is not None:
        return generalize_entries(kept, unwritten, options.generalize_percent, election.votes, election.overrides)
    kernels: Kernels = {}
    for entry in kept:
        kernels.setdefault(entry.kernel, {})[entry.key] = entry.config
    return kernels, None


def _payload(
    selection: Selection,
    options: ExportOptions,
    election: Election,
    kept: Sequence[Winner],
    kernels: Kernels,
    saving: Saving | None,
    evidence: Evidence,
    used: Sequence[Row],
) -> dict[str, Any]:
    voted = [entry for entry in kept if entry.votes]
    recorded = [entry for entry in kept if entry.votes or entry.shape in election.shares]
    extra: dict[str, Any] = {
        "policy": str(options.policy),
        "recordings": len(used),
        "runs": sorted({row["run"] for row in used}),
        "weakest_agreement": _weakest_agreement(voted),
    }
    if options.policy != Policy.MAJORITY:
        extra["decided_by_majority"] = election.undecided
    if options.same_bits_as is not None:
        extra["same_bits_as"] = options.same_bits_as.digest
    if options.ties != Ties.TEXT:
        extra["ties"] = str(options.ties)
        extra["ties_by_time"] = _count(kept, lambda entry: entry.decided_by == TIE_BY_TIME)
    if evidence:
        extra["evidence"] = evidence.document
    if election.votes.timed.sample is not None:
        extra |= election.votes.timed.sample.to_dict()
    if saving is not None:
        extra["generalized"] = {
            "percent": saving.percent,
            "saved": saving.saved,
            "worst_percent": round(saving.worst_percent, 3),
        }
    if election.overrides:
        extra["overrides"] = stated_overrides(election.overrides)
    recorded_source = "; ".join(sorted({row["source"] for row in used} - {""}))
    return table_payload(
        str(selection.arch),
        {kernel: {key: load_config(text) for key, text in keys.items()} for kernel, keys in kernels.items()},
        recorded_source if options.source is None else options.source,
        triton=recorded[0].triton if recorded else "",
        packages=common_packages(used, kept),
        extra=extra,
    )


def _weakest_agreement(voted: Sequence[Winner]) -> list[int]:
    """Votes for the config, and votes on the entry, of the entry with the smallest share."""
    weakest = min(voted, key=lambda entry: (Fraction(entry.choices[0].count, entry.votes), -entry.votes), default=None)
    return [0, 0] if weakest is None else [weakest.choices[0].count, weakest.votes]


def stated_overrides(overrides: Overrides) -> list[dict[str, Any]]:
    """The overrides as a table lists them: without author and time, in an order that does not depend on ids."""
    return [
        {"action": o.action, "kernel": o.kernel, "key": o.key, "config": load_config(o.config), "reason": o.reason}
        for o in sorted(overrides.in_force, key=lambda o: (o.kernel, o.key, o.action, o.config))
    ]


def only_arch(store: Store) -> str:
    """The only architecture that has votes.

    Raises:
        SelectionError: There is none, or there are several and one must be chosen.
    """
    with store.reading() as reading:
        archs = _recorded_archs(reading)
    if len(archs) != 1:
        raise SelectionError(f"the recordings hold votes on {list_some(archs)}; choose an architecture with --arch")
    return archs[0]


def _recorded_archs(reading: Reading) -> list[str]:
    return sorted({str(row["arch"]) for row in reading.rows(queries.recordings.archs_recorded(Selection()))})


def _nothing_recorded(selection: Selection, reading: Reading, election: Election, *, by_time: bool) -> SelectionError:
    unvoted = unvoted_in_shares(election)
    if unvoted:
        came = (
            f"{count_of(unvoted, 'entry')} {'comes' if unvoted == 1 else 'come'} from split runs, which cast no votes"
        )
        if by_time:
            return SelectionError(
                f"no timings on {selection.arch}: {came}, and no candidate was timed. See registry status"
            )
        return SelectionError(
            f"no votes on {selection.arch}: {came}. Elect by time with --policy fastest or --policy minimax"
        )
    known = _recorded_archs(reading)
    if selection.arch in known:
        return SelectionError(f"no votes on {selection.arch} match the filters; registry runs lists the recorded runs")
    if not selection.curated and reading.scalars(queries.origins.choice_count())[0]:
        return SelectionError(
            f"no votes were recorded on {selection.arch}, and curated choices do not vote; --curated counts each of them as a "
            "vote"
        )
    shown = list_some(known) if known else "none (registry runs also lists withdrawn runs)"
    return SelectionError(
        f"no votes were recorded on {selection.arch}; architectures with votes: {shown}. Timings do not vote, nor do "
        "Triton caches that were ingested without --rank"
    )


def _device(row: Row) -> str:
    if not row["device_name"]:
        return UNKNOWN_DEVICE
    count = row["multiprocessor_count"]
    return f"{row['device_name']} ({count} multiprocessors)" if count else str(row["device_name"])
