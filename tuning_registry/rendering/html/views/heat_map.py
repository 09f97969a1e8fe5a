"""The heat map of entries and ranks: which choice each rank made."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Final

from tuning_registry.html.markup import Markup, element, join
from tuning_registry.html.tables import badge, cell, heading, section, table, table_class
from tuning_registry.operations.reports.page.report import Column, Report, ReportEntry
from tuning_registry.rendering.html.svg import Grid, legend, share_bar
from tuning_registry.rendering.html.text import DASH, named, rank_name, split_of

MOST_COLUMNS: Final = 256
_SHARE_WIDTH: Final = 320
_COLOURS: Final = (
    (0, "the elected config"),
    (1, "the next choice"),
    (2, ""),
    (3, ""),
    (4, ""),
    (5, "all further choices"),
)


def heat_map_view(report: Report) -> Markup | None:
    """A row per entry, a column per rank; above 256 ranks a column per host, or one bar for all ranks."""
    if not report.entries:
        return None
    grid = _grid(report.columns)
    most = max(len(one.entry.choices) for one in report.entries)
    names = _names(report.columns, grid)
    head = (
        heading(_header(report.columns, grid), sorts=False)
        if grid
        else heading(element("span", "Share of votes", class_="share"), sorts=False)
    )
    mixed = report.is_mixed
    rows = (_row(one, grid, number, versions=mixed) for number, one in enumerate(report.entries))
    return section(
        "heat-map",
        "Who chose what",
        _how_to_read(report.columns, grid),
        legend(_COLOURS[:most]),
        table(
            "Which config each rank chose, by entry; most dissenting votes first",
            [heading("Entry"), head, heading("Votes"), heading("Verdict")],
            rows,
            class_=f"heat {table_class(len(report.entries))}",
            data_names=json.dumps(names) if names else None,
        ),
    )


def _grid(columns: Sequence[Column]) -> Grid | None:
    """A column per rank, or per host; None if there are too many of both."""
    if len(columns) <= MOST_COLUMNS:
        return Grid([[number] for number in range(len(columns))])
    if not all(column.host for column in columns):
        return None
    groups = [list(group) for _, group in itertools.groupby(range(len(columns)), lambda n: _place(columns[n]))]
    return Grid(groups) if len(groups) <= MOST_COLUMNS else None


def _place(column: Column) -> tuple[str, str]:
    return column.run, column.host or ""


def _names(columns: Sequence[Column], grid: Grid | None) -> list[str]:
    """The name of each column, for the script."""
    if grid is None:
        return []
    with_run = len({column.run for column in columns}) > 1
    return [
        rank_name(columns[group[0]], with_run=with_run)
        if len(group) == 1
        else f"{columns[group[0]].host}: {len(group)} ranks" + (f" of {columns[group[0]].run}" if with_run else "")
        for group in grid.groups
    ]


def _header(columns: Sequence[Column], grid: Grid) -> Markup:
    several = len({column.run for column in columns}) > 1
    firsts = [columns[group[0]] for group in grid.groups]
    bands, start = [], 0
    for (run, host), members in itertools.groupby(firsts, _place):
        count = len(list(members))
        bands.append((" ".join(filter(None, (host, run if several else ""))), start, count))
        start += count
    labels = [DASH if column.rank is None else str(column.rank) for column in firsts]
    return join("Ranks" if len(firsts) == len(columns) else "Hosts", grid.header(labels, bands))


def _row(one: ReportEntry, grid: Grid | None, number: int, *, versions: bool) -> Markup:
    entry = one.entry
    if grid is None:
        picture = share_bar({place: choice.count for place, choice in enumerate(entry.choices)}, _SHARE_WIDTH)
    else:
        picture = grid.row(one.chosen)
    return element(
        "tr",
        element("th", named(entry, versions=versions), scope="row"),
        element("td", picture, class_="map"),
        cell(split_of(entry), order=float(one.dissenting) / (entry.votes or 1)),
        cell(badge(one.verdict)),
        class_="f",
        data_e=number,
    )


def _how_to_read(columns: Sequence[Column], grid: Grid | None) -> str:
    if grid is None:
        return f"One bar per entry: the votes of {len(columns):,} ranks, by choice. Letters match the entry's details."
    what = "rank" if len(grid.groups) == len(columns) else "host, split by the votes of its ranks"
    return (
        f"One row per entry, one column per {what}. Within a row, the same letter or colour means the same "
        "config; an empty cell means no vote."
    )
