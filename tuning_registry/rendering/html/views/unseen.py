"""What a job launches for unseen keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tuning_registry.formats.short_configs import short_config
from tuning_registry.html.markup import Child, Markup, element
from tuning_registry.html.tables import cell, heading, section, table
from tuning_registry.html.text import short_key
from tuning_registry.model.names import bare_name
from tuning_registry.operations.reports.page.report import Report, UnseenKey, UnseenKeys
from tuning_registry.rendering.html.text import DASH, entry_id, percent
from tuning_registry.rules.near_keys import NearKey
from tuning_registry.wording import count_of

Anchors = Mapping[tuple[str, str, str], str]  # of the entries, by architecture, kernel and key


def unseen_view(report: Report) -> Markup | None:
    """Keys that were missed, and examples, with the config that the rule for unseen keys tries first."""
    if not report.unseen:
        return None
    headings = [
        heading("Kernel"),
        heading("Unseen key", sorts=False),
        heading("Config", sorts=False),
        heading("Nearest recorded key", sorts=False),
        heading("Leave-one-out test"),
    ]
    anchors = {(e.arch, e.kernel, e.key): entry_id(e) for e in (one.entry for one in report.entries)}
    return section(
        "unseen",
        "Configs for unseen keys",
        "For a key that its table does not have, a pinned job launches the config that the nearest recorded keys suggest "
        "(on_miss=nearest): the one with the lowest slowdown expected from their timings. Missed keys come first; the others "
        "are examples. The leave-one-out test takes recorded keys out in turn, and compares the choice for each with its "
        "fastest config. It needs two timed keys.",
        table("Configs for unseen keys", headings, (_rows(kernel, anchors) for kernel in report.unseen)),
    )


def _rows(kernel: UnseenKeys, anchors: Anchors) -> Iterator[Markup]:
    keys: tuple[UnseenKey | None, ...] = kernel.keys or (None,)
    for number, key in enumerate(keys):
        first: Child = None
        if number == 0:
            name = element("b", bare_name(kernel.kernel), title=kernel.kernel)
            count = element("span", f" {count_of(kernel.recorded, 'recorded key')}", class_="k")
            first = element("th", name, count, scope="rowgroup", rowspan=len(keys))
        tested = cell(_tested(kernel.left_out)) if number == 0 and len(keys) == 1 else None
        if number == 0 and len(keys) > 1:
            tested = element("td", _tested(kernel.left_out), rowspan=len(keys))
        yield element("tr", first, _key(kernel, key, anchors), tested)


def _key(kernel: UnseenKeys, key: UnseenKey | None, anchors: Anchors) -> Child:
    if kernel.any_key is not None:
        return [
            cell(short_key(key.key) if key else "any other key"),
            element("td", element("code", short_config(kernel.any_key))),
            cell('the "*" entry'),
        ]
    if key is None:
        return [cell(DASH), cell(DASH), cell(DASH)]
    missed = (
        element("span", f"missed by {count_of(key.missed_by, 'rank')}", class_="v conflict") if key.missed_by else None
    )
    return [
        element("td", element("span", short_key(key.key), class_="k"), " ", missed),
        element(
            "td", element("code", short_config(key.config)) if key.config else "the candidate with the lowest estimate"
        ),
        element(
            "td",
            _nearest(key.nearest, anchors.get((kernel.arch, kernel.kernel, key.nearest.key)) if key.nearest else None),
        ),
    ]


def _nearest(near: NearKey | None, anchor: str | None) -> Child:
    """The nearest recorded key by the fields in which it differs, linked to its entry."""
    if near is None:
        return "none"
    fields = "; ".join(f"{one.field}={one.recorded or 'none'}" for one in near.differences)
    return element("a", fields or short_key(near.key), href=anchor and f"#{anchor}")


def _tested(left_out: tuple[float, ...]) -> str:
    if not left_out:
        return "not tested"
    return f"{percent(sum(left_out) / len(left_out))} slower on average, {percent(max(left_out), 0)} at worst"
