"""Parts of a recording's `extra`: each states its version, and readers ignore the parts of newer versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats.sections import read_entries
from tuning_registry.model.records import ByEntry

T = TypeVar("T")


def read_part(
    extra: Mapping[str, Any],
    name: str,
    version: int,
    reader_of: Callable[[Mapping[str, Any]], Callable[[object], T]],
) -> ByEntry[T]:
    """The entries of a part; none if there is no such part, or one of a newer version.

    Args:
        extra: The `extra` of a recording.
        name: Name of the part.
        version: The version that is read.
        reader_of: Reads what the entries share, and returns what reads one entry.

    Raises:
        FormatError: With the path to what is wrong.
    """
    document = extra.get(name)
    if document is None:
        return {}
    try:
        if not isinstance(document, dict):
            raise FormatError(f"expected an object, found {describe(document)}")
        if document.get("version") != version:
            return {}
        reader = reader_of(document)
        try:
            return read_entries(document.get("entries"), reader)
        except FormatError as fault:
            raise fault.under("entries") from fault
    except FormatError as fault:
        raise fault.under(name).under("extra") from fault


def without_part(extra: Mapping[str, Any], name: str, version: int) -> dict[str, Any]:
    """The `extra` of a recording without a part that `read_part` reads."""
    is_read = isinstance(extra.get(name), dict) and extra[name].get("version") == version
    return {other: value for other, value in extra.items() if not (is_read and other == name)}
