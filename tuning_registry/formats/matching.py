"""Which live candidates a stored config means: equal fields, in any spelling that Triton cannot tell apart."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from tuning_registry.model.canonical import dump_json, live_config_text, load_config

C = TypeVar("C")

AMBIGUOUS: Final = "ambiguous config"
WHY_AMBIGUOUS: Final = (
    "several candidates have this config and differ only in their pre_hook, which no table can state; make them differ in "
    "a parameter"
)
_SPELT_TWICE: Final = ("true", "false", ".0", "e+")  # one of these is in every value that has another spelling


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
    """The one candidate that a canonical text means, or the reason why there is none.

    A candidate with exactly this text is preferred to one whose values are spelled differently. Candidates that differ
    only in their hooks are `ambiguous config`, because a text cannot tell them apart.
    """
    texts = [(candidate, live_config_text(candidate)) for candidate in candidates]
    matches = [candidate for candidate, live in texts if live == text]
    if not matches:
        wanted = value_text(text)
        matches = [candidate for candidate, live in texts if live is not None and value_text(live) == wanted]
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
