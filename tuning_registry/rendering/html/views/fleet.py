"""The ranks and hosts compared with each other."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from tuning_registry.html.markup import Child, Markup, element
from tuning_registry.html.tables import cell, heading, section, table
from tuning_registry.operations.reports.page.report import Report
from tuning_registry.operations.reports.ranks import Rank
from tuning_registry.rendering.html.svg import BAR_WIDTH
from tuning_registry.rendering.html.text import DASH, percent

_MOST_ROWS: Final = 2048


def fleet_view(report: Report) -> Markup | None:
    """A table of hosts, if they are known, and one of ranks."""
    ranks = sorted(report.fleet.ranks, key=lambda r: (r.run, r.host or "", -1 if r.rank is None else r.rank))
    if not ranks:
        return None
    shown = ranks
    if len(ranks) > _MOST_ROWS:
        shown = sorted(ranks, key=lambda r: (not r.outlier, -(r.dissent or 0.0)))[:_MOST_ROWS]
    return section(
        "fleet",
        "The fleet",
        "Dissenting votes are those against the elected config. Speed compares a rank's times with the median "
        f"of all ranks for the same config: right of the middle is slower. {_outliers(report)}",
        _hosts(ranks),
        element(
            "p",
            f"Shows {len(shown):,} of {len(ranks):,} ranks: the outliers, and those that dissent most.",
            class_="how",
        )
        if len(shown) < len(ranks)
        else None,
        _ranks(shown, report),
    )


def _outliers(report: Report) -> str:
    if not report.fleet.time_ratio and not report.fleet.dissent:
        return "There are too few ranks to find outliers."
    number = len(report.fleet.outliers)
    if not number:
        return "No rank is an outlier."
    what = "rank is an outlier" if number == 1 else "ranks are outliers"
    return f"{number:,} {what}: further from the others than the spread of all ranks explains."


def _hosts(ranks: Sequence[Rank]) -> Markup | None:
    hosts: dict[str, list[Rank]] = {}
    for rank in ranks:
        hosts.setdefault(rank.host or "", []).append(rank)
    if len(hosts) < 2:
        return None
    most = max(_share(members) or 0.0 for members in hosts.values())
    rows = []
    for host, members in sorted(hosts.items()):
        ratios = [rank.time_ratio for rank in members if rank.time_ratio is not None]
        outliers = sum(bool(rank.outlier) for rank in members)
        rows.append(
            element(
                "tr",
                element("th", host or "not stated", scope="row"),
                cell(f"{len(members):,}", number=True, order=float(len(members))),
                _dissent(_share(members), sum(rank.dissenting for rank in members), most),
                _speed(100 * (statistics.median(ratios) - 1) if ratios else None),
                cell(_mark(f"{outliers:,}") if outliers else DASH, order=float(outliers)),
            )
        )
    headings = [
        heading("Host"),
        heading("Ranks", number=True),
        heading("Dissenting votes"),
        heading("Speed relative to the median"),
        heading("Outliers"),
    ]
    return table("Hosts", headings, rows, class_="sortable")


def _share(ranks: Sequence[Rank]) -> float | None:
    votes = sum(rank.votes for rank in ranks)
    return sum(rank.dissenting for rank in ranks) / votes if votes else None


def _ranks(ranks: Sequence[Rank], report: Report) -> Markup:
    several_runs = len({rank.run for rank in ranks}) > 1
    hosts, devices = any(rank.host for rank in ranks), len({rank.device for rank in ranks}) > 1
    most = max(rank.dissent or 0.0 for rank in ranks)
    headings: list[Child] = [heading("Rank", number=True)]
    headings += [heading("Run")] if several_runs else []
    headings += [heading("Host")] if hosts else []
    headings += [heading("Device")] if devices else []
    headings += [heading("Votes", number=True), heading("Dissenting votes"), heading("Speed relative to the median")]
    headings += [heading("Outlier")] if report.fleet.outliers else []
    rows = []
    for rank in ranks:
        cells: list[Child] = [element("th", DASH if rank.rank is None else rank.rank, scope="row", class_="num")]
        cells += [cell(rank.run)] if several_runs else []
        cells += [cell(rank.host)] if hosts else []
        cells += [cell(rank.device)] if devices else []
        cells += [cell(f"{rank.votes:,}", number=True), _dissent(rank.dissent, rank.dissenting, most)]
        cells += [_speed(rank.slowdown_percent)]
        if report.fleet.outliers:
            cells.append(cell(_mark("; ".join(rank.reasons)) if rank.outlier else None, order=str(len(rank.outlier))))
        rows.append(element("tr", cells, class_="out" if rank.outlier else None))
    return table("Ranks", headings, rows, class_="sortable")


def _mark(text: str) -> Markup:
    return element("span", text, class_="v conflict")


def _dissent(share: float | None, number: int, most: float) -> Markup:
    if share is None:
        return cell(DASH, order=-1.0)
    width = BAR_WIDTH * share / most if most else 0.0
    bar = element("svg", element("rect", class_="q", y=4, width=f"{max(width, 1):.4g}", height=6), class_="bar")
    return cell(
        [bar, element("span", element("b", f"{number:,}"), f" ({percent(100 * share)})", class_="fig")], order=share
    )


def _speed(slowdown: float | None) -> Markup:
    if slowdown is None:
        return cell(element("span", "not timed", class_="k"), order=-1e9)
    middle, most = BAR_WIDTH / 2, 20.0
    x = middle + middle * min(max(slowdown, -most), most) / most
    dot = element("path", class_="o", d=f"M{x:.4g} 7h0")
    bar = element("svg", element("path", class_="mid", d=f"M{middle:g} 1v12"), dot, class_="bar")
    words = (
        "same as the median"
        if abs(slowdown) < 0.05
        else f"{percent(abs(slowdown))} {'slower' if slowdown > 0 else 'faster'}"
    )
    return cell([bar, element("span", words, class_="fig")], order=slowdown)
