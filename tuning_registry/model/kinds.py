"""Kinds of config: Triton's six fields, and what other tools launch with."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.model.canonical import check_launch_options, check_value, dump_json, load_config


class Kind(enum.StrEnum):
    """What a config is made of. Only Triton configs are in canonical tables."""

    TRITON = "triton"  # the six fields of `triton.Config`
    LAUNCH = "launch"  # named launch parameters, as a file states them: some may be missing
    TACTIC = "tactic"  # the runner that an op chose, and its tactic
    HELION = "helion"  # the fields of `helion.Config`


_OPENINGS: Final = {f'{{"{kind}": ': kind for kind in Kind if kind is not Kind.TRITON}


def kind_of(text: str) -> Kind:
    """The kind of a config, by its canonical text."""
    opening = text[: text.find(" ") + 1]
    return _OPENINGS.get(opening, Kind.TRITON)


def launch_text(parameters: object) -> str:
    """The canonical text of launch parameters: `{"launch": {"BLOCK_SIZE_M": 16, "num_warps": 4}}`.

    Equal parameters have equal texts, in whatever order a file states them. Nothing is added to what is stated.

    Raises:
        FormatError: They are not a JSON object with at least one name, or a launch option is out of range.
    """
    text = _text(Kind.LAUNCH, parameters)
    assert isinstance(parameters, Mapping)
    check_launch_options(parameters)
    return text


def helion_text(fields: object) -> str:
    """The canonical text of a Helion config: `{"helion": {"block_sizes": [64], "num_warps": 4}}`.

    Raises:
        FormatError: As for `launch_text`.
    """
    return _text(Kind.HELION, fields)


def tactic_text(runner: str, tactic: object, **more: object) -> str:
    """The canonical text of a tactic: `{"tactic": {"runner": "MoERunner", "tactic": [8, 34]}}`.

    Args:
        runner: Name of the runner's class.
        tactic: What it was given: an integer or nested lists; -1 is the op's own heuristic.
        more: Other fields that are part of the choice, such as a profiling policy.

    Raises:
        FormatError: A value is not JSON, or the runner has no name.
    """
    if not runner:
        raise FormatError("the runner has no name", ("runner",))
    return _text(Kind.TACTIC, {"runner": runner, "tactic": tactic, **more})


def fields_of(text: str) -> dict[str, Any]:
    """The named values of a config of any kind but Triton's.

    Raises:
        FormatError: `text` is not the canonical text of such a config.
    """
    kind = kind_of(text)
    if kind is Kind.TRITON:
        raise FormatError("expected a launch, tactic or helion config, found a Triton config")
    try:
        fields: dict[str, Any] = load_config(text)[kind]
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not the canonical text of a config: {error}") from error
    return fields


def _text(kind: Kind, fields: object) -> str:
    if not isinstance(fields, Mapping) or not fields:
        found = "an empty object" if isinstance(fields, Mapping) else describe(fields)
        raise FormatError(f"expected an object of {kind} parameters, found {found}")
    check_value(fields, ())
    return dump_json({str(kind): dict(fields)})
