"""Changes between tables as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.rendering.base import Format, Record, join_lines, render_results
from tuning_registry.rendering.markdown import markdown_page, markdown_table
from tuning_registry.rendering.screen import Paint, paint
from tuning_registry.rules.table_diff import ADDED, DROPPED, EntryChange
from tuning_registry.wording import change_text

_COLUMNS: Final = ("kernel", "key", "change", "old_config", "new_config", "inherited", "old_votes", "new_votes",
                   "total_votes", "slower_than_old_percent", "override")  # fmt: skip
_SHOWN: Final = (
    "change",
    "kernel",
    "key",
    "old_config",
    "new_config",
    "votes",
    "new_config_measured_time",
    "override",
)


def render_changes(changes: Sequence[EntryChange], style: Format, heading: str = "", notes: Sequence[str] = ()) -> str:
    """Every entry that differs between two tables, with the votes, timings and overrides behind the change.

    Tables for people have only changes that reach a launch: generalizing a table drops most of its entries.

    Args:
        changes: The changes.
        style: The format.
        heading: The first line of the Markdown.
        notes: Its last lines.
    """

    def markdown(found: Sequence[EntryChange]) -> str:
        rows = [_markdown_row(one) for one in found if not one.is_served_alike]
        return markdown_page(heading, markdown_table(rows, _SHOWN), notes)

    return render_results(changes, style, _COLUMNS, _text, _rows, markdown)


def override_text(change: EntryChange) -> str:
    """The override behind a change: `#3 pin: numerics`; empty without one."""
    override = change.override
    return "" if override is None else f"#{override.id} {override.action}: {override.reason}"


def _markdown_row(change: EntryChange) -> Record:
    slower = change.slower_percent
    return {
        "change": change.change,
        "kernel": change.kernel,
        "key": change.key,
        "old_config": change.old,
        "new_config": change.new,
        "votes": None
        if change.votes is None
        else f"{change.old_votes or 0} -> {change.new_votes or 0} of {change.votes}",
        "new_config_measured_time": None if slower is None else change_text(slower),
        "override": override_text(change),
    }


def _rows(change: EntryChange) -> Iterable[Record]:
    yield {**change.to_dict(), "override": override_text(change)}


def _text(changes: Sequence[EntryChange]) -> str:
    lines: list[str] = []
    for one in changes:
        if one.is_served_alike:
            continue
        marks = [] if one.slower_percent is None else [f"{change_text(one.slower_percent)} by the timings"]
        marks += [override_text(one)] if one.override else []
        lines += [
            "",
            printable(f"{one.change:<7}  {one.kernel}"),
            printable("      " + one.key),
            _side("-", one.old, one.old_votes, one, is_wider=one.is_inherited and one.change != DROPPED),
            _side("+", one.new, one.new_votes, one, is_wider=one.is_inherited and one.change != ADDED)
            + "".join(f"  [{printable(mark)}]" for mark in marks),
        ]
    return join_lines(lines[1:])


def _side(sign: str, text: str | None, votes: int | None, change: EntryChange, *, is_wider: bool) -> str:
    style = Paint.REMOVED if sign == "-" else Paint.ADDED
    if text is None:
        return "    " + paint(f"{sign} nothing", style)
    support = "" if change.votes is None else f"{votes}/{change.votes}  "
    wider = "  (from a wider entry)" if is_wider else ""
    return "    " + paint(printable(f"{sign} {support}{short_config(text)}{wider}"), style)
