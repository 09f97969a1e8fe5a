"""Which live candidates a stored config means: equal fields, in any spelling that Triton cannot tell apart."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from tuning_registry.model.canonical import FIELDS, NEUTRAL, dump_json, live_config_text, load_config

C = TypeVar("C")

AMBIGUOUS: Final = "ambiguous config"
WHY_AMBIGUOUS: Final = (
    "several candidates have this config and differ only in their pre_hook, which a table cannot hold; make them differ "
    "in a parameter"
)
_SPELT_TWICE: Final = ("true", "false", ".0", "e+")  # one of these is in every value that has another spelling

# What the text of a live config depends on, beyond its kwargs and what it passes to a launch.
_FIELDS: Final = tuple(field for field in (*FIELDS[1:], *NEUTRAL) if field != "pre_hook")
_ABSENT: Final = object()
_EXACT: Final = frozenset({int, bool, str, type(None), object})  # equal values of one of these types have one text
_MOST_TEXTS: Final = 4096
_texts: dict[tuple[Any, ...], str | None] = {}


@functools.lru_cache(maxsize=4096)
def value_text(text: str) -> str:
    """The common spelling of configs that launch the same kernel: `true`, `1` and `1.0` all become `1`.

    Triton compares kernel parameters with `==`, so it cannot tell these values apart.

    Args:
        text: The canonical text of a config, or of a class of configs (`config_classes`).
    """
    if not any(part in text for part in _SPELT_TWICE):
        return text
    config = load_config(text)
    return dump_json({name: _plain(value) if name == "kwargs" else value for name, value in config.items()})


def matching_candidate(text: str, candidates: Iterable[C]) -> tuple[C | None, str]:
    """The one candidate that a canonical text means, or the reason why there is none (`match_text`)."""
    return match_text(text, [(candidate, live_text(candidate)) for candidate in candidates])


def live_text(candidate: Any) -> str | None:
    """`live_config_text`, remembered by everything that it depends on: a candidate's values may change."""
    try:
        kwargs, passed = candidate.kwargs, candidate.all_kwargs()
        values = (*kwargs.values(), *passed.values(), *(getattr(candidate, field, _ABSENT) for field in _FIELDS))
        types = tuple(map(type, values))
        if not _EXACT.issuperset(types):
            return live_config_text(candidate)
        state = (type(candidate), tuple(kwargs), tuple(passed), values, types)
    except Exception:  # noqa: BLE001 - a foreign object in a training job
        return live_config_text(candidate)
    text = _texts.get(state, "")
    if text == "":
        if len(_texts) >= _MOST_TEXTS:
            _texts.clear()
        text = _texts[state] = live_config_text(candidate)
    return text


def match_text(text: str, candidates: Sequence[tuple[C, str | None]]) -> tuple[C | None, str]:
    """The one candidate that a canonical text means, or the reason why there is none.

    A candidate with exactly this text is preferred to one whose values are spelled differently. Candidates that differ
    only in their hooks are `ambiguous config`, because a text cannot tell them apart.

    Args:
        text: The text.
        candidates: Live candidates with their canonical texts, if they have one.
    """
    matches = [candidate for candidate, live in candidates if live == text]
    if not matches:
        wanted = value_text(text)
        matches = [candidate for candidate, live in candidates if live is not None and value_text(live) == wanted]
    if not matches:
        return None, "not a candidate"
    hook = getattr(matches[0], "pre_hook", None)
    if any(getattr(other, "pre_hook", None) != hook for other in matches[1:]):
        return None, AMBIGUOUS
    return matches[0], ""


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    is_integral = isinstance(value, bool) or (isinstance(value, float) and value.is_integer())
    return int(value) if is_integral else value
