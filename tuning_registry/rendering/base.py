"""Rows as text: aligned columns, JSON or CSV. Returns strings; prints nothing."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import dump_json, parse_config
from tuning_registry.model.names import rank_ranges

if TYPE_CHECKING:  # importing them for real would load SQLAlchemy
    from tuning_registry.operations.election.tally import Choice, Entry
    from tuning_registry.operations.misses import MissedEntry
    from tuning_registry.operations.runs import Run

_MAX_SHARED_RANKS = 60  # characters of a rank list in a table
_MARKS = ("decided_by", "banned", "stale")
GROUP = ("triton", "package", "version")


class Format(StrEnum):
    """How rows are written."""

    table = "table"
    json = "json"
    csv = "csv"


def render_json(value: object) -> str:
    """Indented JSON with a final newline; ASCII, so that any console encoding can hold it."""
    return dump_json(value, indent=1, sort_keys=False) + "\n"


def render_csv(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> str:
    """CSV with a header line. A cell that a spreadsheet would run as a formula gets a leading apostrophe.

    Characters that could drive a terminal are escapes, as in tables; line ends and tabs stay, JSON has all.
    """
    lines: list[list[object]] = [list(columns), *([row[column] for column in columns] for row in rows)]
    return join_lines(map(_csv_line, lines))


def _csv_line(cells: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(_cell(cell) for cell in cells)  # its CRLF makes it quote both characters
    return out.getvalue().removesuffix("\r\n")


def _cell(value: object) -> object:
    if isinstance(value, list | tuple):
        value = "; ".join(map(str, value))
    if isinstance(value, str):
        inert = value if value.isprintable() else "".join(c if c in "\r\n\t" else printable(c) for c in value)
        return "'" + inert if value[:1] in {"=", "+", "-", "@", "\t", "\r"} else inert
    return "" if value is None else value


def render_columns(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> str:
    """Aligned columns with a header line, never cut; control characters shown as escapes."""
    cells = [[column.upper() for column in columns]]
    cells += [[printable(_plain(row[column])) for column in columns] for row in rows]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)
    return "".join(line.rstrip() + "\n" for line in lines)


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None or value == "" else str(value)


def render_winners(entries: Sequence[Entry], style: Format) -> str:
    """Every entry with its elected config and its support."""
    if style is Format.json:
        return render_json([{**entry_head(entry), **_winner(entry), **entry_group(entry)} for entry in entries])
    if style is Format.csv:
        rows = [
            {**entry_head(e), "config": e.choices[0].config, "votes": e.choices[0].count, "of": e.votes,
             "tie": str(e.is_tie).lower(), **_marks(e), **entry_group(e)}
            for e in entries
        ]  # fmt: skip
        return render_csv(rows, ["arch", "kernel", "key", "config", "votes", "of", "tie", *_MARKS, *GROUP])
    lines: list[str] = []
    title = ""
    for entry in entries:
        if title != entry_title(entry):
            title = entry_title(entry)
            lines += ["", title]
        lines.append("      " + printable(entry.key))
        winner = entry.choices[0]
        support = f"{winner.count}/{entry.votes}"
        marks = tie_mark(entry) + _shown_marks(entry)
        lines.append(printable(f"{support:>7}  {short_config(winner.config)}") + marks)
    return join_lines(lines[1:])


def render_disagreements(entries: Sequence[Entry], style: Format) -> str:
    """Every split entry: each config with its votes, and the ranks behind it."""
    if style is Format.json:
        return render_json([{**entry_head(e), "votes": [_vote(c) for c in e.choices], "tie": e.is_tie, **entry_group(e)}
                            for e in entries])  # fmt: skip
    if style is Format.csv:
        rows = [
            {**entry_head(e), "config": c.config, "count": c.count, "of": e.votes, "ranks": rank_ranges(c.ranks),
             "runs": sorted(c.voters or {}), "tie": str(e.is_tie).lower(), **entry_group(e)}
            for e in entries for c in e.choices
        ]  # fmt: skip
        return render_csv(rows, ["arch", "kernel", "key", "config", "count", "of", "ranks", "runs", "tie",
                                 *GROUP])  # fmt: skip
    return "\n".join(_block(entry) for entry in entries)


def _block(entry: Entry) -> str:
    width = max(len(short_config(choice.config)) for choice in entry.choices)
    return join_lines(
        [
            entry_title(entry),
            "      " + printable(entry.key) + tie_mark(entry),
            *(
                printable(f"{choice.count:>5}  {short_config(choice.config):<{width}}  {voters_text(choice.voters)}")
                for choice in entry.choices
            ),
        ]
    )


def entry_title(entry: Entry) -> str:
    """Arch and kernel, and the version group where one is stated."""
    versions = [f"triton {entry.triton}" if entry.triton else "", f"{entry.package} {entry.version}".strip()]
    group = " ".join(filter(None, versions))
    return printable(f"{entry.arch}  {entry.kernel}" + (f"  ({group})" if group else ""))


def tie_mark(entry: Entry) -> str:
    """A word beside an entry that its text has decided."""
    return "  [tie: decided by config text]" if entry.is_tie else ""


def voters_text(voters: Mapping[str, Sequence[int]] | None) -> str:
    """Who chose it, as people write it: `ranks 0-2,5 of job-4711`."""
    parts = []
    for run, ranks in (voters or {}).items():
        shown = rank_ranges(ranks)
        if len(shown) > _MAX_SHARED_RANKS:
            shown = f"{shown[:_MAX_SHARED_RANKS].rpartition(',')[0]},... ({len(ranks)} ranks)"
        parts.append(f"{'ranks' if len(ranks) > 1 else 'rank'} {shown} of {run}")
    return "; ".join(parts)


def entry_head(entry: Entry) -> dict[str, Any]:
    """The first columns of an entry's row."""
    return {"arch": entry.arch, "kernel": entry.kernel, "key": entry.key}


