"""The terminal that text is for: its width and its colours. Without one, text is written as it is.

Nothing is cut, and no line ends inside a name, a key or a config value: a terminal wraps these itself, so that they can be
copied whole. A colour repeats what the text says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;]*m")
_HANGING: Final = " " * 4  # further than its line begins


class Paint(StrEnum):
    """What a colour means, as the parameters of its ANSI sequence."""

    STRONG = "1"  # the elected config, and headings
    BAD = "1;31"  # a conflict, a problem, a failure
    CAUTION = "33"  # worth a look: an outlier, a ban, a tie
    REMOVED = "31"
    ADDED = "32"


@dataclass(frozen=True, slots=True)
class Screen:
    """Where text is shown.

    Attributes:
        width: Columns of the terminal; None if the output is not a terminal.
        has_colours: Whether it shows colours.
    """

    width: int | None = None
    has_colours: bool = False


SCREEN: Final[ContextVar[Screen]] = ContextVar("screen", default=Screen())  # noqa: B039  # frozen


def paint(text: str, style: Paint | None) -> str:
    """The text in a colour, if the screen has any; call it with what is already printable."""
    return coloured(text, style) if style and text and SCREEN.get().has_colours else text


def coloured(text: str, style: Paint) -> str:
    """The text in a colour, for a terminal that has colours."""
    return f"\x1b[{style}m{text}\x1b[m"


def fit(text: str) -> str:
    """The text with its lines wrapped between words at the width of the screen."""
    width = SCREEN.get().width
    return text if width is None else "".join(f"{part}\n" for line in text.splitlines() for part in _wrap(line, width))


def _wrap(line: str, width: int) -> Iterable[str]:
    if shown_length(line) <= width:
        return [line]
    words = re.findall(r" *[^ ]+", line)  # each with the spaces before it
    indent = " " * (len(line) - len(line.lstrip(" "))) + _HANGING
    lines = [""]
    for word in words:
        if lines[-1] and shown_length(lines[-1] + word) > width:
            lines.append(indent + word.lstrip(" "))
        else:
            lines[-1] += word
    return lines


def shown_length(text: str) -> int:
    """How many columns a printable text takes, without the sequences of `paint`."""
    return columns_of(_SEQUENCE.sub("", text))


def columns_of(text: str) -> int:
    """How many columns a printable text takes: two for a wide character, such as a Chinese one, none for an accent."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - for other text only: `Registry` does not load it

    return cell_len(text)


def pad(text: str, width: int, style: Paint | None = None) -> str:
    """The text in a colour, filled with spaces to a number of columns."""
    return paint(text, style) + " " * (width - columns_of(text))
