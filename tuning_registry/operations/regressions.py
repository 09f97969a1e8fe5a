"""Is a new table slower than the one it replaces? By the timings, entry by entry."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tuning_registry.errors import SelectionError
from tuning_registry.formats.short_configs import short_config
from tuning_registry.formats.table import TunedTable
from tuning_registry.operations.election.election import Evidence
from tuning_registry.operations.election.tally import Entry
from tuning_registry.rules.evidence import median_of_medians

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Change:
    """An entry whose config changes, and by how much that slows it down.

    Attributes:
        kernel, key: The entry.
        old, new: Canonical texts; None where a table has no config for it.
        slower_percent: 100 times the new config's median of medians over the old one's, less 1; None when not
            both were timed, infinite when the new one fails.
    """

    kernel: str
    key: str
    old: str | None
    new: str | None
    slower_percent: float | None


def changes_between(old: TunedTable, new: TunedTable, entries: Iterable[Entry], evidence: Evidence) -> list[Change]:
    """What each entry gets from the two tables, `*` entries included, where that is not the same."""
    changes = []
    for entry in entries:
        before, after = old.text_for(entry.kernel, entry.key), new.text_for(entry.kernel, entry.key)
        if before != after:
            changes.append(
                Change(entry.kernel, entry.key, before, after, slower_percent(before, after, entry, evidence))
            )
    return changes


def slower_percent(old: str | None, new: str | None, entry: Entry, evidence: Evidence) -> float | None:
    """By how much a change of config slows an entry down, by its timings."""
    if old is None or new is None:
        return None
    timed = evidence.of(entry.shape)
    if old not in timed or new not in timed:
        return None
    before, after = median_of_medians(timed[old]), median_of_medians(timed[new])
    if math.isinf(before):
        return None
    return 100 * (after / before - 1) if before > 0 else 0.0


def refuse_regressions(changes: Iterable[Change], allowed_percent: float) -> None:
    """Refuse changes that slow an entry down by more than what is allowed.

    Raises:
        SelectionError: Names the worst of them.
    """
    slower = [change for change in changes if (change.slower_percent or 0.0) > allowed_percent]
    if not slower:
        return
    slower.sort(key=lambda change: -(change.slower_percent or 0.0))
    shown = "; ".join(
        f"{change.kernel} {change.key}: {change.slower_percent:+.1f} % "
        f"({short_config(change.old or '')} -> {short_config(change.new or '')})"
        for change in slower[:_SHOWN]
    )
    more = f"; and {len(slower) - _SHOWN} more" if len(slower) > _SHOWN else ""
    raise SelectionError(
        f"the new table would be slower by more than {allowed_percent:g} % on {len(slower)} of the entries it replaces: "
        f"{shown}{more}. Leave --max-regression out to write it all the same; nothing is written"
    )
