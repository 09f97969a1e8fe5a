"""Sections of files: values by architecture, kernel and shape key, with every name checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tuning_registry.errors import FormatError, RecordingError, describe
from tuning_registry.model.names import check_text, is_known_arch, lookup_key, normal_arch, top_module

MAX_NAME_BYTES = 1000
_LIKE_AN_ARCH = re.compile(r"\s*(sm_?(\d|$)|gfx|\(?\d)", re.IGNORECASE)

T = TypeVar("T")


def read_entries(document: object, read: Callable[[Any], T]) -> dict[str, dict[str, dict[str, T]]]:
    """`{arch: {kernel: {key: value}}}` with every name checked and every value passed through `read`.

    Architectures are normalised. A file may use two spellings of one architecture if they do not hold the same entry.

    Raises:
        FormatError: With the path to what is wrong.
    """
    result: dict[str, dict[str, dict[str, T]]] = {}
    for arch, kernels in _object(document, (), "an object of architectures").items():
        table = result.setdefault(read_arch(_check_length(_name(arch, (arch,)), (arch,)), (arch,)), {})
        for kernel, entries in _object(kernels, (arch,), "an object of kernels").items():
            _check_length(top_module(_name(kernel, (arch, kernel))), (arch, kernel))
            known = table.setdefault(kernel, {})
            for key, value in _object(entries, (arch, kernel), "an object of shape keys").items():
                check_text(key, (arch, kernel, key))
                if key in known:
                    raise FormatError(
                        "this entry appears under two spellings of one architecture; expected one", (arch, kernel, key)
                    )
                try:
                    known[key] = read(value)
                except FormatError as fault:
                    raise fault.under(arch, kernel, key) from fault
    return result


def read_arch(text: str, path: tuple[str, ...]) -> str:
    """The normal form of an architecture. One of another vendor is kept as given.

    Raises:
        FormatError: It begins like an architecture of NVIDIA or AMD, but is not one.
    """
    arch = normal_arch(text)
    if not is_known_arch(arch) and _LIKE_AN_ARCH.match(text):
        raise FormatError("not an architecture; expected one like sm90, gfx942 or 9.0", path)
    return arch


def check_twin_keys(file: str, arch: str, kernel: str, keys: Iterable[str]) -> None:
    """Refuse a recording that votes twice on one key, in two spellings.

    Raises:
        RecordingError: Names both spellings.
    """
    spelt: dict[str, str] = {}
    for key in keys:
        other = spelt.setdefault(lookup_key(key), key)
        if other != key:
            raise RecordingError(file, f"Triton cannot tell this key from {other!r}; expected one", (arch, kernel, key))


def _object(value: object, path: tuple[str, ...], expected: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"expected {expected}, found {describe(value)}", path)
    return value


def _name(text: str, path: tuple[str, ...]) -> str:
    if not text:
        raise FormatError("the name is empty", path)
    return check_text(text, path)


def _check_length(text: str, path: tuple[str, ...]) -> str:
    """Refuse an architecture or top-level module that Postgres cannot index (2,704 bytes a row)."""
    if len(text) > MAX_NAME_BYTES // 4 and len(text.encode()) > MAX_NAME_BYTES:
        raise FormatError(f"a name of {len(text.encode())} bytes; expected at most {MAX_NAME_BYTES}", path)
    return text
