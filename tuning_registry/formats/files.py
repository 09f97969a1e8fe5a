"""Reading files strictly and replacing them atomically, on the local disk or in a store."""

from __future__ import annotations

import contextlib
import glob
import io
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from tuning_registry.errors import FileError, FormatError, RecordingError
from tuning_registry.formats.stores import (
    Place,
    StorePath,
    delete_object,
    matching_objects,
    objects_below,
    read_object,
    write_object,
)
from tuning_registry.model.canonical import parse_integer

_BOM = b"\xef\xbb\xbf"
# Recordings are a few megabytes. Reading JSON takes many times its size in memory, so a larger file, which cannot be a
# recording, must not exhaust the memory of the machine.
MAX_FILE_BYTES: Final = 256 << 20  # See docs/decisions.md, D11.
# What a file will hold, or a function that writes it to the open file.
Content = bytes | Callable[[BinaryIO], object]


def read_bytes(path: Place, limit_bytes: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a regular file or of an object, without a UTF-8 byte order mark.

    Raises:
        FileError: Missing, unreadable, not a regular file (a FIFO would hang, a device never end), or larger
            than the limit.
    """
    if isinstance(path, StorePath):
        data = read_object(path, limit_bytes + 1)
        if len(data) > limit_bytes:
            raise _too_large(path, limit_bytes)
        return data.removeprefix(_BOM)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):  # checked before `open`, which words it differently for a folder
                raise FileError(f"{path}: not a regular file")
            if status.st_size > limit_bytes:
                raise _too_large(path, limit_bytes)
            with open(handle, "rb", closefd=False) as file:
                return file.read().removeprefix(_BOM)
        finally:
            os.close(handle)
    except FileError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise FileError(f"{path}: cannot be read: {_reason(error)}") from error


def _too_large(path: Place, limit_bytes: int) -> FileError:
    return FileError(f"{path}: larger than the limit of {limit_bytes >> 20} MiB")


def read_head(path: Place, length: int) -> bytes:
    """The first bytes of a regular file or of an object.

    Raises:
        FileError: As for `read_bytes`, whatever its size.
    """
    if isinstance(path, StorePath):
        return read_object(path, length)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            return os.read(handle, length) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: cannot be read: {_reason(error)}") from error


def expand_glob(path: Place) -> list[Place]:
    """The files that a glob pattern matches, sorted; the path itself if it exists or is not a pattern.

    Temporary folders of Triton's cache are left out (`find_below`).

    Raises:
        FileError: A pattern that matches nothing.
    """
    if not glob.has_magic(str(path)) or (isinstance(path, Path) and os.path.lexists(path)):
        return [path]
    found: Iterable[Place]
    if isinstance(path, StorePath):
        found = matching_objects(path, glob.has_magic)
    else:
        found = map(Path, glob.glob(str(path), recursive=True))  # noqa: PTH207  # Path.glob refuses absolute patterns
    matches = [match for match in found if not any(map(_is_temporary, str(match).split("/")))]
    if not matches:
        raise FileError(f"{path}: no file matches")
    return sorted(matches)


def is_folder(path: Place) -> bool:
    """Whether a path leads to a folder. False if a local path is not accessible; reading it then reports why."""
    return path.is_dir() if isinstance(path, StorePath) else os.path.isdir(path)  # noqa: PTH112  # Path.is_dir raises


def identity_of(path: Place) -> str:
    """A text that is the same for all paths to one file."""
    return str(path) if isinstance(path, StorePath) else os.path.realpath(path)


def find_below(folder: Place, suffix: str) -> list[Place]:
    """The files with this suffix in a folder and below, sorted. Follows links and skips hidden files and folders.

    Skips `tmp.pid_*` folders: Triton's cache writes its files there first, and a killed process leaves them cut off.
    Broken links and special files are listed. Reading them raises an error; without it a rank would be lost unnoticed.

    Raises:
        FileError: A folder cannot be listed.
    """
    if isinstance(folder, StorePath):
        depth = len(folder.key.parts)
        below = [(one, one.key.parts[depth:]) for one in objects_below(folder) if one.name.endswith(suffix)]
        return [one for one, parts in below if not any(part.startswith(".") or _is_temporary(part) for part in parts)]

    def refuse(error: OSError) -> None:
        raise FileError(f"{error.filename}: cannot be read: {_reason(error)}") from error

    found: list[Place] = []
    visited = {os.path.realpath(folder)}  # links may lead round in a circle
    for parent, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        shown = [name for name in folders if not name.startswith(".") and not _is_temporary(name)]
        places = {name: os.path.realpath(Path(parent, name)) for name in shown}
        folders[:] = [name for name in shown if places[name] not in visited]
        visited.update(places.values())
        found += [Path(parent, name) for name in files if name.endswith(suffix) and not name.startswith(".")]
    return sorted(found)


def _is_temporary(folder: str) -> bool:
    """Whether a folder is one that Triton's cache writes to before it renames. Source: `triton/runtime/cache.py`."""
    return folder.startswith("tmp.pid_")


def parse_json(data: bytes, file: str) -> Any:
    """The value of a JSON document, read strictly.

    Integers keep their exact value. `NaN` and `Infinity` become floats, which the caller accepts or refuses.

    Args:
        data: The bytes of the file.
        file: Its name, for the message.

    Raises:
        RecordingError: It is not UTF-8, empty, cut off, not JSON, nested too deep, or repeats an object key.
    """
    if not data.strip():
        raise RecordingError(file, "the file is empty; expected a JSON object")
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"} or b"\0" in data[:2]:
        raise RecordingError(file, "the file is UTF-16 or UTF-32; expected UTF-8")
    repeated: list[_Repeated] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) != len(pairs):
            seen: set[str] = set()
            name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            built = _Repeated(built)
            built.name = name
            repeated.append(built)
        return built

    try:
        document = json.loads(data.decode(), object_pairs_hook=build, parse_int=parse_integer)
    except FormatError as error:
        raise RecordingError(file, error.what) from error
    except UnicodeDecodeError as error:
        raise RecordingError(file, f"byte {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        cut = error.pos >= len(data.rstrip()) or error.msg.startswith("Unterminated string")
        hint = "; the file seems to be truncated" if cut else ""
        raise RecordingError(file, f"not JSON at {place}: {error.msg}{hint}") from error
    except RecursionError as error:
        raise RecordingError(file, "nested too deeply to be read") from error
    if repeated:
        path = next(path for path, value in _walk(document) if isinstance(value, _Repeated))
        name = repeated[-1].name if not path else _value_at(document, path).name
        raise RecordingError(file, "this object key appears twice; expected each key once", (*path, name))
    return document


class _Repeated(dict[str, Any]):
    """An object that repeats the key `name`."""

    name = ""


def _walk(document: object) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield every value with its path, outermost first, without recursion."""
    todo: list[tuple[tuple[str, ...], object]] = [((), document)]
    while todo:
        path, value = todo.pop()
        yield path, value
        if isinstance(value, dict):
            todo.extend(((*path, name), item) for name, item in value.items())
        elif isinstance(value, list):
            todo.extend(((*path, str(index)), item) for index, item in enumerate(value))


def _value_at(document: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def write_atomically(path: Place, data: Content) -> None:
    """Replace the content of a file or object with `data`, whole or not at all; creates its folder if necessary.

    If `path` is a symlink, its target is replaced. An existing file keeps its mode; the umask decides the mode of a new
    one. A device or FIFO (`/dev/stdout`) is written to, never replaced.

    Raises:
        FileError: The file cannot be written. An existing file is unchanged, and no temporary file is left.
    """
    write_together({path: data})


def write_together(files: Mapping[Place, Content]) -> None:
    """Replace the content of several files as `write_atomically` does. No file is replaced before all are written.

    Objects are uploaded one by one, after the content of all files has been made.

    Raises:
        FileError: A file cannot be written.
    """
    written: list[tuple[Path, Path]] = []
    objects: dict[StorePath, bytes] = {}
    at: Place = Path()
    try:
        for at, content in files.items():
            if isinstance(at, StorePath):
                objects[at] = _bytes_of(content)
            else:
                written += _write_beside(at, content)
        for place, data in objects.items():
            write_object(place, data)
        while written:
            temporary, at = written[0]
            os.replace(temporary, at)
            written.pop(0)
            sync_folder(at.parent)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{at}: cannot be written: {_reason(error)}") from error
    finally:
        for temporary, _ in written:
            with contextlib.suppress(OSError):
                temporary.unlink()


def delete_file(path: Place) -> None:
    """Delete a file or object, if it is there.

    Raises:
        OSError: It cannot be deleted.
    """
    if isinstance(path, StorePath):
        delete_object(path)
    else:
        path.unlink(missing_ok=True)


def _bytes_of(content: Content) -> bytes:
    if not callable(content):
        return content
    file = io.BytesIO()
    content(file)
    return file.getvalue()


def _write_beside(path: Path, content: Content) -> list[tuple[Path, Path]]:
    """Write a temporary file next to the one that it will replace; both are returned. A device is written at once."""
    # The path itself, not its target: /dev/fd/63 (`>(...)` in a shell) leads to a pipe, which has no name.
    old = _status(path)
    if old and stat.S_ISDIR(old.st_mode):
        raise FileError(f"{path}: is a directory; expected a file name")
    write = content if callable(content) else lambda file: file.write(content)
    if old and not stat.S_ISREG(old.st_mode):
        with open(path, "wb") as file:
            write(file)
        return []
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name[:100]}.{os.urandom(6).hex()}.tmp")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            if old:
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            write(file)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:  # Ctrl+C included: nothing half-written stays
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return [(temporary, target)]


def _status(path: Path) -> os.stat_result | None:
    """The status of the file that a path leads to; None if there is none."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable, if the file system can sync folders."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def kind_of(document: Mapping[str, Any]) -> str | None:
    """A name for the format of a JSON object that is not a recording; None if it is unknown."""
    if document.keys() & {"kernels", "packages", "arch"}:  # a recording has architectures there
        return "an exported per-arch table"
    if any(isinstance(value, dict) and type(value.get("BLOCK_SIZE_M")) is int for value in document.values()):
        return "a fused-MoE config file of vLLM or SGLang"
    if "configs_timings" in document:
        return "Triton's autotune cache file"
    if "triton_version" in document or "child_paths" in document:
        return "Triton's compile metadata"
    return None
