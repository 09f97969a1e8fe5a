"""Differences between tables, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import parse_config
from tuning_registry.rendering.base import Format, join_lines, render_csv, render_json
from tuning_registry.rendering.costs import percent, rounded

if TYPE_CHECKING:  # importing them for real would load SQLAlchemy
    from tuning_registry.operations.differences import Difference

_COLUMNS = ("kernel", "key", "change", "old", "new", "inherited", "old_votes", "new_votes", "votes", "slower_percent")


def render_differences(found: Sequence[Difference], style: Format) -> str:
    """Every entry that two tables do not have in common, with the votes, timings and overrides behind it.

    For the eye only those that change what a launch gets: generalizing a table drops most of its entries.
    """
    if style is Format.json:
        return render_json([
            {**_row(one), "old": _parsed(one.change.old), "new": _parsed(one.change.new),
             "override": asdict(one.override) | {"config": _parsed(one.override.config)} if one.override else None}
            for one in found
        ])  # fmt: skip
    if style is Format.csv:
        rows = [
            {**_row(one), "inherited": str(one.change.is_inherited).lower(), "override": override_text(one)}
            for one in found
        ]
        return render_csv(rows, [*_COLUMNS, "override"])
    lines: list[str] = []
    for one in (one for one in found if not one.change.is_served_alike):
        marks = [] if one.slower_percent is None else [f"{percent(one.slower_percent)} by the timings"]
        marks += [override_text(one)] if one.override else []
        lines += [
            "",
            printable(f"{one.change.change:<7}  {one.change.kernel}"),
            printable("      " + one.change.key),
            _side("-", one.change.old, one.old_votes, one, is_inherited=one.change.change == "added"),
            _side("+", one.change.new, one.new_votes, one, is_inherited=one.change.change == "dropped")
            + "".join(f"  [{printable(mark)}]" for mark in marks),
        ]
    return join_lines(lines[1:])


def override_text(one: Difference) -> str:
    """The override behind a difference: `#3 pin: numerics`; empty without one."""
    return "" if one.override is None else f"#{one.override.id} {one.override.action}: {one.override.reason}"


def _row(one: Difference) -> dict[str, Any]:
    change = one.change
    known = one.votes is not None
    return {
        "kernel": change.kernel,
        "key": change.key,
        "change": change.change,
        "old": change.old,
        "new": change.new,
        "inherited": change.is_inherited,
        "old_votes": one.old_votes if known else None,
        "new_votes": one.new_votes if known else None,
        "votes": one.votes,
        "slower_percent": rounded(one.slower_percent),
    }


def _parsed(text: str | None) -> Any:
    return None if text is None else parse_config(text)


def _side(sign: str, text: str | None, votes: int, one: Difference, *, is_inherited: bool) -> str:
    if text is None:
        return f"    {sign} nothing"
    support = "" if one.votes is None else f"{votes}/{one.votes}  "
    wider = "  (by a wider entry)" if is_inherited and one.change.is_inherited else ""
    return printable(f"    {sign} {support}{short_config(text)}{wider}")
