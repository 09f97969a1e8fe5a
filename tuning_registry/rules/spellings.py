"""Configs that differ in spelling alone: Triton compiles `True`, `1` and `1.0` as one value of a parameter."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from tuning_registry.model.canonical import config_text, parse_config
from tuning_registry.model.kinds import Kind, kind_of


@functools.lru_cache(maxsize=4096)
def one_spelling(text: str) -> str:
    """The canonical text of a config with every parameter that equals an integer written as that integer."""
    if kind_of(text) is not Kind.TRITON:
        return text
    config = parse_config(text)
    return config_text({**config, "kwargs": {name: _plain(value) for name, value in config["kwargs"].items()}})


def alike(texts: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of configs that Triton cannot tell apart, each sorted."""
    groups: dict[str, set[str]] = {}
    for text in texts:
        groups.setdefault(one_spelling(text), set()).add(text)
    return [tuple(sorted(group)) for group in groups.values() if len(group) > 1]


def _plain(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value
