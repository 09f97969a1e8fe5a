"""Values as aligned columns, JSON, CSV or Markdown. Returns strings and prints nothing."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tuning_registry.errors import printable
from tuning_registry.model.canonical import dump_json
from tuning_registry.rendering.markdown import markdown_table
from tuning_registry.rendering.screen import SCREEN, Paint, columns_of, fit, pad, paint

if TYPE_CHECKING:
    from tuning_registry.model.results import Result

R = TypeVar("R", bound="Result")
Record = Mapping[str, Any]

SECONDS: Final = len("2026-11-30T12:00:00")  # how much of a time people need
_BELOW: Final = " " * 4  # before a value below its row


class Format(StrEnum):
    """How rows are written."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


def render_results(
    results: Sequence[R],
    style: Format,
    columns: Sequence[str],
    text: Callable[[Sequence[R]], str],
    rows: Callable[[R], Iterable[Record]] | None = None,
    markdown: Callable[[Sequence[R]], str] | None = None,
) -> str:
    """Results in the requested format.

    JSON has their `to_dict()`.

    Args:
        results: What an operation returned.
        style: The format.
        columns: The columns of the CSV.
        text: Makes the table for people.
        rows: Makes the CSV rows of one result; by default one row, its `to_dict()`.
        markdown: Makes the Markdown; by default a table of the CSV rows.
    """

    def csv_rows() -> Iterable[Record]:
        return (row for one in results for row in (rows(one) if rows else [one.to_dict()]))

    return render(
        style,
        data=lambda: [one.to_dict() for one in results],
        columns=columns,
        rows=csv_rows,
        text=lambda: text(results),
        markdown=None if markdown is None else lambda: markdown(results),
    )


def render(
    style: Format,
    *,
    data: Callable[[], object],
    columns: Sequence[str],
    rows: Callable[[], Iterable[Record]],
    text: Callable[[], str],
    markdown: Callable[[], str] | None = None,
) -> str:
    """The only place that knows the formats.

    Args:
        style: The format.
        data: Makes the JSON value.
        columns: The columns of the CSV.
        rows: Makes the rows of the CSV.
        text: Makes the table for people.
        markdown: Makes the Markdown; by default a table of the CSV rows.
    """
    if style is Format.json:
        return render_json(data())
    if style is Format.csv:
        return render_csv(rows(), columns)
    if style is Format.markdown:
        return markdown() if markdown else markdown_table(list(rows()), columns)
    return fit(text())


def render_json(value: object) -> str:
    """Indented JSON with a final newline; ASCII, so that any console encoding can show it."""
    return dump_json(value, indent=1, sort_keys=False) + "\n"


def render_csv(rows: Iterable[Record], columns: Sequence[str]) -> str:
    """CSV with a header line. A cell that a spreadsheet would run as a formula gets a leading apostrophe.

    Characters that could control a terminal are escaped, as in tables. Line ends and tabs are kept; JSON has every
    character.
    """
    lines: Iterable[list[object]] = [list(columns), *([row[column] for column in columns] for row in rows)]
    return join_lines(map(_csv_line, lines))


def _csv_line(cells: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(_cell(cell) for cell in cells)  # its CRLF makes it quote both characters
    return out.getvalue().removesuffix("\r\n")


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):  # a config: its canonical text
        value = dump_json(value)
    elif isinstance(value, list | tuple):
        value = "; ".join(map(str, value))
    if isinstance(value, str):
        inert = value if value.isprintable() else "".join(c if c in "\r\n\t" else printable(c) for c in value)
        return "'" + inert if value[:1] in {"=", "+", "-", "@", "\t", "\r"} else inert
    return "" if value is None else value


def render_columns(rows: Sequence[Record], columns: Sequence[str], indent: str = "") -> str:
    """Aligned columns with a header line, never cut; control characters are escaped.

    If the rows are wider than the screen, some columns follow below each row, with their names.

    Args:
        rows: The values by column, and under `paint` the colours of some columns.
        columns: The columns.
        indent: What each line begins with.
    """
    titles = [column.replace("_", " ").upper() for column in columns]
    cells = [[printable(plain(row[column])) for column in columns] for row in rows]
    widths = [max(map(columns_of, values)) for values in zip(titles, *cells, strict=True)]
    filled = [sum(value != "-" for value in values) for values in zip(*cells, strict=True)] or [0] * len(columns)
    beside = _columns_that_fit(widths, filled, len(indent))

    def line(values: Sequence[str], paints: Sequence[Paint | None]) -> str:
        last = beside[-1]
        padded = (pad(values[at], widths[at] * (at != last), paints[at]) for at in beside)
        return (indent + "  ".join(padded)).rstrip() + "\n"

    text = line(titles, [Paint.STRONG] * len(titles))
    for row, values in zip(rows, cells, strict=True):
        paints = [row.get("paint", {}).get(column) for column in columns]
        text += line(values, paints)
        for at in range(len(columns)):
            if at not in beside and values[at] != "-":
                text += f"{indent}{_BELOW}{titles[at].lower()}: {paint(values[at], paints[at])}\n"
    return text


def _columns_that_fit(widths: Sequence[int], filled: Sequence[int], indent: int) -> list[int]:
    """The columns that the screen has room for in one row.

    Leaves out the column with the fewest values if that is enough, else the widest ones.
    """
    beside, room = list(range(len(widths))), SCREEN.get().width

    def excess() -> int:
        return 0 if room is None else indent + sum(widths[at] + 2 for at in beside) - 2 - room

    while len(beside) > 1 and (over := excess()) > 0:
        enough = [at for at in beside if widths[at] + 2 >= over]
        beside.remove(min(enough, key=lambda at: filled[at]) if enough else max(beside, key=lambda at: widths[at]))
    return beside


def columns_in_use(rows: Sequence[Record], columns: Sequence[str], always: int) -> list[str]:
    """The first `always` columns, and those of the others that are not empty in every row."""
    return [
        name
        for place, name in enumerate(columns)
        if place < always or any(row[name] not in (None, [], "") for row in rows)
    ]


def plain(value: object) -> str:
    """A value as a table shows it: lists joined, `-` for what is absent."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None or value == "" else str(value)


def join_lines(lines: Iterable[str]) -> str:
    """Lines, each with its end."""
    return "".join(line + "\n" for line in lines)
