"""Disagreements with their cost, as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.names import rank_ranges
from tuning_registry.model.packages import GROUP
from tuning_registry.rendering.base import Format, Record, join_lines, render_results
from tuning_registry.rendering.markdown import markdown_page, markdown_table
from tuning_registry.rendering.screen import Paint, paint
from tuning_registry.rendering.votes import (
    CHOICE_COLUMNS,
    ENTRY_COLUMNS,
    choice_line,
    choice_rows,
    configs_width,
    entry_marks,
    entry_title,
)
from tuning_registry.wording import count_of, slower_text

if TYPE_CHECKING:  # importing them for real would load SQLAlchemy
    from tuning_registry.operations.reports.costs import DisagreementCost
    from tuning_registry.rules.evidence import Gap, Slowdown

_ENTRY: Final = (
    "arch",
    "kernel",
    "key",
    "verdict",
    "winner_slower_for_dissenters_percent",
    "winner_slower_for_dissenters_noise_percent",
    "winner_slower_for_dissenters_beyond_noise",
    "winner_slower_than_fastest_percent",
    "winner_slower_than_fastest_noise_percent",
    "winner_slower_than_fastest_beyond_noise",
    "fastest_config",
    "winner_failed_on_dissenters",
    "bits",
)
_CHOICE: Final = ("config", "votes", "total_votes", "slower_than_winner_percent", "noise_percent", "winner_slower_percent",
                  "timed_by_ranks", "ranks", "runs")  # fmt: skip
_INDENT: Final = " " * 6
_SAME: Final = "no clear difference"


def render_costs(costed: Sequence[DisagreementCost], style: Format, heading: str = "") -> str:
    """Every disagreement, the most costly first: its verdict, the cost of the winner, and how each choice compares.

    Args:
        costed: The disagreements.
        style: The format.
        heading: The first line of the Markdown.
    """

    def markdown(found: Sequence[DisagreementCost]) -> str:
        columns = (
            "verdict",
            *ENTRY_COLUMNS,
            *CHOICE_COLUMNS[:2],
            "compared_with_elected",
            "elected_config_on_these_ranks",
            *CHOICE_COLUMNS[2:],
        )
        rows = [row for one in found for row in _markdown_rows(one)]
        return markdown_page(heading, markdown_table(rows, columns, sentences={"notes"}))

    def text(found: Sequence[DisagreementCost]) -> str:
        return "\n".join(map(_block, found))

    return render_results(costed, style, (*_ENTRY, *_CHOICE, *GROUP), text, _rows, markdown)


def _markdown_rows(found: DisagreementCost) -> Iterable[Record]:
    for place, (row, gap) in enumerate(zip(choice_rows(found.entry), (None, *found.gaps), strict=True)):
        own = None if gap is None else gap.winner_slower_percent
        yield {
            **row,
            "verdict": "" if place else found.verdict,
            "compared_with_elected": None if gap is None else _beyond(gap.slower_percent, gap.noise_percent),
            "elected_config_on_these_ranks": None if gap is None or own is None else _beyond(own, gap.noise_percent),
        }


def _beyond(percent: float, noise: float) -> str:
    """A slowdown in words, if the noise leaves one."""
    return f"{_SAME if abs(percent) <= noise else slower_text(percent)} (noise {noise:.1f} %)"


def _rows(found: DisagreementCost) -> Iterable[Record]:
    record: dict[str, Any] = found.to_dict()
    for choice, fields in zip(found.entry.choices, record["choices"], strict=True):
        yield {**record, **fields, "ranks": rank_ranges(choice.ranks), "runs": sorted(choice.voters or {})}


def _block(found: DisagreementCost) -> str:
    entry = found.entry
    lines = [
        f"{_verdict(found.verdict)}  {entry_title(entry)}",
        _INDENT + printable(entry.key) + entry_marks(entry),
        *(printable(_INDENT + line) for line in _summary(found)),
    ]
    width = configs_width(entry.choices)
    for place, (choice, gap) in enumerate(zip(entry.choices, (None, *found.gaps), strict=True)):
        elected = "  [elected]" if place == 0 else ""
        lines.append(choice_line(choice, width, is_elected=place == 0) + elected)
        if place > 0:
            lines.append(f"       {_comparison(gap)}")
    return join_lines(lines)


def _verdict(text: str) -> str:
    """The verdict, nine columns wide; only a conflict needs attention."""
    return paint(text, Paint.BAD if text == "conflict" else None) + " " * (9 - len(text))


def _summary(found: DisagreementCost) -> Iterable[str]:
    """What the elected config costs the ranks that chose otherwise, and how far it is from the fastest config."""
    if found.failed:
        yield f"The elected config failed on {count_of(found.failed, 'rank')} that chose otherwise."
    if found.dissenters is not None:
        slower, number = slower_text(found.dissenters.percent), found.dissenters.ranks
        ranks, own = ("rank", "its own choice") if number == 1 else (f"{number:,} ranks", "their own choice on average")
        noise = _noise(found.dissenters)
        yield f"For the {ranks} that chose otherwise, the elected config is {slower} than {own} ({noise})."
    if found.fleet is not None and found.fastest is not None:
        ranks = count_of(found.fleet.ranks, "rank")
        fastest = short_config(found.fastest)
        if found.fastest == found.entry.choices[0].config:
            yield f"Over all {ranks}, the elected config has the lowest median time."
        elif math.isinf(found.fleet.percent):
            yield f"Over all {ranks}, the elected config fails on most; the fastest config is {fastest}."
        else:
            yield (
                f"Over all {ranks}, the elected config's median time is {found.fleet.percent:.1f} % above that of the "
                f"fastest config, {fastest} ({_noise(found.fleet)})."
            )
    if clear := sum(gap is not None and not gap.is_within_noise for gap in found.gaps):
        # An average over several choices may hide what a single one shows beyond its noise.
        choices = f"{clear} of {count_of(len(found.gaps), 'other choice')}"
        yield f"{choices} {'differs' if clear == 1 else 'differ'} from the elected config by more than the noise."


def _noise(slowdown: Slowdown) -> str:
    if slowdown.noise_percent is None:
        return "the noise is unknown"
    where = "within" if slowdown.is_within_noise else "beyond"
    return f"{where} the noise of {slowdown.noise_percent:.1f} %"


def _comparison(gap: Gap | None) -> str:
    """How a choice compares with the elected config."""
    if gap is None:
        return "no rank timed it together with the elected config"
    noise = gap.noise_percent
    typical = (
        _SAME if abs(gap.slower_percent) <= noise else f"{slower_text(gap.slower_percent)} than the elected config"
    )
    text = f"on a typical rank: {typical} (noise {noise:.1f} %)"
    if gap.winner_slower_percent is None:
        return text
    own = (
        _SAME if abs(gap.winner_slower_percent) <= noise else f"elected config {slower_text(gap.winner_slower_percent)}"
    )
    return f"{text}; on the ranks that chose it: {own}"
