"""HTML is escaped by construction."""

from __future__ import annotations

import html.parser

from hypothesis import given
from hypothesis import strategies as st

from tuning_registry.html.markup import Markup, element, join


class Reader(html.parser.HTMLParser):
    """What a browser would read: tags with attributes, and text."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.text = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(), st.text())
def test_any_text_stays_text(text: str, value: str) -> None:
    found = Reader(element("p", text, title=value))
    assert [tag for tag, _ in found.tags] == ["p"]
    ((name, shown),) = found.tags[0][1]
    assert name == "title"
    if text.isprintable() and value.isprintable():
        assert (found.text, shown) == (text, value)


def test_markup_is_not_escaped_twice() -> None:
    inner = element("b", "<x>")
    assert element("p", [inner, " & ", None, 3]) == "<p><b>&lt;x&gt;</b> &amp; 3</p>"
    assert isinstance(join("a", inner), Markup)


def test_attributes_and_void_elements() -> None:
    assert element("input", type="search", hidden=True, disabled=False, data_o=None) == '<input type="search" hidden>'
    assert element("rect", x=1, aria_hidden="true", class_="a") == '<rect x="1" aria-hidden="true" class="a"/>'
    assert element("td", "1") == "<td>1"
    assert "\\x1b" in element("p", "\x1b[31m")
