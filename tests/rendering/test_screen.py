"""Text on a terminal: it fits, nothing is lost, and a colour changes no character."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuning_registry.rendering.base import render_columns
from tuning_registry.rendering.screen import SCREEN, Paint, Screen, fit, paint

WORDS = st.text("x=|漢", min_size=1, max_size=50)
CELLS = st.one_of(WORDS, st.integers(0, 999), st.none())
COLUMNS = ["arch", "kernel", "key", "chosen_by"]
ROWS = st.lists(st.fixed_dictionaries(dict.fromkeys(COLUMNS, CELLS)), min_size=1, max_size=4)


def columns(text: str) -> int:
    """How many columns a terminal gives to a text."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


@contextmanager
def screen(width: int | None, *, has_colours: bool = False) -> Iterator[None]:
    token = SCREEN.set(Screen(width, has_colours))
    yield
    SCREEN.reset(token)


@given(ROWS, st.integers(60, 200))
def test_a_table_fits_and_loses_nothing(rows: list[dict[str, object]], width: int) -> None:
    with screen(width):
        text = fit(render_columns(rows, COLUMNS, "  "))
    for line in text.splitlines():
        assert columns(line) <= width or len(line.split(": ")[-1].split()) == 1  # a value alone is never broken
    values = [str(value) for row in rows for value in row.values() if value is not None]
    assert sorted(re.findall(r"[x=|漢0-9]+", text)) == sorted(values)  # no column's name has such a character


def test_wide_characters_take_two_columns() -> None:
    rows = [{"host": "節点", "rank": 0}, {"host": "node", "rank": 1}, {"host": "e\u0301", "rank": 2}]
    assert render_columns(rows, ["host", "rank"]) == "HOST  RANK\n節点  0\nnode  1\ne\u0301     2\n"


def test_columns_that_do_not_fit_follow_below_their_row() -> None:
    rows = [
        {"votes": 8, "config": "B=64", "key": "M=1|torch.bfloat16", "chosen_by": "ranks 0-7"},
        {"votes": 0, "config": "B=8", "key": "M=2|torch.bfloat16", "chosen_by": None},
    ]
    columns = ["votes", "config", "key", "chosen_by"]
    with screen(36):  # without the column that has fewer values, a row fits
        assert render_columns(rows, columns) == (
            "VOTES  CONFIG  KEY\n"
            "8      B=64    M=1|torch.bfloat16\n"
            "    chosen by: ranks 0-7\n"
            "0      B=8     M=2|torch.bfloat16\n"
        )
    with screen(20):
        assert render_columns(rows, columns).splitlines()[:4] == [
            "VOTES  CONFIG",
            "8      B=64",
            "    key: M=1|torch.bfloat16",
            "    chosen by: ranks 0-7",
        ]
    with screen(47):
        wide = render_columns(rows, columns)
    assert wide == render_columns(rows, columns)
    assert len(wide.splitlines()) == 3


@given(st.lists(WORDS, min_size=1), st.integers(0, 8), st.integers(20, 100))
def test_lines_end_between_words(words: list[str], indent: int, width: int) -> None:
    line = " " * indent + " ".join(words)
    with screen(width):
        lines = fit(line + "\n").splitlines()
    assert " ".join(lines).split() == words
    for one in lines:
        assert columns(one) <= width or len(one.split()) == 1
    assert all(one.startswith(" " * (indent + 4)) for one in lines[1:])


def test_colours_take_no_room() -> None:
    rows = [{"rank": 3, "outlier": "slow", "paint": {"rank": Paint.CAUTION, "outlier": Paint.BAD}}]
    plain = render_columns(rows, ["rank", "outlier"])
    with screen(80, has_colours=True):
        coloured = render_columns(rows, ["rank", "outlier"])
        line = f"{paint('a', Paint.STRONG)} {'b' * 78}"
        assert fit(line + "\n") == line + "\n"
    assert "\x1b[33m3\x1b[m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize("width", [None, 80])
def test_without_colours_there_are_no_sequences(width: int | None) -> None:
    with screen(width):
        assert paint("a", Paint.BAD) == "a"
