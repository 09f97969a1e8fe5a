"""The parts of the reference that are made from the program itself.

A page asks for a part with a comment, `<!-- generated: commands -->`; `fill` puts it in when the site is built.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
_REQUEST: Final = re.compile(r"^<!-- generated: ([\w-]+)(?: (\S+))? -->$", re.MULTILINE)
_SECTION: Final = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Examples|Note):\s*$")
_FORWARD: Final = re.compile(r"ForwardRef\(([^()]*)\)")
_LINK: Final = re.compile(r"\]\((?!https?:|#|mailto:)([^)]+)\)")


def fill(markdown: str) -> str:
    """Replace every request of a page by the part it names.

    Raises:
        KeyError: No part has that name.
    """
    return _REQUEST.sub(lambda match: _PARTS[match[1]](*([match[2]] if match[2] else [])), markdown)


def commands() -> str:
    """Every command of the `registry` program with its options, in the order of its help."""
    from typer.main import get_command

    from tuning_registry.cli.app import app

    return "\n\n".join(_command(path, command) for path, command in walk_commands("registry", get_command(app)))


def walk_commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command and all below it, each with the words that call it."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from walk_commands(f"{path} {name}", child)


def _command(path: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    usage = [path, *(_metavar(p) for p in arguments)]
    usage += [f"{p.opts[0]} {_metavar(p)}" for p in options if p.required]
    usage += ["[OPTIONS]"] if any(not p.required for p in options) else []
    usage += ["COMMAND"] if getattr(command, "commands", None) else []
    lines = [f"## `{path}`", "", _flow(command.help or ""), "", "```text", " ".join(usage), "```", ""]
    if arguments or options:
        lines += ["| argument or option | meaning |", "| --- | --- |"]
        lines += [f"| {_cell(_signature(p))} | {_cell(_flow(_meaning(p)), code=False)} |" for p in [*arguments, *options]]
    if command.epilog:
        lines += ["", _epilog(command.epilog)]
    return "\n".join(lines)


def _metavar(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    annotation = parameter.type_descriptor.annotation
    if inspect.isclass(annotation) and issubclass(annotation, Enum):
        return "|".join(choice.value for choice in annotation)
    return str(parameter.name).upper()


def _signature(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _metavar(parameter)
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {_metavar(parameter)}"


def _meaning(parameter: Any) -> str:
    text = parameter.help or ""
    default = getattr(parameter.default, "value", parameter.default)
    if parameter.required:
        text += " Required."
    elif not getattr(parameter, "is_flag", False) and isinstance(default, str | int | float) and default != "":
        text += f" Default: `{default}`."
    return text


def _epilog(text: str) -> str:
    """The closing words of a command's help; examples, which are indented or begin with `$`, become a block."""
    lines = [line.strip() for line in inspect.cleandoc(text.replace("\b", "")).splitlines()]
    shown: list[str] = []
    for line in lines:
        is_code = line.startswith(("$ ", "registry "))
        if is_code and not (shown and shown[-1].startswith("    ")):
            shown += ["", "    " + line]
        else:
            shown.append("    " + line if is_code else line)
    return "\n".join(shown)


def settings() -> str:
    """Every policy field as an option and as a variable."""
    from tuning_registry.runtime.options import PREFIX, add_policy_options

    parser = argparse.ArgumentParser(add_help=False)
    add_policy_options(parser)
    lines = ["| option | variable | meaning |", "| --- | --- | --- |"]
    for action in parser._actions:  # noqa: SLF001  # argparse has no public list of its options
        name = action.option_strings[0]
        variable = "" if action.dest == "deterministic" else f"`{PREFIX}{action.dest.upper()}`"
        values = "|".join(map(str, action.choices)) if action.choices else action.metavar or ""
        names = ", ".join(action.option_strings) if not values else f"{', '.join(action.option_strings)} {values}"
        lines.append(f"| {_cell(names)} | {variable} | {_cell(_sentence(action.help or name), code=False)} |")
    return "\n".join(lines)


