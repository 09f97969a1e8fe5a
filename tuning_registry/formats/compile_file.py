"""The file beside a table with what its kernels need to be compiled before they are launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tuning_registry.errors import FormatError, TableError, describe
from tuning_registry.formats.files import MAX_FILE_BYTES, parse_json, read_bytes
from tuning_registry.formats.stores import P, Place
from tuning_registry.model.canonical import dump_json
from tuning_registry.model.names import check_text
from tuning_registry.model.specializations import Specialization

SUFFIX: Final = ".compile"
_FORMAT: Final = "tuning_registry.compile"
_VERSION: Final = 1
_DIGITS: Final = 16  # of the table's digest, as commands show it


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel to compile.

    Attributes:
        kernel: Its qualified name in the table.
        keys: The keys whose launches need it.
        specialization: What Triton needs.
    """

    kernel: str
    keys: Sequence[str]
    specialization: Specialization

    @property
    def obstacle(self) -> str:
        """Why a process that knows only names cannot import it; empty if it may."""
        stated = self.specialization
        if stated.module == "__main__":
            return "the kernel is in the script itself, which is not run; move it to a module"
        if self.kernel != f"{stated.module}.{stated.name}":
            return f"the kernel is recorded under another name than that of its module, {stated.module}"
        return ""


@dataclass(frozen=True, slots=True)
class CompileData:
    """What the kernels of a table need to be compiled; false if nothing is known.

    Attributes:
        arch: Architecture of the table.
        digest: Digest of the table.
        triton: Version of Triton that it was recorded with; another version needs other data.
        kernels: The kernels, sorted by name and keys.
    """

    arch: str
    digest: str
    triton: str
    kernels: Sequence[CompiledKernel] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to compile."""
        return bool(self.kernels)

    @property
    def keys(self) -> int:
        """Number of entries of the table that something is known about."""
        return len({(one.kernel, key) for one in self.kernels for key in one.keys})

    @property
    def data(self) -> bytes:
        """The bytes of the file; `read_compile_file` is the inverse."""
        document = {
            "format": _FORMAT,
            "version": _VERSION,
            "arch": self.arch,
            "digest": self.digest,
            "triton": self.triton,
            "kernels": [
                {"kernel": one.kernel, "keys": list(one.keys), **one.specialization.to_dict()} for one in self.kernels
            ],
        }
        return (dump_json(document, indent=1, sort_keys=False) + "\n").encode()


def compile_file_of(table: P, digest: str) -> P:
    """The file of a table: `sm90.json` of digest `53e442ce1c8e6f09...` has `sm90.53e442ce1c8e6f09.compile` beside it."""
    return table.with_name(f"{table.stem}.{digest[:_DIGITS]}{SUFFIX}")


def read_compile_file(path: Place, limit_bytes: int = MAX_FILE_BYTES) -> CompileData:
    """Read the file of a table.

    Raises:
        FileError: It cannot be read, or is larger than the limit.
        TableError: It is not such a file, or was written by a newer version.
    """
    try:
        document = parse_json(read_bytes(path, limit_bytes), str(path))
        return _read(document)
    except FormatError as fault:
        raise TableError(f"{path}: {'/'.join(fault.path) or 'the file'}: {fault.what}") from fault


def _read(document: object) -> CompileData:
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise FormatError("expected compile data, which registry export writes beside a table")
    if document.get("version") != _VERSION:
        raise FormatError(f"expected {_VERSION}, found {describe(document.get('version'))}", ("version",))
    kernels = document.get("kernels")
    if not isinstance(kernels, list):
        raise FormatError(f"expected an array, found {describe(kernels)}", ("kernels",))
    arch, digest, triton = (check_text(document.get(name), (name,)) for name in ("arch", "digest", "triton"))
    found = []
    for place, item in enumerate(kernels):
        try:
            found.append(_read_kernel(item))
        except FormatError as fault:
            raise fault.under("kernels", str(place)) from fault
    return CompileData(arch, digest, triton, tuple(found))


def _read_kernel(value: object) -> CompiledKernel:
    specialization = Specialization.from_dict(value)
    assert isinstance(value, Mapping)
    keys: Any = value.get("keys")
    if not isinstance(keys, list):
        raise FormatError(f"expected an array, found {describe(keys)}", ("keys",))
    return CompiledKernel(
        check_text(value.get("kernel"), ("kernel",)), [check_text(key, ("keys",)) for key in keys], specialization
    )
