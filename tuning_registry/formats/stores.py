"""Files in object stores, named by fsspec URL: `s3://bucket/run/rec.json`.

fsspec and the store's package are loaded with the first request, so local files cost nothing extra.
That package handles credentials, endpoints and retries.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar, cast
from urllib.parse import unquote

from tuning_registry.errors import FileError, RegistryError, UsageError
from tuning_registry.locations import DRIVERS, is_url

T = TypeVar("T")

# The extra that installs the package of a store, and the package, by scheme.
_EXTRAS: Final = {
    **dict.fromkeys(("s3", "s3a"), ("s3", "s3fs")),
    **dict.fromkeys(("gs", "gcs"), ("gcs", "gcsfs")),
    **dict.fromkeys(("az", "abfs", "abfss"), ("azure", "adlfs")),
}
# How long a request may take with all the retries of the store's package, which alone can take many minutes.
LIMIT_S: Final = 60.0
_DAMAGED: Final = re.compile(rf"({'|'.join([*_EXTRAS, 'memory', 'file'])}):/?(?!/)")
STORED: Final = b"stored"
_NO_BUCKET: Final = "there is no bucket {}; check its name and the account"
# In the place of a host: not the port of one, and not an ARN, which can be the name of a bucket.
_PASSWORD: Final = re.compile(r"(?!arn:)[^/:]*:(?!\d+/)[^@]*@")
_CHAINED: Final = re.compile(r"::[A-Za-z][\w+.-]*://")


@dataclass(frozen=True, slots=True, order=True)
class StorePath:
    """A file or folder in a store, with the members of `pathlib.Path` that reading and writing need.

    Attributes:
        scheme: Of the URL.
        key: The rest of the URL: the bucket or container, then the key.
    """

    scheme: str
    key: PurePosixPath

    def __str__(self) -> str:
        """The URL."""
        return f"{self.scheme}://{self.key}"

    def __truediv__(self, name: str | PurePosixPath) -> StorePath:
        """A place below this one."""
        return StorePath(self.scheme, self.key / name)

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.name

    @property
    def parts(self) -> tuple[str, ...]:
        """The bucket, and the parts of the key."""
        return self.key.parts

    @property
    def stem(self) -> str:
        """The last part without its suffix."""
        return self.key.stem

    @property
    def suffix(self) -> str:
        """The ending of the last part, with its dot."""
        return self.key.suffix

    @property
    def parent(self) -> StorePath:
        """The folder that it is in."""
        return StorePath(self.scheme, self.key.parent)

    def with_name(self, name: str) -> StorePath:
        """Another place in the same folder."""
        return StorePath(self.scheme, self.key.with_name(name))

    def resolve(self) -> StorePath:
        """Itself: stores have no links."""
        return self

    def exists(self) -> bool:
        """Whether there is an object, or a folder with objects, of this name. Raises FileError if the store does not answer."""
        return _kind(self) is not None

    def is_file(self) -> bool:
        """Whether there is an object of this name. Raises FileError if the store does not answer."""
        return _kind(self) == "file"

    def is_dir(self) -> bool:
        """Whether there are objects below this name. Raises FileError if the store does not answer."""
        return _kind(self) == "directory"

    def iterdir(self) -> Iterator[StorePath]:
        """The objects and folders in this folder. Raises FileError."""
        return iter(_listed(self, lambda system, path: system.ls(path, detail=False)))


Place = Path | StorePath
P = TypeVar("P", Path, StorePath, Path | StorePath)


def place_of(location: str | Path | StorePath | Any) -> Place:
    """The place that a path or URL names: in a store, or on the local disk.

    Args:
        location: A path, the URL of a store, or a `file://` URL.

    Raises:
        UsageError: It is the URL of a database, or a malformed URL.
    """
    if isinstance(location, Path | StorePath):
        return location
    text = str(location)
    scheme, mark, rest = text.partition("://")
    if _CHAINED.search(text):  # not printed: any of its URLs may hold a password
        raise UsageError("chained URLs (zip://...::s3://...) are not supported; state the URL of the object alone")
    if not is_url(text):
        if _DAMAGED.match(text):
            scheme = text.partition(":")[0]
            raise UsageError(f"{text}: expected {scheme}://{'/PATH' if scheme == 'file' else 'BUCKET/KEY'}; for a local "
                             f"file of this name, write ./{text}")  # fmt: skip
        return Path(text)
    _refuse_secrets(scheme, rest)
    if scheme in DRIVERS:
        raise UsageError(f"expected a file, found the URL of a {scheme} database")
    if scheme == "file":
        host, slash, path = rest.partition("/")
        if host not in {"", "localhost"} or not path or "\0" in unquote(path):
            raise UsageError(f"{text}: expected file:///PATH")
        return Path(slash + unquote(path))
    key = PurePosixPath(rest.strip("/"))
    if not key.name:
        raise UsageError(f"{text}: the name of the bucket is missing; expected {scheme}{mark}BUCKET/KEY")
    return StorePath(scheme, key)


def _refuse_secrets(scheme: str, rest: str) -> None:
    """Refuse a URL with a password or a signature, since errors and logs would show it.

    Raises:
        UsageError: It may have one.
    """
    if _PASSWORD.match(rest):
        raise UsageError(
            f"a {scheme}:// URL contains a password; remove it. Credentials come from the environment or from the "
            "configuration of the store's own tools"
        )
    if scheme in {"http", "https"} and "?" in rest:
        raise UsageError(
            f"a {scheme}:// URL has a query, which may hold a signature that logs would show; use the URL of the store, "
            "such as s3://BUCKET/KEY, or download the file"
        )


def is_table(place: StorePath) -> bool:
    """Whether a URL names a table and not a folder of tables, by its ending: asking the store would take a request."""
    return place.suffix == ".json"


def package_of(scheme: str) -> tuple[str, str]:
    """The package for a scheme of URLs, and what to install to get it.

    Raises:
        UsageError: fsspec does not know it.
    """
    if scheme in _EXTRAS:
        extra, package = _EXTRAS[scheme]
        return package, f"'tuning-registry[{extra}]'"
    if find_spec("fsspec") is not None and scheme not in import_module("fsspec").available_protocols():
        raise UsageError(f"fsspec does not support {scheme}://; expected a store such as s3://, gs:// or abfs://")
    return "fsspec", "fsspec"


def read_object(place: StorePath, limit: int) -> bytes:
    """The first `limit` bytes of an object.

    Raises:
        FileError: It cannot be read.
    """

    def fetch(system: Any, path: str) -> bytes:
        try:
            return bytes(system.cat_file(path, start=0, end=limit))
        except FileNotFoundError:
            raise
        except Exception:  # packages refuse a range of an empty object in different ways
            if system.info(path)["size"] == 0:  # which has no first byte to ask for
                return b""
            raise

    return _asked(place, "read", fetch)


def write_object(place: StorePath, data: bytes) -> None:
    """Write an object, replacing the old one. The object appears only when the upload is complete.

    Raises:
        FileError: It cannot be written.
    """
    _asked(place, "written", lambda system, path: system.pipe_file(path, data))


def store_input(url: str, niceness: int) -> None:
    """Upload stdin as an object and exit the process. Writes `STORED` to stdout, or the reason for a failure.

    A training job starts a process for this. It cannot use the exit status: a job that ignores SIGCHLD loses it.
    """
    os.nice(niceness)
    try:
        write_object(cast("StorePath", place_of(url)), sys.stdin.buffer.read())
    except RegistryError as error:
        os.write(1, str(error).encode(errors="replace"))
        os._exit(1)
    os.write(1, STORED)
    os._exit(0)  # without waiting for the threads of the store's package


def delete_object(place: StorePath) -> None:
    """Delete an object.

    Raises:
        FileError: It cannot be deleted.
    """
    _asked(place, "deleted", lambda system, path: system.rm_file(path))


def objects_below(folder: StorePath) -> list[StorePath]:
    """Every object below a folder, sorted.

    Raises:
        FileError: It cannot be listed.
    """
    return _listed(folder, lambda system, path: system.find(path))


def matching_objects(pattern: StorePath, has_magic: Callable[[str], bool]) -> list[StorePath]:
    """The objects and folders that a glob pattern matches, sorted.

    Args:
        pattern: The pattern.
        has_magic: Whether a part of it is one.

    Raises:
        FileError: The store cannot be listed.
    """
    parts = pattern.key.parts
    plain = next(index for index, part in enumerate(parts) if has_magic(part))
    if not plain:
        raise FileError(f"{pattern}: the name of the bucket cannot contain a pattern; list the bucket by name")
    below = "/".join(parts[plain:])
    base = StorePath(pattern.scheme, PurePosixPath(*parts[:plain]))
    found = _listed(base, lambda system, path: system.glob(f"{path.rstrip('/')}/{below}"))
    if not found and _is_missing(_bucket_of(pattern)):
        raise FileError(f"{pattern}: cannot be listed: {_NO_BUCKET.format(_bucket_of(pattern).name)}")
    return found


def _kind(place: StorePath) -> str | None:
    """`file`, `directory`, or None."""

    def look(system: Any, path: str) -> str | None:
        system.invalidate_cache()
        try:
            return str(system.info(path)["type"])
        except FileNotFoundError:
            return None

    return _asked(place, "read", look)


def _listed(folder: StorePath, find: Callable[[Any, str], Sequence[str]]) -> list[StorePath]:
    """Places below a folder. Listings lack the parts of the URL other than the key, such as the account."""

    def listed(system: Any, path: str) -> list[StorePath]:
        system.invalidate_cache()
        root = path.rstrip("/")
        found = (one.rstrip("/") for one in find(system, path))
        return sorted(folder / PurePosixPath(one[len(root) + 1 :]) for one in found if len(one) > len(root))

    return _asked(folder, "listed", listed)


def _asked(place: StorePath, done: str, work: Callable[[Any, str], T]) -> T:
    """Send a request to a store and return its answer.

    Args:
        place: What it is about.
        done: For the message, such as `read`.
        work: Gets the file system and the path in it.

    Raises:
        FileError: It fails, or takes longer than `LIMIT_S`.
    """
    answer: list[T] = []
    fault: list[Exception] = []

    def ask() -> None:
        try:
            system, path = _file_system(place)
            answer.append(work(system, path))
        except Exception as error:  # noqa: BLE001  # the package of a store may raise anything
            fault.append(error)

    thread = threading.Thread(target=ask, name="tuning_registry store", daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    if answer:
        return answer[0]
    if not fault:
        raise FileError(f"{place}: cannot be {done}: the store did not answer within {LIMIT_S:.0f} s; try again later")
    if isinstance(fault[0], FileError):
        raise fault[0]
    raise FileError(f"{place}: cannot be {done}: {_reason(place, fault[0])}") from fault[0]


def _file_system(place: StorePath) -> tuple[Any, str]:
    """The file system of a place, and its path there."""
    try:
        core = import_module("fsspec.core")
        system, path = core.url_to_fs(str(place))
    except ImportError as error:
        package, install = package_of(place.scheme)
        missing = error.name or getattr(error.__cause__, "name", None)
        if package == "fsspec" and missing:
            package = install = missing
        why = "is not installed" if find_spec(package) is None else f"cannot be imported: {error.__cause__ or error}"
        raise FileError(
            f"{place}: {place.scheme}:// needs the package {package}, which {why}; run: pip install {install}"
        ) from error
    except ValueError as error:
        what = f"fsspec does not accept this URL: {error}"
        try:
            package_of(place.scheme)
        except UsageError as fault:
            what = str(fault)
        raise FileError(f"{place}: {what}") from error
    return system, str(path)


def _reason(place: StorePath, error: Exception) -> str:
    """Why a request failed, and what to do about it."""
    names = [type(one).__name__ for one in (error, error.__cause__, error.__context__)]
    if isinstance(error, FileNotFoundError) or any("NotFound" in name for name in names):  # such as azure-core's
        bucket = _bucket_of(place)
        is_missing = bucket == place or _is_missing(bucket)
        return _NO_BUCKET.format(bucket.name) if is_missing else "it does not exist"
    if isinstance(error, PermissionError):
        return "access denied; check the credentials and their permissions on the bucket"
    said = str((error.strerror if isinstance(error, OSError) else None) or error).strip() or type(error).__name__
    text = said.splitlines()[0].rstrip(". ")
    if any("Credential" in name for name in names):  # botocore, google-auth and azure-identity each have such classes
        return f"no usable credentials ({text}); set them as for the store's command-line tools"
    return f"{text}; try again later if the store is busy or down"


def _bucket_of(place: StorePath) -> StorePath:
    return StorePath(place.scheme, PurePosixPath(place.key.parts[0]))


def _is_missing(bucket: StorePath) -> bool:
    try:
        return _kind(bucket) is None
    except FileError:
        return False
