"""Keys as pages show them."""

from __future__ import annotations

from typing import Final

from tuning_registry.model.names import split_key

_DTYPES: Final = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "int32": "i32",
    "int64": "i64",
}


def short_key(key: str) -> str:
    """A key with its dtypes abbreviated: `D=128 NB=1 bf16 f32`."""
    return " ".join(_short_field(field) for field in split_key(key))


def _short_field(field: str) -> str:
    name = field.removeprefix("torch.")
    return field if name == field else _DTYPES.get(name, name)
