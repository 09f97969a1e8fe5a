"""What the recordings lack: keys that pinned jobs missed, and entries whose votes are stale."""

from __future__ import annotations

from tuning_registry.html.markup import Markup, element
from tuning_registry.html.tables import cell, heading, section, table
from tuning_registry.html.text import short_key
from tuning_registry.model.names import bare_name
from tuning_registry.operations.reports.page.report import Report
from tuning_registry.rendering.html.text import named
from tuning_registry.rendering.html.views.entries import stale_reasons


def gaps_view(report: Report) -> Markup | None:
    """Misses and stale entries; None if nothing was recorded at all."""
    if not report.entries and not report.misses:
        return None
    return section(
        "gaps",
        "Misses and stale entries",
        "What to record next: keys that pinned jobs did not find in their table, and votes that no longer fit the newest "
        "recording.",
        _misses(report) if report.misses else element("p", "No pinned job has reported a miss."),
        _stale(report),
    )


def _misses(report: Report) -> Markup:
    rows = (
        element(
            "tr",
            element(
                "th",
                element("b", bare_name(miss.kernel)),
                " ",
                element("span", short_key(miss.key), class_="k", title=f"{miss.kernel} {miss.key}"),
                scope="row",
            ),
            cell(miss.reason),
            cell(f"{miss.ranks:,}", number=True, order=float(miss.ranks)),
            cell(f"{miss.runs:,}", number=True, order=float(miss.runs)),
            cell("yes" if miss.recorded else "no"),
        )
        for miss in report.misses
    )
    headings = [
        heading("Kernel and key"),
        heading("Reason"),
        heading("Ranks", number=True),
        heading("Runs", number=True),
        heading("Recorded since"),
    ]
    return table("Misses of pinned jobs", headings, rows, class_="sortable")


def _stale(report: Report) -> Markup:
    stale = [(number, one) for number, one in enumerate(report.entries) if one.is_stale]
    if not stale:
        return element("p", "No entry is stale.")
    rows = (
        element(
            "tr",
            element("th", named(one.entry), scope="row"),
            cell(one.entry.triton or "not stated"),
            cell(f"{one.entry.package} {one.entry.version}".strip() or "not stated"),
            cell("; ".join(stale_reasons(one))),
            class_="f",
            data_e=number,
        )
        for number, one in stale
    )
    headings = [heading("Entry"), heading("Triton"), heading("Package"), heading("Why it is stale")]
    return table("Stale entries", headings, rows, class_="sortable")
