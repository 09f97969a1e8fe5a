"""One text per config: the equality, grouping and tie-break rule of the whole package."""

from __future__ import annotations

import decimal
import hashlib
import inspect
import json
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tuning_registry.errors import FormatError, describe
from tuning_registry.model.names import check_text

# The six fields of a config. Only fields that early recordings leave out have a default (the same as Triton's).
DEFAULTS: Mapping[str, object] = {"num_ctas": 1, "maxnreg": None, "ir_override": None}
FIELDS = ("kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override")
# The launch options that some GPU can run: least, most, and whether null (Triton decides) is allowed.
# 64 warps are 2,048 threads of 32 lanes or 4,096 of 64, more than any block holds; registers end at 255 per thread.
RANGES: Mapping[str, tuple[int, int, bool]] = {
    "num_warps": (1, 64, True),
    "num_stages": (0, 64, True),
    "num_ctas": (1, 32, False),
    "maxnreg": (1, 1024, True),
}
# Fields that other Triton releases write and that have no effect at this value. Any other value changes the
# compiled kernel, so the config is refused. Source: triton.Config of 3.2 and 3.3 (warp
# specialisation) and Triton's autotune cache files (`pre_hook`).
NEUTRAL: Mapping[str, object] = {
    "num_consumer_groups": 0,
    "num_buffers_warp_spec": 0,
    "reg_dec_producer": 0,
    "reg_inc_consumer": 0,
    "pre_hook": None,
}

# No kernel has a launch parameter nested more deeply, and a recursive reader would exhaust its stack.
MAX_DEPTH = 32
MAX_DIGITS = 100_000  # See docs/decisions.md, D25.
# CPython refuses str() and int() of longer integers (sys.int_info.default_max_str_digits).
_SHORT_DIGITS = 4300
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def parse_integer(digits: str) -> int:
    """The exact value of a JSON integer.

    Raises:
        FormatError: It has more than MAX_DIGITS digits; the time to convert it grows with their square.
    """
    if len(digits) > MAX_DIGITS:
        raise FormatError(f"an integer of {len(digits):,} digits; expected at most {MAX_DIGITS:,}")
    return int(digits) if len(digits) < _SHORT_DIGITS else int(_EXACT.create_decimal(digits))


def dump_json(value: object, indent: int | None = None, *, sort_keys: bool = True) -> str:
    """`json.dumps(value, indent=indent, sort_keys=sort_keys)`, even for integers that Python refuses to convert.

    Raises:
        ValueError: A float is not finite.
    """
    try:
        return json.dumps(value, indent=indent, sort_keys=sort_keys, allow_nan=False)
    except ValueError:
        long: list[str] = []
        marked = _mark_long_integers(value, long)
        text = json.dumps(marked, indent=indent, sort_keys=sort_keys, allow_nan=False)
        for index, digits in enumerate(long):
            text = text.replace(f'"\\u0000{index}\\u0000"', digits)
        return text


def _mark_long_integers(value: Any, found: list[str]) -> Any:
    """`value` with every long integer replaced by a mark between NULs, which no accepted text holds."""
    if isinstance(value, Mapping):
        return {name: _mark_long_integers(item, found) for name, item in value.items()}
    if isinstance(value, list):
        return [_mark_long_integers(item, found) for item in value]
    if type(value) is int and value.bit_length() > _SHORT_DIGITS * 3:
        found.append(f"{_EXACT.create_decimal(value):f}")
        return f"\0{len(found) - 1}\0"
    return value


def config_text(config: object) -> str:
    """The canonical text of a config: `json.dumps(config, sort_keys=True)` of its six fields.

    Two configs are equal if and only if their texts are. Type and value count: `true`, `1` and `1.0`
    give three texts, `1e2` and `100.0` give one, `-0.0` and `0.0` give two.

    Args:
        config: A mapping as read from JSON. If absent, `num_ctas`, `maxnreg` and `ir_override` are 1, null and
            null.

    Raises:
        FormatError: A field is missing, unknown, of the wrong type or out of range (`RANGES`); `path` leads to it.
    """
    full = _full_config(config)
    for field in RANGES:
        _check_range(full[field], field)
    return dump_json(full)


def check_launch_options(parameters: Mapping[str, object]) -> None:
    """Check the launch options among named parameters, by the rules for those of a config (`RANGES`).

    Raises:
        FormatError: One has the wrong type or is out of range; `path` leads to it.
    """
    for field in RANGES:
        if field in parameters:
            _check_launch_option(parameters[field], (field,))
            _check_range(parameters[field], field)


def _check_range(value: Any, field: str) -> None:
    least, most, has_null = RANGES[field]
    if value is not None and not least <= value <= most:
        null = " or null" if has_null else ""
        raise FormatError(f"expected an integer from {least} to {most}{null}, found {describe(value)}", (field,))