def errors() -> str:
    """Every error class with its parents and what it means."""
    module = importlib.import_module("tuning_registry.errors")
    classes = [c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == module.__name__]
    lines = ["| error | is also a | raised when |", "| --- | --- | --- |"]
    for error in classes:
        if issubclass(error, Exception):
            parents = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
            lines.append(f"| `{error.__name__}` | {parents} | {_summary(error)} |")
    return "\n".join(lines)


def api(module_name: str) -> str:
    """The public names of a module (its `__all__`), with signatures and docstrings."""
    module = importlib.import_module(module_name)
    parts = []
    for name in module.__all__:
        value = getattr(module, name)
        if name.startswith("__") or not (inspect.isclass(value) or callable(value)):
            continue
        if inspect.isclass(value) and issubclass(value, Exception):
            continue  # the page of errors has them
        parts.append(_documented(f"{module_name}.{name}", value, 3))
        if inspect.isclass(value):
            parts += [
                _documented(f"{name}.{member}", method, 4) for member, method in _methods(value) if inspect.getdoc(method)
            ]
    return "\n\n".join(parts)


def _methods(owner: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(owner).items():
        if not name.startswith("_"):
            plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if inspect.isfunction(plain) or isinstance(plain, property):
                yield name, plain


def _documented(name: str, value: Any, level: int) -> str:
    lines = [f"{'#' * level} `{name}`", ""]
    if not isinstance(value, property):
        lines += ["```text", _call(name.rpartition(".")[2], value), "```", ""]
    return "\n".join(lines + _docstring(inspect.getdoc(value) or ""))


def _call(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except ValueError:
        return name
    shown = [p for p in signature.parameters.values() if p.name not in {"self", "cls"}]
    shown = [p.replace(default=_Shown(p.default)) if p.default is not p.empty else p for p in shown]
    text = str(signature.replace(parameters=shown)).replace("'", "")
    if len(name + text) > 100:
        inner = ",\n".join(f"    {p}".replace("'", "") for p in _with_marks(shown))
        returns = text.rpartition(") -> ")[2] if ") -> " in text else ""
        text = f"(\n{inner},\n)" + (f" -> {returns}" if returns else "")
    return _FORWARD.sub(r"\1", name + text)


def _with_marks(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """Parameters as text, with the star that begins the keyword-only ones."""
    starred = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        yield str(parameter)


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
            lines.append(f"- `{name}`: {meaning}" if is_item else f"{line.strip()}")
        elif section and line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            section = section if not line.strip() else ""
            lines.append(line)
    return lines


def paper(name: str) -> str:
    """A file of the project's folder as a page of the site; its links are made relative to that page."""
    folder = (ROOT / name).parent

    def moved(match: re.Match[str]) -> str:
        target, _, anchor = match[1].partition("#")
        path = (folder / target).resolve().relative_to(ROOT).as_posix()
        page = PAPERS.get(path) or (f"../{path.removeprefix('docs/')}" if path.startswith("docs/") else None)
        return f"]({page}{'#' + anchor if anchor else ''})" if page else "](../index.md)"

    return _LINK.sub(moved, (ROOT / name).read_text())


# Files outside docs/ that are pages of the site, and the pages that show them.
PAPERS: Final = {
    "README.md": "../index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples/h200/README.md": "recordings.md",
}


def _summary(value: Any) -> str:
    return _flow((inspect.getdoc(value) or "").partition("\n\n")[0])


def _flow(text: str) -> str:
    return " ".join(text.replace("\b", "").split())


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:].replace("%%", "%")
    return text if text.endswith(".") else text + "."


def _cell(text: str, *, code: bool = True) -> str:
    escaped = text.replace("|", "\\|")
    return f"`{escaped}`" if code else escaped.replace("<", "&lt;").replace(" * ", " `*` ")


_PARTS: Final[dict[str, Callable[..., str]]] = {
    "commands": commands,
    "settings": settings,
    "errors": errors,
    "api": api,
    "paper": paper,
}
