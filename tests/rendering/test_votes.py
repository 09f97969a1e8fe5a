"""Disagreements as tables: every form says what is to know about an entry's votes."""

from __future__ import annotations

from typing import Any

import pytest

from tuning_registry.operations.election.tally import ConfigVotes, EntryVotes
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.votes import render_disagreements
from tuning_registry.rules.audits import Bits

CHOICES = tuple(
    ConfigVotes(config=f'{{"kwargs": {{"B": {size}}}, "num_stages": 3, "num_warps": 4}}', count=count)
    for size, count in ((16, 2), (32, 1))
)


def entry(**fields: Any) -> EntryVotes:
    return EntryVotes(arch="sm90", kernel="k", key="M=1", triton="", package="", version="", choices=CHOICES, **fields)


@pytest.mark.parametrize(
    ("fields", "notes"),
    [
        ({"bits": Bits.DIFFERENT}, ["different bits"]),
        ({"bits": Bits.EQUAL, "sources": 2}, ["2 versions of its code", "equal bits"]),
        ({"is_tie": True}, ["tie: decided by config text"]),
    ],
)
def test_markdown_has_the_marks_of_the_table(fields: dict[str, Any], notes: list[str]) -> None:
    split = [entry(**fields), entry()]
    table = render_disagreements(split, Format.table)
    assert all(table.count(f"[{note}]") == 1 for note in notes)
    heading, _, first, second, *others = render_disagreements(split, Format.markdown).splitlines()
    assert "| Notes |" in heading
    assert f"| {'; '.join(notes)} |" in first
    assert not any(note in line for note in notes for line in (second, *others))


def test_without_marks_there_is_no_column() -> None:
    assert "Notes" not in render_disagreements([entry()], Format.markdown)
