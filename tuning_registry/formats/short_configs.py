"""Configs as people read and type them: `BLOCK=64 num_warps=4 num_stages=3`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tuning_registry.errors import FormatError, UsageError, printable
from tuning_registry.formats.config_classes import class_text, is_class, is_partial
from tuning_registry.formats.files import parse_json
from tuning_registry.model.canonical import DEFAULTS, FIELDS, config_text, dump_json, load_config, parse_config
from tuning_registry.model.kinds import Kind, fields_of, kind_of

_MAX_SHOWN_BITS = 1000
_CONSTANTS = {"True": True, "False": False, "None": None}


def short_config(text: str) -> str:
    """A config as people read it: kernel parameters, then launch options that are not at their default.

    Of a class of configs, the fields that it states. Of a tactic, the runner and its tactic.
    """
    kind = kind_of(text)
    if kind is not Kind.TRITON:
        return _short_fields(kind, fields_of(text))
    is_open = is_class(text)
    config = load_config(text) if is_open else parse_config(text)
    parts = [f"{name}={_short_value(value)}" for name, value in config.pop("kwargs", {}).items()]
    launch = [
        name
        for name in FIELDS[1:]
        if name in config and (is_open or name not in DEFAULTS or config[name] != DEFAULTS[name])
    ]
    return " ".join([*parts, *(f"{name}={_short_value(config[name])}" for name in launch)])


def _short_fields(kind: Kind, fields: dict[str, Any]) -> str:
    first = [str(fields.pop("runner")), _short_value(fields.pop("tactic"))] if kind is Kind.TACTIC else []
    return " ".join([*first, *(f"{name}={_short_value(value)}" for name, value in fields.items())])


def _short_value(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _MAX_SHOWN_BITS:
        return f"(an integer of {value.bit_length():,} bits)"
    return str(value) if isinstance(value, str | int | float | None) else dump_json(value)


def title_of(text: str) -> str:
    """A config for a sentence: `B=64 num_warps=4 num_stages=3`, or `every config with num_warps=8` for a class."""
    return f"every config with {short_config(text)}" if is_class(text) else short_config(text)


def find_config(argument: str, known: Iterable[str], *, classes: bool = False) -> str:
    """The canonical text of a config given as JSON, or in the short form of a known config.

    Args:
        argument: A JSON object (`num_ctas`, `maxnreg` and `ir_override` are optional), or a short form.
        known: Canonical texts that a short form can mean.
        classes: Accept a class of configs: JSON without a field that every config needs, or a short form that is not
            that of a known config.

    Raises:
        UsageError: It is neither.
    """
    if argument.lstrip().startswith("{"):
        try:
            fields = parse_json(argument.encode(errors="surrogatepass"), "config")
            return class_text(fields) if classes and is_partial(fields) else config_text(fields)
        except FormatError as error:
            raise UsageError(f"not a config: {error}; registry explain --format json shows complete ones") from error
    wanted = " ".join(argument.split())
    shown = {text: " ".join(short_config(text).split()) for text in sorted(known)}
    found = [text for text, short in shown.items() if short == wanted]
    if len(found) != 1:
        if found:
            raise UsageError(f"{argument!r} matches {len(found)} recorded configs; give it as JSON, as registry explain "
                             "--format json shows it")  # fmt: skip
        if classes and "=" in argument:
            return _parse_class(argument)
        example = f", such as {printable(next(iter(shown.values())))}" if shown else ""
        raise UsageError(
            f"{argument!r} is not a recorded config. registry explain lists them{example}; for one that was never "
            "recorded, give JSON and --force"
        )
    return found[0]


def _parse_class(argument: str) -> str:
    """The class that a short form means: `num_warps=8`, `BLOCK_M=32 num_stages=3`."""
    fields: dict[str, Any] = {}
    for part in argument.split():
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise UsageError(f"{argument!r} is not a config: expected NAME=VALUE, found {part!r}")
        place = fields if name in FIELDS[1:] else fields.setdefault("kwargs", {})
        place[name] = _parse_value(value)
    try:
        return class_text(fields)
    except FormatError as error:
        raise UsageError(f"{argument!r} is not a config: {error}") from error


def _parse_value(text: str) -> Any:
    """The value that `_short_value` shows as this text."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    try:
        return parse_json(text.encode(errors="surrogatepass"), "value")
    except FormatError:
        return text