def entry_group(entry: Entry) -> dict[str, str]:
    """The version group's columns."""
    return {"triton": entry.triton, "package": entry.package, "version": entry.version}


def _winner(entry: Entry) -> dict[str, Any]:
    winner = entry.choices[0]
    return {"config": parse_config(winner.config), "votes": winner.count, "of": entry.votes, "tie": entry.is_tie,
            **_marks(entry)}  # fmt: skip


def _marks(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in _MARKS}


def _shown_marks(entry: Entry) -> str:
    """What sets an entry apart from one that the majority decides alone."""
    marks = [
        "" if entry.decided_by == "majority" else "pinned" if entry.decided_by == "pin" else entry.decided_by,
        f"{entry.banned} banned" if entry.banned else "",
        f"stale: {entry.stale} chose from other candidates" if entry.stale else "",
    ]
    return "".join(f"  [{mark}]" for mark in marks if mark)


def _vote(choice: Choice) -> dict[str, Any]:
    return {"config": parse_config(choice.config), "count": choice.count, "ranks": choice.ranks,
            "runs": choice.voters}  # fmt: skip


def render_runs(runs: Sequence[Run], style: Format) -> str:
    """Every run with what it holds; times are UTC."""
    rows = [_run_row(run, style) for run in runs]
    if style is Format.json:
        return render_json(rows)
    columns = ["run", "ranks", "world_size", "votes", "archs", "triton", "packages", "devices", "hosts", "source",
               "ingested_at", "withdrawn_at"]  # fmt: skip
    if style is Format.csv:
        return render_csv(rows, columns)
    return render_columns(
        rows, [c for c in columns if c in columns[:2] or any(row[c] not in (None, [], "") for row in rows)]
    )


def _run_row(run: Run, style: Format) -> dict[str, Any]:
    many = style is Format.json
    whole = len("2026-11-30T12:00:00") if style is Format.table else None  # people need no microseconds
    return {
        "run": run.name,
        "ranks": list(run.ranks) if many else rank_ranges(run.ranks),
        "world_size": run.world_size,
        "votes": run.votes,
        "archs": list(run.archs),
        "triton": list(run.triton),
        "packages": list(run.packages),
        "devices": list(run.devices),
        "hosts": list(run.hosts),
        "source": list(run.sources),
        "ingested_at": run.ingested_at[:whole],
        "withdrawn_at": run.withdrawn_at and run.withdrawn_at[:whole],
    }


def render_misses(misses: Sequence[MissedEntry], style: Format) -> str:
    """Every missed entry with how many missed it, why, and whether it has votes by now."""
    columns = ["arch", "kernel", "key", "reason", "ranks", "runs", "recorded"]
    rows = [{name: getattr(miss, name) for name in columns} for miss in misses]
    if style is Format.json:
        return render_json(rows)
    if style is Format.csv:
        return render_csv([{**row, "recorded": str(row["recorded"]).lower()} for row in rows], columns)
    if not rows:
        return ""
    # Kernel and key come last: they are as long as they are.
    return render_columns(
        [{**row, "recorded": "yes" if row["recorded"] else "no"} for row in rows],
        ["ranks", "runs", "recorded", "reason", "arch", "kernel", "key"],
    )


def render_status(status: Mapping[str, object], style: Format) -> str:
    """The state of the database: one line a fact."""
    if style is Format.json:
        return render_json(status)
    rows = [{"what": name, "value": value} for name, value in status.items()]
    if style is Format.csv:
        return render_csv(rows, ["what", "value"])
    width = max(map(len, status))
    return join_lines(f"{name.ljust(width)}  {printable(_plain(value))}" for name, value in status.items())


def join_lines(lines: Iterable[str]) -> str:
    """Lines, each with its end."""
    return "".join(line + "\n" for line in lines)
