"""The page: the views in order, and where the data comes from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tuning_registry.html.document import render_document
from tuning_registry.html.markup import Markup, element, join
from tuning_registry.html.tables import section, table
from tuning_registry.operations.reports.costs import CONFLICT, NEAR_TIE, NOT_TIMED
from tuning_registry.operations.reports.page.report import UNANIMOUS, Report
from tuning_registry.rendering.html.views.changes import changes_view
from tuning_registry.rendering.html.views.costs import costs_view
from tuning_registry.rendering.html.views.entries import entries_view
from tuning_registry.rendering.html.views.fleet import fleet_view
from tuning_registry.rendering.html.views.gaps import gaps_view
from tuning_registry.rendering.html.views.heat_map import heat_map_view
from tuning_registry.rendering.html.views.unseen import unseen_view
from tuning_registry.rendering.html.views.verdict import verdict_view

View = Callable[[Report], Markup | None]

# In the order of the page: the name in the navigation, and the view.
_VIEWS: Final[Sequence[tuple[str, str, View]]] = (
    ("Verdict", "verdict", verdict_view),
    ("Choices", "heat-map", heat_map_view),
    ("Cost", "costs", costs_view),
    ("Entries", "entries", entries_view),
    ("Fleet", "fleet", fleet_view),
    ("Misses", "gaps", gaps_view),
    ("Unseen keys", "unseen", unseen_view),
    ("Changes", "changes", changes_view),
)
_MOST_ENTRIES: Final = 2_000  # a page of more would take a browser minutes
_VERDICTS: Final = (CONFLICT, NEAR_TIE, NOT_TIMED, UNANIMOUS)


def render_page(report: Report, made_at: dt.datetime) -> str:
    """The page as one HTML document. It loads nothing and runs only its own script.

    Args:
        report: What to show.
        made_at: Aware time that the page states.
    """
    shown = replace(report, entries=report.entries[:_MOST_ENTRIES])
    made = [(name, anchor, view(report if view is verdict_view else shown)) for name, anchor, view in _VIEWS]
    there = [(name, anchor, content) for name, anchor, content in made if content is not None]
    title = f"Autotune report: {report.source}" if report.source else "Autotune report"
    views = [(name, anchor) for name, anchor, _ in there]
    main = (
        there[0][2],
        _left_out(len(report.entries)),
        _filters(shown),
        (content for *_, content in there[1:]),
        _origin(report),
    )
    return render_document(title, "Autotune report", views, main, _made(report, made_at))


def _left_out(entries: int) -> Markup | None:
    if entries <= _MOST_ENTRIES:
        return None
    text = (
        f"The views below show {_MOST_ENTRIES:,} of {entries:,} entries: those with the largest share of dissenting votes. "
        "To see others, narrow the report with --kernel or --key."
    )
    return element("p", text, class_="lead")


def _filters(report: Report) -> Markup:
    """The controls that narrow every view; shown by the script, which makes them work."""
    boxes = (
        element("label", element("input", type="checkbox", value=verdict, checked=True), " ", verdict)
        for verdict in _VERDICTS
        if report.with_verdict(verdict)
    )
    return element(
        "div",
        element("label", "Filter ", element("input", type="search", id="filter", placeholder="kernel or key")),
        element("fieldset", element("legend", "Verdicts"), boxes),
        element("output", id="count"),
        class_="filters",
        hidden=True,
        role="search",
    )


def _origin(report: Report) -> Markup:
    """Where the data comes from."""
    facts = [("source of this page", report.source), ("filters", report.filters or "none"), *report.environments]
    rows = (element("tr", element("th", what, scope="row"), element("td", text)) for what, text in facts if text)
    return section(
        "origin",
        "Data sources",
        "",
        table("Recordings behind this page", [element("th", text, scope="col") for text in ("What", "Value")], rows),
    )


def _made(report: Report, made_at: dt.datetime) -> Markup:
    when = made_at.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return join(element("p", f"Generated on {when} by tuning-registry. {report}."))
