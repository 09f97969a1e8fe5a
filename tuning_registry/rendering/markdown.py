"""Tables for pull requests, in GitHub's Markdown.

Names come from outside. A cell that is not made of plain words is a code span, in which nothing is markup, a link, or a
mention of a person.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import dump_json

_WORD: Final = r"\(?(?:[A-Za-z]+(?:-[A-Za-z]+)*|[-+]?[0-9]+(?:[.,/-][0-9]+)*|%|->)\)?[:;,.]?"
_PLAIN_WORD: Final = re.compile(_WORD)
_PLAIN: Final = re.compile(f"{_WORD}(?: {_WORD})*")


def markdown_page(heading: str, table: str, notes: Iterable[str] = ()) -> str:
    """A heading, a table and a list of notes; what is empty is left out.

    Args:
        heading: A line of text; its names become code spans.
        table: Markdown.
        notes: Sentences, likewise.
    """
    parts = [f"### {sentence(heading)}\n" if heading else "", table, "".join(f"- {sentence(note)}\n" for note in notes)]
    return "\n".join(part for part in parts if part)


def markdown_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], sentences: Collection[str] = ()) -> str:
    """A table without its empty columns; nothing without rows. Long values are kept whole.

    Args:
        rows: The values by column.
        columns: Names; underscores become spaces. Configs are in columns whose name ends in `config`.
        sentences: Columns of text in which only the names become code spans.
    """
    shown = [name for name in columns if any(row[name] not in (None, [], "") for row in rows)]
    lines = [
        [name.replace("_", " ").capitalize() for name in shown],
        ["---"] * len(shown),
        *([sentence(row[name]) if name in sentences else _cell(name, row[name]) for name in shown] for row in rows),
    ]
    # A pipe ends a cell unless it is escaped, also inside a code span.
    escaped = ([cell.replace("|", r"\|") for cell in cells] for cells in lines)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in escaped) if rows else ""


def sentence(text: str) -> str:
    """Text in which each word that is not plain is a code span."""
    return " ".join(word if _PLAIN_WORD.fullmatch(word) else _code_word(word) for word in printable(text).split(" "))


def _code_word(word: str) -> str:
    name = word.rstrip(":;,.")
    return (_code(name) if name else "") + word[len(name) :]


def _cell(column: str, value: object) -> str:
    if isinstance(value, Mapping):
        value = dump_json(value)
    if value and column.endswith("config"):
        value = short_config(str(value))
    elif isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    elif isinstance(value, bool):
        value = "yes" if value else "no"
    text = "" if value is None else printable(str(value))
    return text if not text or _PLAIN.fullmatch(text) else _code(text)


def _code(text: str) -> str:
    """A code span, between more backticks than the text has."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{pad}{text}{pad}{fence}"
