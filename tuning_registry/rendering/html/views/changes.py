"""What changed since another table or run, and between which environments."""

from __future__ import annotations

from collections import Counter

from tuning_registry.formats.short_configs import short_config
from tuning_registry.html.markup import Child, Markup, element
from tuning_registry.html.tables import cell, heading, section, table
from tuning_registry.html.text import short_key
from tuning_registry.model.names import bare_name
from tuning_registry.operations.reports.page.report import Comparison, Report
from tuning_registry.rendering.differences import override_text
from tuning_registry.rules.table_diff import EntryChange
from tuning_registry.wording import change_text, count_of


def changes_view(report: Report) -> Markup | None:
    """Every entry whose launches change, and the environments before and now; None if nothing was compared."""
    compared = report.comparison
    if compared is None:
        return None
    counts = Counter(change.change for change in compared.changes)
    total = ", ".join(f"{number:,} {what}" for what, number in sorted(counts.items())) or "no differences"
    return section(
        "changes",
        f"What changed since {compared.name}",
        f"{compared.name} compared with {compared.votes}: {total} in {count_of(compared.entries, 'entry')}. Slowdowns come "
        "from the timings in these recordings.",
        _changes(compared) if compared.changes else None,
        _environments(compared),
    )


def _changes(compared: Comparison) -> Markup:
    headings = [
        heading("Change"),
        heading("Kernel and key"),
        heading("Before"),
        heading("Now"),
        heading("Votes before → now"),
        heading("Slowdown"),
    ]
    return table("Entries that change", headings, map(_row, compared.changes), class_="sortable")


def _row(change: EntryChange) -> Markup:
    slower = change.slower_percent
    name = [element("b", bare_name(change.kernel)), " "]
    key = element("span", short_key(change.key), class_="k", title=f"{change.kernel} {change.key}")
    votes = "" if change.votes is None else f"{change.old_votes or 0:,} → {change.new_votes or 0:,} of {change.votes:,}"
    return element(
        "tr",
        cell(change.change),
        element("th", name, key, scope="row"),
        element("td", _config(change.old)),
        element("td", _config(change.new), f" [{override_text(change)}]" if change.override else None),
        cell(votes),
        cell("" if slower is None else change_text(slower), order=-1e9 if slower is None else slower),
    )


def _config(text: str | None) -> Child:
    return element("code", short_config(text)) if text else "nothing"


def _environments(compared: Comparison) -> Markup | None:
    rows = (
        element(
            "tr",
            element("th", what, scope="row"),
            cell(before or "not stated"),
            cell(now or "not stated"),
            cell("yes" if before == now else element("b", "no")),
        )
        for what, before, now in compared.environments
    )
    headings = [heading(text, sorts=False) for text in ("Environment", "Before", "Now", "Same")]
    return table("Environments before and now", headings, rows)
