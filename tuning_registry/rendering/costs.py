"""Disagreements with their cost, as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import parse_config
from tuning_registry.model.names import rank_ranges
from tuning_registry.rendering.base import (
    GROUP,
    Format,
    entry_group,
    entry_head,
    entry_title,
    join_lines,
    render_csv,
    render_json,
    tie_mark,
    voters_text,
)

if TYPE_CHECKING:  # importing them for real would load SQLAlchemy
    from tuning_registry.operations.costs import CostedEntry
    from tuning_registry.operations.election.tally import Choice
    from tuning_registry.rules.evidence import Gap

_ENTRY = ("arch", "kernel", "key", "verdict", "cost_percent", "winner_failed_on")
_CHOICE = ("config", "count", "of", "gap_percent", "noise_percent", "choice_cost_percent", "timed_by", "ranks", "runs")


def render_costs(costed: Sequence[CostedEntry], style: Format) -> str:
    """Every split entry, the most costly first: verdict, cost, and each choice with its gap to the winner."""
    if style is Format.json:
        return render_json([_entry(found) | {"votes": _choices(found), **entry_group(found.entry)} for found in costed])
    if style is Format.csv:
        rows = [
            {**_entry(found), "config": choice.config, "count": choice.count, "of": found.entry.votes, **_gap(gap),
             "ranks": rank_ranges(choice.ranks), "runs": sorted(choice.voters or {}), **entry_group(found.entry)}
            for found in costed for choice, gap in _with_gaps(found)
        ]  # fmt: skip
        return render_csv(rows, [*_ENTRY, *_CHOICE, *GROUP])
    return "\n".join(_block(found) for found in costed)


def percent(value: float | None) -> str:
    """`+59.3 %`, or `?` for what is not known."""
    if value is None:
        return "?"
    return f"{value:+.1f} %" if math.isfinite(value) else "fails"


def _with_gaps(found: CostedEntry) -> list[tuple[Choice, Gap | None]]:
    return list(zip(found.entry.choices, (None, *found.gaps), strict=True))


def _entry(found: CostedEntry) -> dict[str, Any]:
    return {**entry_head(found.entry), "verdict": found.verdict, "cost_percent": rounded(found.cost_percent),
            "winner_failed_on": found.failed}  # fmt: skip


def _choices(found: CostedEntry) -> list[dict[str, Any]]:
    return [
        {"config": parse_config(choice.config), "count": choice.count, **_gap(gap), "ranks": choice.ranks,
         "runs": choice.voters}
        for choice, gap in _with_gaps(found)
    ]  # fmt: skip


def _gap(gap: Gap | None) -> dict[str, Any]:
    return {
        "gap_percent": rounded(gap.gap_percent) if gap else None,
        "noise_percent": rounded(gap.noise_percent) if gap else None,
        "choice_cost_percent": rounded(gap.cost_percent) if gap else None,
        "timed_by": gap.ranks if gap else None,
    }


def rounded(value: float | None) -> float | None:
    """A percentage as data; None for what is not known or, like the slowdown of a config that failed, no number."""
    return None if value is None or not math.isfinite(value) else round(value, 2)


def _block(found: CostedEntry) -> str:
    entry = found.entry
    width = max(len(short_config(choice.config)) for choice in entry.choices)
    lines = [f"{found.verdict:<9} {percent(found.cost_percent):>10}  {entry_title(entry)}",
             "      " + printable(entry.key) + tie_mark(entry)]  # fmt: skip
    if found.failed:
        lines.append(f"      the winner failed on {found.failed} of the ranks that chose otherwise")
    said = ["winner", *(_gap_text(gap) for gap in found.gaps)]
    span = max(map(len, said))
    for choice, text in zip(entry.choices, said, strict=True):
        shown = (
            f"{choice.count:>5}  {short_config(choice.config):<{width}}  {text:<{span}}  {voters_text(choice.voters)}"
        )
        lines.append(printable(shown))
    return join_lines(lines)


def _gap_text(gap: Gap | None) -> str:
    if gap is None:
        return "not timed beside the winner"
    mark = "within noise" if gap.is_within_noise else "beyond noise"
    if not gap.is_within_noise and abs(gap.gap_percent) <= gap.noise_percent:
        mark = "only there beyond noise"  # on the ranks that chose it, not over all of them
    costs = f", costs {percent(gap.cost_percent)}" if gap.cost_percent is not None else ""
    return f"gap {percent(gap.gap_percent)}{costs} ({mark} of {gap.noise_percent:.1f} %)"
