"""Configs as people read and type them: `BLOCK=64 num_warps=4 num_stages=3`."""

from __future__ import annotations

from collections.abc import Iterable

from tuning_registry.errors import FormatError, UsageError, printable
from tuning_registry.formats.files import parse_json
from tuning_registry.model.canonical import DEFAULTS, FIELDS, config_text, dump_json, parse_config
from tuning_registry.wording import list_some

_MAX_SHOWN_BITS = 1000
_SHOWN = 8  # configs listed in an error


def short_config(text: str) -> str:
    """A config as people read it: kernel parameters, then launch options that are not at their default."""
    config = parse_config(text)
    parts = [f"{name}={_short_value(value)}" for name, value in config.pop("kwargs").items()]
    launch = [name for name in FIELDS[1:] if name not in DEFAULTS or config[name] != DEFAULTS[name]]
    return " ".join([*parts, *(f"{name}={_short_value(config[name])}" for name in launch)])


def _short_value(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _MAX_SHOWN_BITS:
        return f"(an integer of {value.bit_length():,} bits)"
    return str(value) if isinstance(value, str | int | float | None) else dump_json(value)


def find_config(argument: str, known: Iterable[str]) -> str:
    """The canonical text of a config given as JSON, or in the short form of a known config.

    Args:
        argument: A JSON object (`num_ctas`, `maxnreg` and `ir_override` are optional), or a short form.
        known: Canonical texts that a short form can mean.

    Raises:
        UsageError: It is neither; the message lists the known configs.
    """
    if argument.lstrip().startswith("{"):
        try:
            return config_text(parse_json(argument.encode(errors="surrogatepass"), "config"))
        except FormatError as error:
            raise UsageError(f"not a config: {error}") from error
    wanted = " ".join(argument.split())
    shown = {text: " ".join(short_config(text).split()) for text in sorted(known)}
    found = [text for text, short in shown.items() if short == wanted]
    if len(found) != 1:
        there = list_some([printable(short) for short in shown.values()], "; ", _SHOWN)
        if found:
            raise UsageError(f"{argument!r} means several configs; give it as JSON. Recorded: {there}")
        raise UsageError(
            f"{argument!r} is not a recorded config. Recorded: {there}. To use one that was never recorded, give it as JSON "
            "with --force"
        )
    return found[0]
