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

from docs._build.api import describe_module

ROOT: Final = Path(__file__).resolve().parents[2]
_REQUEST: Final = re.compile(r"^<!-- generated: ([\w-]+)(?: (\S+))? -->$", re.MULTILINE)
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
    from tuning_registry.runtime.policies.options import PREFIX, add_policy_options

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
    "examples/audit/README.md": "audits.md",
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
    "api": describe_module,
    "paper": paper,
}
