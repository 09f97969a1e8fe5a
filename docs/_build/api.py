"""The reference of the Python API, made from signatures and docstrings."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from typing import Any, Final

_SECTION: Final = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Examples|Note):\s*$")
_FORWARD: Final = re.compile(r"ForwardRef\(([^()]*)\)")
_PACKAGE: Final = "tuning_registry"
_WIDTH: Final = 100


def describe_module(module_name: str) -> str:
    """The public names of a module (its `__all__`), and below them the types that they take and return."""
    module = importlib.import_module(module_name)
    public = {name: getattr(module, name) for name in module.__all__ if not name.startswith("__")}
    public = {name: value for name, value in public.items() if callable(value) and not _is_error(value)}
    parts = [part for name, value in public.items() for part in _describe(f"{module_name}.{name}", value)]
    others = {value.__name__: value for value in _types_of(public.values())}
    if others:
        parts.append(f"### Types of {module_name}\n\nThey are returned or taken by the above and need no import.")
        parts += [part for name in sorted(others) for part in _describe(name, others[name], 4)]
    return "\n\n".join(parts)


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)  # the page of errors has them


def _types_of(values: Any) -> list[type]:
    """Classes of the package in signatures and fields, except those in `values`."""
    known = [value for value in values if inspect.isclass(value)]
    found: list[type] = []
    pending = [hint for value in values for hint in _hints(value)]
    while pending:
        hint = pending.pop()
        pending += typing.get_args(hint)
        is_ours = inspect.isclass(hint) and hint.__module__.startswith(_PACKAGE) and not _is_error(hint)
        if is_ours and hint not in known and hint not in found:
            found.append(hint)
            pending += _hints(hint)
    return found


def _hints(value: Any) -> list[Any]:
    """The types in a function's signature, or in a class's fields and methods."""
    members = [value] if not inspect.isclass(value) else [value, *(method for _, method in _methods(value))]
    functions = [member.fget if isinstance(member, property) else member for member in members]
    hints: list[Any] = []
    for function in functions:
        try:
            named = typing.get_type_hints(function)
        except (NameError, TypeError):  # types that only a type checker knows
            continue
        hints += [hint for name, hint in named.items() if not name.startswith("_")]
    return hints


def _describe(name: str, value: Any, level: int = 3) -> Iterator[str]:
    """A function, or a class with its methods."""
    yield _described(name, value, level)
    if inspect.isclass(value):
        for member, method in _methods(value):
            if inspect.getdoc(method):
                yield _described(f"{name.rpartition('.')[2]}.{member}", method, level + 1)


def _methods(owner: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(owner).items():
        if not name.startswith("_"):
            plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if inspect.isfunction(plain) or isinstance(plain, property):
                yield name, plain


def _described(name: str, value: Any, level: int) -> str:
    lines = [f"{'#' * level} `{name}`", ""]
    if not isinstance(value, property) and not typing.is_typeddict(value):
        lines += ["```text", _call(name.rpartition(".")[2], value), "```", ""]
    text = inspect.getdoc(value) or ""
    generated = dataclasses.is_dataclass(value) and text.startswith(f"{getattr(value, '__name__', name)}(")
    return "\n".join(lines + ([] if generated else _docstring(text)))


def _call(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except ValueError:
        return name
    shown = [p for p in signature.parameters.values() if p.name not in {"self", "cls"}]
    shown = [p.replace(default=_Shown(p.default)) if p.default is not p.empty else p for p in shown]
    inner = [*_with_marks(shown, sys.modules[value.__module__])]
    returns = str(signature.replace(parameters=[])).removeprefix("()") if not inspect.isclass(value) else ""
    text = f"{name}({', '.join(inner)}){returns}"
    if len(text) > _WIDTH:
        text = f"{name}(\n" + "".join(f"    {p},\n" for p in inner) + f"){returns}"
    return _FORWARD.sub(r"\1", text.replace("'", ""))


def _with_marks(parameters: list[inspect.Parameter], module: Any) -> Iterator[str]:
    """Parameters as text: a star before the keyword-only ones, and `**filters` as the keywords it stands for."""
    starred = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    for parameter in parameters:
        keywords = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        if (parameter.kind is parameter.KEYWORD_ONLY or keywords) and not starred:
            starred = True
            yield "*"
        if keywords and hasattr(module, keywords[1]):
            for name, hint in typing.get_type_hints(getattr(module, keywords[1])).items():
                yield f"{name}: {_hint(hint)} = ..."
        else:
            yield str(parameter)


def _hint(hint: Any) -> str:
    return hint.__name__ if inspect.isclass(hint) else re.sub(r"\b(typing|collections\.abc)\.", "", str(hint))


class _Shown:
    """A default value as a reader understands it."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        value = self._value
        if type(value).__repr__ is object.__repr__ or "factory" in repr(value) or " at 0x" in repr(value):
            return "..."
        return f'"{value}"' if isinstance(value, str) else repr(value)


def _docstring(text: str) -> list[str]:
    """A Google docstring as Markdown: its sections become lists."""
    lines: list[str] = []
    section = ""
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section = match[1]
            lines += [f"**{section}**", ""]
        elif section and line.startswith("    ") and not line.startswith("     "):
            name, colon, meaning = line.strip().partition(": ")
            is_item = colon and re.fullmatch(r"\*{0,2}[\w., ]+( \(.*\))?", name) and section not in {"Returns", "Yields"}
            lines.append(f"- `{name}`: {meaning}" if is_item else line.strip())
        elif section and line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            section = section if not line.strip() else ""
            lines.append(line)
    return lines
