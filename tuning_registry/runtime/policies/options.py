"""Policies from text: environment variables and command-line options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from tuning_registry.errors import FormatError
from tuning_registry.locations import absolute_location, split_paths
from tuning_registry.runtime.guard import warn_once
from tuning_registry.runtime.policies.fields import Declaration, declaration_of
from tuning_registry.runtime.policies.policy import AutotunePolicy

if TYPE_CHECKING:
    import argparse

PREFIX: Final = "TUNING_REGISTRY_"
# Variables that the rest of the package reads.
_FOREIGN: Final = frozenset({"TUNING_REGISTRY_DB"})
DECLARATIONS: Final[Mapping[str, Declaration]] = {f.name: declaration_of(f) for f in fields(AutotunePolicy)}


def policy_from_environment(environ: Mapping[str, str] | None = None) -> AutotunePolicy:
    """The policy that `TUNING_REGISTRY_*` variables state (see `environment_fields`).

    Raises:
        FormatError: A value is not accepted; `path` begins with the name of the variable.
    """
    return _policy_of(environment_fields(environ), {})


def policy_from_options(namespace: argparse.Namespace) -> AutotunePolicy:
    """The policy that the environment and parsed options state; options take precedence.

    Raises:
        FormatError: A value is not accepted; `path` begins with the name of the variable or option.
    """
    return _policy_of(environment_fields(), option_fields(namespace))


def environment_fields(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The policy fields that `TUNING_REGISTRY_*` variables state; an empty variable counts as unset.

    The name of a variable is the field's name in capitals: `TUNING_REGISTRY_MODULES=fla,mamba_ssm`,
    `..._BLOCK_SIZES=BLOCK_M=64,BLOCK_N=32` (or a JSON object), `..._CHAOS=1`, and so on. A variable with
    this prefix that matches no field is most likely a typo and is logged as a warning.

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
        if name not in DECLARATIONS:
            warn_once(variable, "ignoring the variable %s: there is no policy field of this name", variable)
        elif text.strip():
            stated[name] = _parsed(name, text.strip(), variable)
    return stated


def variable_of(name: str) -> str:
    """The environment variable of a policy field."""
    return PREFIX + name.upper()


def flag_of(name: str) -> str:
    """The command-line option of a policy field."""
    return "--" + name.replace("_", "-")


def add_policy_options(parser: argparse.ArgumentParser) -> None:
    """Add one option per policy field to `parser`: `--record-path`, `--on-miss`, ..., and `--deterministic`."""
    for name, declared in DECLARATIONS.items():
        flags = [flag_of(name)]
        if name == "run":
            flags.append("--run-name")  # torchrun reads --run as an abbreviation of one of its own options
        help_text = declared.help.replace("%", "%%")
        if declared.is_switch:
            parser.add_argument(*flags, dest=name, action="store_const", const=True, help=help_text)
        elif declared.choices:
            parser.add_argument(*flags, dest=name, choices=declared.choices, help=help_text)
        else:
            action = "append" if declared.separator else "store"
            parser.add_argument(*flags, dest=name, action=action, metavar=declared.metavar, help=help_text)
    parser.add_argument(
        "--deterministic", action="store_true", help="Request determinism: pin kernels unless --mode is given."
    )


def option_fields(namespace: argparse.Namespace) -> dict[str, Any]:
    """The policy fields that parsed options state.

    Raises:
        FormatError: A value cannot be read; `path` names the option.
    """
    return {name: _parsed(name, text, flag_of(name)) for name, text in _texts(namespace).items()}


def option_variables(namespace: argparse.Namespace, policy: AutotunePolicy) -> dict[str, str]:
    """Parsed options as environment variables, for child processes that may run in another folder.

    Args:
        namespace: The options.
        policy: The policy that the options and the environment state together.
    """
    stated = _texts(namespace)
    if namespace.deterministic and policy.mode is None and policy.record_path is None:
        stated["mode"] = "pinned"
    if "record_path" in stated:
        stated["record_path"] = absolute_location(stated["record_path"])
    if "table_path" in stated:
        paths = split_paths(stated["table_path"])
        stated["table_path"] = os.pathsep.join(absolute_location(path) for path in paths)
    return {variable_of(name): text for name, text in stated.items()}


def _policy_of(variables: Mapping[str, Any], options: Mapping[str, Any]) -> AutotunePolicy:
    """The policy of these fields; an error names the variable or option that it came from."""
    try:
        return AutotunePolicy.from_mapping({**variables, **options})
    except FormatError as fault:
        name, *place = fault.path
        is_variable = name in variables and name not in options
        # A missing record path, which mode record requires, comes from neither.
        shown = variable_of(name) if is_variable or not options else flag_of(name)
        raise FormatError(fault.what, (shown, *place)) from None


def _parsed(name: str, text: str, place: str) -> Any:
    try:
        return DECLARATIONS[name].parse(text)
    except FormatError as fault:
        raise fault.under(place) from None


def _texts(namespace: argparse.Namespace) -> dict[str, str]:
    """The values of parsed options as variables would state them; a repeated option is joined to one list."""
    texts: dict[str, str] = {}
    for name, declared in DECLARATIONS.items():
        value = getattr(namespace, name)
        if value is not None:
            texts[name] = "1" if declared.is_switch else declared.separator.join(value) if declared.separator else value
    return texts
