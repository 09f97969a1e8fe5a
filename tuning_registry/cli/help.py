"""How help and usage errors look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from tuning_registry.errors import printable

_EXPECTED = {"int_parsing": "an integer", "int_from_float": "an integer", "float_parsing": "a number"}


def examples_text(examples: Sequence[str]) -> str | None:
    """The end of a command's help."""
    lines = [f"$ {example}".replace("[", r"\[") for example in examples]  # brackets are markup
    return "\n".join(["Examples:", *lines]) if lines else None


def _without_types(params: list[Any]) -> list[Any]:
    """Leave out Typer's names of Python types: a flag is not followed by `<bool>`, nor an argument by `<path>`."""
    for param in params:
        if isinstance(param, TyperArgument):
            param.display_type_rich = _no_type  # type: ignore[method-assign]
        elif getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


def _no_type(ctx: Any) -> None:
    """Take the place of `TyperArgument.display_type_rich`."""


class Command(TyperCommand):
    """A command whose help names no Python types."""

    def get_params(self, ctx: Any) -> Any:
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands, likewise."""

    def get_params(self, ctx: Any) -> Any:
        return _without_types(super().get_params(ctx))


def reword(error: typer.BadParameter) -> None:
    """Turn the validation library's message about a value into ours."""
    details: list[Any] = getattr(error.__cause__, "errors", list)()
    expected = _EXPECTED.get(details[0]["type"]) if details else None
    if expected is not None:
        error.message = f"expected {expected}, found {printable(repr(details[0]['input']))}."
    error.message = error.message.removeprefix("Value error, ")
