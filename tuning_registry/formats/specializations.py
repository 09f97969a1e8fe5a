"""What winners need to be compiled, in a recording: the object `compile` under `extra`, which only grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from tuning_registry.errors import FormatError, describe
from tuning_registry.formats.extra import read_part, without_part
from tuning_registry.model.canonical import config_text, parse_config
from tuning_registry.model.records import ByEntry
from tuning_registry.model.specializations import Specialization

T = TypeVar("T")

NAME: Final = "compile"  # in `extra`
_VERSION: Final = 1

# Canonical text of a config, and what its kernel needs to be compiled.
Compiled = tuple[str, Specialization]


def compile_document(
    entries: ByEntry[list[list[int]]], configs: Mapping[str, int], specializations: Mapping[Specialization, int]
) -> dict[str, Any]:
    """The object `compile` of a recording.

    Args:
        entries: Pairs of the number of a config and the number of a specialization, by entry.
        configs: The numbers of the canonical texts.
        specializations: The numbers of the specializations; entries share them.
    """
    return {
        "version": _VERSION,
        "configs": [parse_config(text) for text in configs],
        "specializations": [one.to_dict() for one in specializations],
        "entries": entries,
    }


def read_compiled(extra: Mapping[str, Any]) -> ByEntry[list[Compiled]]:
    """What a recording says about compiling its entries; nothing if it has no `compile`, or one of a newer version.

    Raises:
        FormatError: With the path to what is wrong.
    """

    def reader_of(document: Mapping[str, Any]) -> Callable[[object], list[Compiled]]:
        configs = _list_of(document, "configs", config_text)
        specializations = _list_of(document, "specializations", Specialization.from_dict)
        return lambda value: _pairs(value, configs, specializations)

    return read_part(extra, NAME, _VERSION, reader_of)


def without_compiled(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The `extra` of a recording without what `read_compiled` returns."""
    return without_part(extra, NAME, _VERSION)


def _list_of(document: Mapping[str, Any], field: str, read: Callable[[Any], T]) -> list[T]:
    value = document.get(field)
    if not isinstance(value, list):
        raise FormatError(f"expected an array, found {describe(value)}", (field,))
    found = []
    for place, item in enumerate(value):
        try:
            found.append(read(item))
        except FormatError as fault:
            raise fault.under(field, str(place)) from fault
    return found


def _pairs(value: object, configs: list[str], specializations: list[Specialization]) -> list[Compiled]:
    if not isinstance(value, list):
        raise FormatError(f"expected an array, found {describe(value)}")
    found = []
    for place, pair in enumerate(value):
        is_pair = isinstance(pair, list) and len(pair) == 2 and all(type(number) is int for number in pair)
        if not is_pair or not (0 <= pair[0] < len(configs) and 0 <= pair[1] < len(specializations)):
            raise FormatError("expected the numbers of a config and a specialization", (str(place),))
        found.append((configs[pair[0]], specializations[pair[1]]))
    return found
