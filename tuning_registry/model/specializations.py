"""What Triton needs to compile the kernel of one launch without launching it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tuning_registry.errors import FormatError, describe
from tuning_registry.model.canonical import dump_json
from tuning_registry.model.names import check_text

MAX_DATA_BYTES: Final = 1 << 18
_MAX_NAME_BYTES: Final = 1000
_CACHE_KEY: Final = re.compile(r"[0-9a-f]{64}")
_FIELDS: Final = ("module", "function", "target", "cache_key", "data")
_MODULE: Final = re.compile(r"\w+(\.\w+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialization:
    """One compilation of a kernel's function.

    Attributes:
        module: Module that defines the function.
        function: Its qualified name in the module.
        target: Backend, architecture as Triton states it (90, or `gfx942`), and warp size.
        cache_key: Key of the compiled kernel in Triton's cache when it was recorded, 64 hexadecimal digits. The same
            code, Triton, assembler and settings give the same key.
        data: Triton's own JSON, as `JITFunction.preload` of the same release reads it. Its `key` is empty, and its options
            are those that differ from the defaults.
    """

    module: str
    function: str
    target: tuple[str, int | str, int]
    cache_key: str
    data: str

    @classmethod
    def from_dict(cls, value: object) -> Specialization:
        """Read what `to_dict` made; fields that a later version adds are ignored.

        Raises:
            FormatError: With the path to what is wrong.
        """
        if not isinstance(value, Mapping):
            raise FormatError(f"expected an object, found {describe(value)}")
        missing = [name for name in _FIELDS if name not in value]
        if missing:
            raise FormatError(f"{missing[0]} is missing")
        module, function = (_name(value[name], name) for name in ("module", "function"))
        if not _MODULE.fullmatch(module):
            raise FormatError("expected the name of a module", ("module",))
        key, data = value["cache_key"], value["data"]
        if not isinstance(key, str) or not _CACHE_KEY.fullmatch(key):
            raise FormatError("expected 64 hexadecimal digits", ("cache_key",))
        if not isinstance(data, str) or len(check_text(data, ("data",)).encode()) > MAX_DATA_BYTES:
            raise FormatError(f"expected a text of at most {MAX_DATA_BYTES} bytes", ("data",))
        return cls(module=module, function=function, target=_target(value["target"]), cache_key=key, data=data)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON holds them."""
        return {
            "module": self.module,
            "function": self.function,
            "target": list(self.target),
            "cache_key": self.cache_key,
            "data": self.data,
        }

    @property
    def text(self) -> str:
        """Canonical JSON of the fields: equal specializations have equal texts."""
        return dump_json(self.to_dict())

    @property
    def name(self) -> str:
        """The function's name without the names around it; Triton's cache names files by it."""
        return self.function.rpartition(".")[2]


def _name(value: object, field: str) -> str:
    if not isinstance(value, str) or not value or len(check_text(value, (field,)).encode()) > _MAX_NAME_BYTES:
        raise FormatError(f"expected a name of at most {_MAX_NAME_BYTES} bytes", (field,))
    return value


def _target(value: object) -> tuple[str, int | str, int]:
    if isinstance(value, list | tuple) and len(value) == 3:
        backend, arch, warp_size = value
        if isinstance(backend, str) and type(arch) in (int, str) and type(warp_size) is int:
            return backend, arch, warp_size
    raise FormatError("expected [backend, architecture, warp size]", ("target",))
