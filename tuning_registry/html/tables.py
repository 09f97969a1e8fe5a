"""Tables and sections, as every view builds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tuning_registry.html.markup import Child, Markup, element

_MANY_ROWS: Final = 100


def section(anchor: str, title: str, how_to_read: Child, *content: Child) -> Markup:
    """A view: heading, one or two sentences on how to read it, content."""
    return element(
        "section",
        element("h2", element("a", title, href=f"#{anchor}")),
        element("p", how_to_read, class_="how") if how_to_read else None,
        *content,
        id=anchor,
    )


def heading(label: Child, *, number: bool = False, sorts: bool = True) -> Markup:
    """A column's heading; the script makes those with `data-sort` sort their table."""
    return element("th", label, scope="col", class_="num" if number else None, data_sort=sorts)


def cell(value: Child, *, number: bool = False, order: float | str | None = None) -> Markup:
    """A cell. `order` is what sorting compares instead of its text."""
    shown = f"{order:.6g}" if isinstance(order, float) else order
    return element("td", value, class_="num" if number else None, data_o=shown)


def table(caption: str, headings: Sequence[Child], rows: Iterable[Child], **attributes: str | None) -> Markup:
    """A table in a box that scrolls sideways, and can be reached with the keyboard to do so."""
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", element("tr", headings)),
            element("tbody", rows),
            **attributes,
        ),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def table_class(rows: int) -> str:
    """The class of a table that sorts; rows of a big one are laid out only when they come into view."""
    return "sortable big" if rows > _MANY_ROWS else "sortable"


def badge(verdict: str) -> Markup:
    """A verdict; the style adds a sign, so that colour is not all that tells verdicts apart."""
    return element("span", verdict, class_=f"v {verdict.replace(' ', '-')}")
