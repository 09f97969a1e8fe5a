"""Which config each entry gets: bans, then pins, then the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading
from tuning_registry.model.names import lookup_key
from tuning_registry.model.records import Times
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.measurements import Measurements
from tuning_registry.operations.election.shapes import Shape, Shapes
from tuning_registry.operations.election.tally import PINNED, Choice, Entry, entries_of
from tuning_registry.operations.overrides import Overrides, read_overrides
from tuning_registry.rules.evidence import MAJORITY, elect


@dataclass(frozen=True, slots=True)
class Election:
    """The outcome.

    Attributes:
        entries: Every entry with its elected config first among its choices, sorted by arch, kernel and key.
        left_out: Entries of which every config is banned.
        undecided: Entries that the policy's timings could not decide and that fell back to the majority.
        overrides: The standing overrides of the selection's arch and kernel.
        evidence: The timings that were read for it; None under the majority.
    """

    entries: list[Entry]
    left_out: list[Entry]
    undecided: int
    overrides: Overrides
    evidence: Evidence | None


class Evidence:
    """Timings of entries by config text."""

    def __init__(self, reading: Reading, selection: Selection, entries: Sequence[Entry]) -> None:
        self._reading = reading
        shapes = Shapes(reading, selection, {entry.shape for entry in entries})
        self._measurements = Measurements(reading, selection, shapes)
        self._texts: dict[int, str] = {}

    def of(self, shape: Shape) -> dict[str, dict[int, Times | None]]:
        """`{config text: {recording id: (median, p20, p80) in ms, None: failed}}` of one entry."""
        measured = self._measurements.of(shape)
        unknown = [config for config in measured if config not in self._texts]
        self._texts |= {row["id"]: row["text"] for row in self._reading.chunked(queries.entries.config_texts, unknown)}
        return {self._texts[config]: by_rank for config, by_rank in measured.items()}


def elect_entries(
    reading: Reading, selection: Selection, policy: str = MAJORITY, *, needs_evidence: bool = False
) -> Election:
    """The config of every entry of a selection (normalised).

    Without overrides and under the majority this is one query; everything else reads all choices, and
    policies that judge by time one entry's timings at a time.
    """
    overrides = read_overrides(reading, selection.arch, selection.kernel)
    if policy == MAJORITY and not overrides and not needs_evidence:
        return Election(
            entries_of(reading.rows(queries.votes.winners(selection, reading.environments_that_count(selection)))),
            [],
            0,
            overrides,
            None,
        )
    entries = entries_of(reading.rows(queries.votes.choices(selection, reading.environments_that_count(selection))))
    evidence = Evidence(reading, selection, entries) if policy != MAJORITY or needs_evidence else None
    elected: list[Entry] = []
    left_out: list[Entry] = []
    undecided = 0
    for entry in entries:
        banned = overrides.banned(entry.arch, entry.kernel, entry.key)
        allowed = tuple(choice for choice in entry.choices if choice.config not in banned)
        pin = overrides.pin(entry.arch, entry.kernel, entry.key)
        config = allowed[0].config if allowed else None
        by = MAJORITY
        if pin is not None:
            config, by = pin.config, PINNED
        elif policy != MAJORITY and evidence is not None:
            timed = elect(policy, evidence.of(entry.shape), banned)
            undecided += timed is None
            config, by = (config, MAJORITY) if timed is None else (timed, policy)
        if config is None:
            left_out.append(entry)
        else:
            elected.append(_with_winner(entry, config, allowed, by, len(entry.choices) - len(allowed)))
    return Election(_with_pins(elected, left_out, overrides), left_out, undecided, overrides, evidence)


def _with_winner(entry: Entry, config: str, allowed: Sequence[Choice], by: str, banned: int) -> Entry:
    """The entry with its elected config first."""
    chosen = next((choice for choice in entry.choices if choice.config == config), Choice(config, 0, None))
    others = tuple(choice for choice in entry.choices if choice.config != config)
    counts = [choice.count for choice in allowed]
    is_tie = by == MAJORITY and len(counts) > 1 and counts[0] == counts[1]
    return replace(entry, choices=(chosen, *others), is_tie=is_tie, decided_by=by, banned=banned)


def _with_pins(elected: list[Entry], left_out: list[Entry], overrides: Overrides) -> list[Entry]:
    """Also the pins of keys that nobody has voted on, `*` among them."""
    if not elected and not left_out:
        return elected  # filters that match no vote match nothing
    there = {entry.shape[:3] for entry in [*elected, *left_out]}
    added = [
        Entry(pin.arch, pin.kernel, pin.key, "", "", "", (Choice(pin.config, 0, None),), 0, 0, decided_by=PINNED)
        for pin in overrides.pins()
        if (pin.arch, pin.kernel, lookup_key(pin.key)) not in there
    ]
    if not added:
        return elected
    return sorted([*elected, *added], key=lambda e: (e.arch.encode(), e.kernel.encode(), e.key.encode(), e.group))
