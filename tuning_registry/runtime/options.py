"""Policy fields from text: environment variables and command-line options."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tuning_registry.errors import FormatError, RecordingError
from tuning_registry.formats.files import parse_json
from tuning_registry.locations import absolute_location
from tuning_registry.runtime.guard import warn_once

if TYPE_CHECKING:
    import argparse

    from tuning_registry.runtime.policy import AutotunePolicy

MODES: Final = ("auto", "pinned", "record")
ON_MISS: Final = ("min_cost", "error")
PREFIX: Final = "TUNING_REGISTRY_"
# Variables of the other half of the package: not ours to judge.
_FOREIGN: Final = frozenset({"TUNING_REGISTRY_DB"})
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


def environment_fields(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The policy fields that `TUNING_REGISTRY_*` variables state; an empty variable states nothing.

    `TUNING_REGISTRY_MODULES=fla,mamba_ssm`, `..._BLOCK_SIZES=BLOCK_M=64,BLOCK_N=32` (or a JSON object),
    `..._CHAOS=1`, and so on: the field's name in capitals. A variable with our prefix that is no field is
    a warning, since it is most likely a slip.

    Args:
        environ: Defaults to the environment of the process.

    Raises:
        FormatError: A value cannot be read; `path` names the variable.
    """
    variables = os.environ if environ is None else environ
    stated: dict[str, Any] = {}
    for variable, text in sorted(variables.items()):
        if not variable.startswith(PREFIX) or variable in _FOREIGN:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in _PARSERS:
            warn_once(variable, "the variable %s is no policy field and is not used", variable)
        elif text.strip():
            try:
                stated[name] = _PARSERS[name](text.strip())
            except FormatError as fault:
                raise fault.under(variable) from None
    return stated


def flag_of(name: str) -> str:
    """The command-line option of a policy field."""
    return "--" + name.replace("_", "-")


def add_policy_options(parser: argparse.ArgumentParser) -> None:
    """Give `parser` one option per policy field: `--record-path`, `--on-miss`, ..., and `--deterministic`."""
    for name in _PARSERS:
        flags = [flag_of(name)]
        if name == "run":
            flags.append("--run-name")  # torchrun takes --run for the beginning of an option of its own
        if name in _FLAGS:
            parser.add_argument(*flags, dest=name, action="store_const", const=True, help=_HELP[name])
        elif name in _CHOICES:
            parser.add_argument(*flags, dest=name, choices=_CHOICES[name], help=_HELP[name])
        else:
            action = "append" if name in _SEPARATORS else "store"
            parser.add_argument(*flags, dest=name, action=action, metavar=_METAVAR.get(name, "TEXT"), help=_HELP[name])
    parser.add_argument("--deterministic", action="store_true", help="pin kernels unless --mode says otherwise")


def option_fields(namespace: argparse.Namespace) -> dict[str, Any]:
    """The policy fields that parsed options state.

    Raises:
        FormatError: A value cannot be read; `path` names the option.
    """
    stated: dict[str, Any] = {}
    for name, text in _texts(namespace).items():
        try:
            stated[name] = _PARSERS[name](text)
        except FormatError as fault:
            raise fault.under(flag_of(name)) from None
    return stated


def option_variables(namespace: argparse.Namespace, policy: AutotunePolicy) -> dict[str, str]:
    """The variables that state what parsed options do, for processes with another current folder.

    Args:
        namespace: The options.
        policy: What they and the environment state together.
    """
    stated = _texts(namespace)
    if namespace.deterministic and policy.mode is None and policy.record_path is None:
        stated["mode"] = "pinned"
    if "record_path" in stated:
        stated["record_path"] = absolute_location(stated["record_path"])
    if "table_path" in stated:
        paths = stated["table_path"].split(os.pathsep)
        stated["table_path"] = os.pathsep.join(absolute_location(path) for path in paths if path)
    return {PREFIX + name.upper(): text for name, text in stated.items()}


def _texts(namespace: argparse.Namespace) -> dict[str, str]:
    """What parsed options state, as a variable would; an option that was given several times is one list."""
    given = {name: getattr(namespace, name) for name in _PARSERS if getattr(namespace, name) is not None}
    return {
        name: "1" if name in _FLAGS else _SEPARATORS[name].join(value) if name in _SEPARATORS else value
        for name, value in given.items()
    }


def _flag(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise FormatError(f"expected 1 or 0, found {text!r}")
    return text.lower() in _TRUE


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise FormatError(f"expected an integer, found {text[:40]!r}") from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _paths(text: str) -> str | tuple[str, ...]:
    parts = tuple(part for part in text.split(os.pathsep) if part)
    return parts[0] if len(parts) == 1 else parts


def _sizes(text: str) -> dict[str, Any]:
    if text.startswith("{"):
        try:
            parsed = parse_json(text.encode("utf-8", "surrogateescape"), "block sizes")
        except RecordingError as fault:
            raise FormatError(fault.what, fault.path) from None
        assert isinstance(parsed, dict)
        return parsed
    sizes: dict[str, Any] = {}
    for pair in _names(text):
        name, equals, value = pair.partition("=")
        if not equals or name in sizes:
            raise FormatError(f"expected NAME=INTEGER[,NAME=INTEGER...], each name once, found {text!r}")
        sizes[name.strip()] = _integer(value.strip())
    return sizes


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "mode": str,
    "modules": _names,
    "table_path": _paths,
    "record_path": str,
    "on_miss": str,
    "block_sizes": _sizes,
    "config_invariant": _names,
    "verify_every": _integer,
    "verify_strict": _flag,
    "enumerate_autotuners": _flag,
    "chaos": _flag,
    "run": str,
    "source": str,
    "arch": str,
}
_FLAGS: Final = frozenset(name for name, parse in _PARSERS.items() if parse is _flag)
# Of fields that are lists; options of these may be repeated.
_SEPARATORS: Final = {"table_path": os.pathsep, **dict.fromkeys(("modules", "config_invariant", "block_sizes"), ",")}
_CHOICES: Final = {"mode": MODES, "on_miss": ON_MISS}
_METAVAR: Final = {"verify_every": "STEPS", "table_path": f"PATH[{os.pathsep}PATH...]", "record_path": "PREFIX|URL", "modules": "NAME[,NAME...]",
                   "config_invariant": "KERNEL[,KERNEL...]", "block_sizes": "NAME=INT[,NAME=INT...]"}  # fmt: skip
_HELP: Final = {
    "mode": "what to do; without it: record if a record path is given, pinned with --deterministic, else auto",
    "modules": "packages whose kernels are in scope (default: all)",
    "table_path": "table files or folders of tables, searched before the usual places; may be repeated",
    "record_path": "prefix of the recording files, or a database URL",
    "on_miss": "a pinned kernel without an entry: launch the cheapest candidate, or raise",
    "block_sizes": "launch parameters that stand in for a missing entry",
    "config_invariant": "kernels whose config cannot change values",
    "verify_every": "steps between agreement checks of maybe_verify_choices",
    "verify_strict": "a disagreement between ranks raises",
    "enumerate_autotuners": "log every autotuner that is reached, and a report at exit",
    "chaos": "make ranks differ on purpose (positive control)",
    "run": "name of the job in recordings (under torchrun: --run-name)",
    "source": "free text kept in recordings",
    "arch": "architecture to use instead of the detected one",
}
