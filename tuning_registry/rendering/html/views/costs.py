"""The ranking of disagreements by cost, with the noise of the timings."""

from __future__ import annotations

import math

from tuning_registry.formats.short_configs import short_config
from tuning_registry.html.markup import Child, Markup, element
from tuning_registry.html.tables import badge, cell, heading, section, table, table_class
from tuning_registry.operations.reports.page.report import Report, ReportEntry
from tuning_registry.rendering.html.advice import advice, best_config
from tuning_registry.rendering.html.svg import cost_bar
from tuning_registry.rendering.html.text import named, percent, split_of
from tuning_registry.rules.evidence import Slowdown

_WIDEST = 100.0  # percent that a bar can show


def costs_view(report: Report) -> Markup | None:
    """Every disagreement, the most costly first."""
    split = report.disagreements
    if not split:
        return None
    numbers = {id(one): number for number, one in enumerate(report.entries)}
    values = [
        slowdown.percent
        for one in split
        for slowdown in (one.cost.dissenters if one.cost else None, one.fleet)
        if slowdown is not None and math.isfinite(slowdown.percent)
    ]
    most = min(max([10.0, *values]), _WIDEST)
    mixed = report.is_mixed
    return section(
        "costs",
        "What the disagreements cost",
        "How much slower the elected config is. For dissenting ranks, it is compared with the config that each of them "
        "chose; over all ranks, with the fastest config. The grey band is the noise of the timings: a bar that ends inside "
        "it shows no clear difference. In a conflict, a choice differs by more than the noise; in a near-tie, none does.",
        table(
            "Disagreements, the most costly first",
            [
                heading("Entry"),
                heading("Verdict"),
                heading("Votes"),
                heading("For dissenting ranks"),
                heading("Over all ranks"),
                heading("Config that should win, and why", sorts=False),
            ],
            (_row(one, numbers[id(one)], most, versions=mixed) for one in split),
            class_=table_class(len(split)),
        ),
    )


def _row(one: ReportEntry, number: int, most: float, *, versions: bool) -> Markup:
    best = best_config(one)
    return element(
        "tr",
        element("th", named(one.entry, versions=versions), scope="row"),
        cell(badge(one.verdict)),
        cell(split_of(one.entry), order=float(one.dissenting) / (one.entry.votes or 1)),
        _cost(one.cost.dissenters if one.cost else None, most),
        _cost(one.fleet, most),
        element(
            "td", element("code", short_config(best)) if best else None, element("span", advice(one), class_="why")
        ),
        class_="f",
        data_e=number,
    )


def _cost(slowdown: Slowdown | None, most: float) -> Markup:
    if slowdown is None:
        return cell(element("span", "not timed", class_="k"), order=-1.0)
    noise: Child = None
    if slowdown.noise_percent is not None:
        noise = element("span", f"noise {percent(slowdown.noise_percent)}", class_="k")
    figure = element("span", element("b", percent(slowdown.percent)), " ", noise, class_="fig")
    order = slowdown.percent if math.isfinite(slowdown.percent) else 1e9
    return cell([cost_bar(slowdown.percent, slowdown.noise_percent, most), figure], order=order)