def _full_config(config: object) -> dict[str, Any]:
    """The six fields of a config, each of the right type; launch options may be out of range."""
    if not isinstance(config, Mapping):
        raise FormatError(f"expected a config object, found {describe(config)}")
    full = {**DEFAULTS, **config}
    for field in full.keys() - set(FIELDS):
        value = full.pop(field)
        if field not in NEUTRAL:
            raise FormatError(f"unknown config field; expected one of {', '.join(FIELDS)}", (field,))
        if not _same(value, NEUTRAL[field]):
            raise FormatError(f"{describe(value)} changes the kernel and cannot be stored; remove this field", (field,))
    for field in FIELDS:
        if field not in full:
            raise FormatError(f"required config field {field!r} is missing", (field,))
        _CHECKS[field](full[field], (field,))
    return full


def parse_config(text: str) -> dict[str, Any]:
    """The config whose canonical text is `text`; the strict inverse of `config_text`.

    Also reads texts with launch options out of range, which older databases may hold.

    Raises:
        FormatError: `text` is not a canonical text.
    """
    try:
        config = load_config(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not the canonical text of a config: {error}") from error
    if dump_json(_full_config(config)) != text:
        raise FormatError("not the canonical text of a config: the value is valid but spelled differently")
    return config


def load_config(text: str) -> dict[str, Any]:
    """The config of a text that `config_text` returned; not checked."""
    config: dict[str, Any] = json.loads(text, parse_int=parse_integer)
    return config


def live_config_text(candidate: object) -> str | None:
    """The canonical text of a live `triton.Config`, or None if no table can hold it.

    None means that a launch field that tables do not have is not at its default, or that a kwarg has no JSON value.
    """
    try:
        kwargs = {name: _listed(value) for name, value in dict(candidate.kwargs).items()}  # type: ignore[attr-defined]
        config: dict[str, object] = {"kwargs": kwargs}
        for field in FIELDS[1:]:
            config[field] = _listed(getattr(candidate, field, DEFAULTS.get(field)))
        for field, neutral in NEUTRAL.items():
            if field != "pre_hook":  # hooks are not stored; the live object is launched, so its hook runs
                config[field] = getattr(candidate, field, neutral)
        return config_text(config) if _launches_as_written(candidate, config) else None
    except Exception:  # noqa: BLE001  # a foreign object in a training job: if it raises anything, it has no text
        return None


def _launches_as_written(candidate: Any, config: Mapping[str, Any]) -> bool:
    """Whether `all_kwargs()` passes exactly the values of `config` to the launch.

    The `Config` of a backend can add launch fields by overriding `all_kwargs` (triton-ascend adds `multibuffer`). Such
    a field is ignored at the default of the class's `__init__`; at any other value the config differs.
    Attributes that `all_kwargs` does not pass on do not count: torch keeps bookkeeping on configs.
    """
    if not hasattr(candidate, "all_kwargs"):
        return True
    for name, value in candidate.all_kwargs().items():
        if name in candidate.kwargs or name in FIELDS[1:]:
            stated = config["kwargs"][name] if name in candidate.kwargs else config[name]
            if not _same(_listed(value), stated):
                return False
        elif name in NEUTRAL:
            if not _same(value, NEUTRAL[name]):
                return False
        else:
            parameter = inspect.signature(type(candidate)).parameters.get(name)
            if parameter is None or not _same(value, parameter.default):
                return False
    return True


def text_digest(text: str) -> str:
    """SHA-256 of `text` as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def _same(value: object, other: object) -> bool:
    return type(value) is type(other) and value == other


def _listed(value: object) -> object:
    """A live value as JSON stores it: tuples become lists; enum members and NumPy integers become plain integers."""
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    if not isinstance(value, bool | str) and hasattr(value, "__index__"):
        return operator.index(value)
    return value


def _check_launch_option(value: object, path: tuple[str, ...]) -> None:
    has_null = RANGES[path[0]][2]
    if type(value) is not int and not (value is None and has_null):
        raise FormatError(f"expected an integer{' or null' if has_null else ''}, found {describe(value)}", path)


def _check_ir_override(value: object, path: tuple[str, ...]) -> None:
    if value is not None and not isinstance(value, str):
        raise FormatError(f"expected a string or null, found {describe(value)}", path)
    check_value(value, path)


def _check_kwargs(value: object, path: tuple[str, ...]) -> None:
    if not isinstance(value, Mapping):
        raise FormatError(f"expected an object of kernel parameters, found {describe(value)}", path)
    check_value(value, path)


def check_value(value: object, path: tuple[str, ...]) -> None:
    """Refuse values that JSON or a database cannot store exactly: NaN, Infinity, NUL, deep nesting, unknown types.

    Raises:
        FormatError: Its path leads to the value.
    """
    if len(path) > MAX_DEPTH:
        raise FormatError(f"nested more than {MAX_DEPTH} levels deep", path[:3])
    if isinstance(value, str):
        check_text(value, path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise FormatError(f"{value!r} is not a finite number", path)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            check_text(name, path)
            check_value(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            check_value(item, (*path, str(index)))
    elif not isinstance(value, int) and value is not None:
        raise FormatError(f"a {type(value).__name__}, which JSON cannot hold", path)


_CHECKS: Mapping[str, Callable[[object, tuple[str, ...]], None]] = {
    "kwargs": _check_kwargs,
    **dict.fromkeys(RANGES, _check_launch_option),
    "ir_override": _check_ir_override,
}
