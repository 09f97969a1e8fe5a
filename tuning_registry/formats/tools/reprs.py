"""Text that Python's `repr` wrote into the files of other tools, taken apart without evaluating it."""

from __future__ import annotations

import itertools
import re
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.model.canonical import MAX_DEPTH, parse_integer

_TOKEN: Final = re.compile(
    r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|[()\[\]{},]|[^'"()\[\]{},]+""", re.DOTALL
)
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSERS: Final = frozenset(_CLOSING.values())
_INTEGER: Final = re.compile(r"-?[0-9]+")
_FLOAT: Final = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?(e[+-]?[0-9]{1,4})?")
_NAMES: Final = {"True": True, "False": False, "None": None}
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}


def items_of(text: str) -> list[str]:
    """The items of a tuple or list, each as the text that it has there.

    Items may be anything: `('op', (1, -1), (torch.bfloat16, 16))` has three.

    Raises:
        FormatError: It is not a tuple or list, a bracket or quote is not closed, or it is nested too deeply.
    """
    if text[:1] not in {"(", "["}:
        raise FormatError(f"expected a tuple as Python writes it, found {describe(text)}")
    cuts = _cuts(text)
    items = [text[start + 1 : end].strip() for start, end in itertools.pairwise(cuts)]
    if items[-1] == "":  # after the comma of `(1,)`, or all of `()`
        items.pop()
    if "" in items:
        raise FormatError(f"an item is missing in {describe(text)}")
    return items


def _cuts(text: str) -> list[int]:
    """Where the outermost bracket opens and closes, and the commas directly in it."""
    cuts: list[int] = []
    still_open: list[str] = []
    end = 0
    for match in _TOKEN.finditer(text):
        part, level = match[0], len(still_open)
        if match.start() != end or (cuts and not level):  # a quote that is not closed, or text after the bracket
            break
        end = match.end()
        if part in _CLOSING:
            still_open.append(_CLOSING[part])
        elif part in _CLOSERS and still_open.pop() != part:
            break
        if level > MAX_DEPTH:
            raise FormatError(f"nested more than {MAX_DEPTH} levels deep")
        if not level or not still_open or (level == 1 and part == ","):
            cuts.append(match.start())
    else:
        if not still_open and end == len(text):
            return cuts
    raise FormatError(f"a bracket or quote is not closed in {describe(text)}")


def string_of(text: str) -> str:
    """The string that a literal such as `'fp4_gemm'` spells.

    Raises:
        FormatError: It is not a string literal, or has an escape that `repr` writes for unprintable characters.
    """
    if len(text) < len("''") or text[0] not in "'\"" or _TOKEN.fullmatch(text) is None:
        raise FormatError(f"expected a string in quotes, found {describe(text)}")
    body = text[1:-1]
    if "\\" not in body:
        return body
    if any(match[1] not in _ESCAPES for match in _ESCAPE.finditer(body)):
        raise FormatError(f"unsupported escape sequence in {describe(text)}")
    return _ESCAPE.sub(lambda match: _ESCAPES[match[1]], body)


def value_of(text: str) -> Any:
    """The value of a literal, with lists for tuples: `((128, 64), True)` gives `[[128, 64], True]`.

    Raises:
        FormatError: It is not a number, string, boolean, None, tuple or list of such.
    """
    text = text.strip()
    if text[:1] in _CLOSING:
        return [value_of(item) for item in items_of(text)]
    if text in _NAMES:
        return _NAMES[text]
    if _INTEGER.fullmatch(text):
        return parse_integer(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return string_of(text)
