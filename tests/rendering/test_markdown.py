"""Whether GitHub's Markdown shows names from outside as the text that they are. The parser is markdown-it's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tuning_registry.errors import printable
from tuning_registry.rendering.markdown import markdown_page, markdown_table, sentence

HOSTILE = (
    "a|b",
    r"a\|b",
    "a\\",
    "|",
    "`",
    "``a`",
    "`a` **b** `",
    "<script>alert(1)</script>",
    "<!--",
    "[text](javascript:alert(1))",
    "![image](https://example.com/x.png)",
    "https://example.com",
    "www.example.com",
    "@everyone",
    "#1",
    "__init__",
    "&lt;",
    ":+1:",
    "~~a~~",
    " a ",
    "line\nend\r\n| a | b |",
    "\x1b[31m",
    "\u202e",
    "D=64|NB=1|torch.bfloat16",
)
NAMES = st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1), st.text("`|\\ a", min_size=1))


def tokens(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(text)


def text_of(inline: Token) -> str:
    """The text of an inline token, which may hold nothing but text and code."""
    children = inline.children or []
    assert {child.type for child in children} <= {"text", "code_inline"}
    for child in children:  # GitHub's own extensions act on text: mentions, references, addresses, emoji
        assert child.type == "code_inline" or not set("@#:/<>[]*_~&`\\") & set(child.content.removesuffix(":"))
    return "".join(child.content for child in children)


@given(NAMES, NAMES)
def test_a_cell_shows_the_name(first: str, second: str) -> None:
    table = markdown_table([{"kernel": first, "key": second}], ["kernel", "key"])
    found = [token for token in tokens(table) if token.type == "inline"]
    assert [text_of(cell).strip() for cell in found[:2]] == ["Kernel", "Key"]
    assert [text_of(cell).strip() for cell in found[2:]] == [printable(first).strip(), printable(second).strip()]


@given(st.text("ab `|*@<\\", min_size=1))
def test_a_heading_shows_the_name(name: str) -> None:
    (heading,) = (token for token in tokens(f"### x {sentence(name)} y\n") if token.type == "inline")
    assert text_of(heading).split() == f"x {name} y".split()


@pytest.mark.parametrize("text", ["7/8", "12.3 % slower (noise 2.4 %)", "near-tie", "ranks 0-2 of july", "7 -> 1 of 8"])
def test_plain_words_are_no_code(text: str) -> None:
    assert sentence(text) == text


def test_columns_without_values_are_left_out() -> None:
    rows = [{"kernel": "k", "votes": 0, "host": None}, {"kernel": "k", "votes": 1, "host": ""}]
    assert markdown_table(rows, ["kernel", "votes", "host"]).splitlines()[0] == "| Kernel | Votes |"
    assert markdown_table([], ["kernel"]) == ""


def test_a_page_has_blank_lines_between_its_parts() -> None:
    assert markdown_page("2 changed", "| A |\n| --- |\n| b |\n", ["one", "two"]) == (
        "### 2 changed\n\n| A |\n| --- |\n| b |\n\n- one\n- two\n"
    )
    assert markdown_page("no differences", "") == "### no differences\n"
