"""HTML that is escaped by construction: text becomes markup only through `element`."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final

from tuning_registry.errors import printable


class Markup(str):
    """Text that is HTML already. Everything else is escaped where it is put into an element."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]

_VOID: Final = frozenset({"br", "col", "input", "link", "meta", "path", "rect", "wbr"})
_CLOSED: Final = frozenset({"path", "rect"})  # void elements of SVG, which need the slash
_ENDED_BY_NEXT: Final = frozenset(
    {"dd", "dt", "li", "td", "th", "tr"}
)  # HTML lets their end tags out; pages have thousands
NOTHING: Final = Markup("")


def escape(text: str) -> Markup:
    """Text as HTML shows it, in an element or in a quoted attribute; control characters become visible escapes."""
    return Markup(html.escape(printable(text)))


def join(*children: Child) -> Markup:
    """Children one after another: markup as it is, text escaped, lists flattened, None left out."""
    parts: list[str] = []
    _collect(children, parts)
    return Markup("".join(parts))


def element(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """An element.

    Args:
        name: Its name.
        children: See `join`.
        attributes: A trailing underscore is dropped (`class_`), other underscores become hyphens (`data_label`); True
            gives an attribute without a value, None and False give none.
    """
    parts = ["<", name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        parts += [" ", key.rstrip("_").replace("_", "-")]
        if value is not True:
            parts += ['="', value if isinstance(value, Markup) else escape(str(value)), '"']
    parts.append("/>" if name in _CLOSED else ">")
    if name not in _VOID:
        _collect(children, parts)
        if name not in _ENDED_BY_NEXT:
            parts += ["</", name, ">"]
    return Markup("".join(parts))


def _collect(child: Child, parts: list[str]) -> None:
    if child is None:
        return
    if isinstance(child, Markup):
        parts.append(child)
    elif isinstance(child, str):
        parts.append(escape(child))
    elif isinstance(child, int):
        parts.append(str(child))
    else:
        for one in child:
            _collect(one, parts)
