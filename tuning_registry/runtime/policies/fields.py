"""How one field of a policy is declared: its check, its form as text, and its help."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass
from types import MappingProxyType
from typing import Any, Final

from tuning_registry.errors import FormatError, RecordingError, UsageError
from tuning_registry.formats.files import parse_json
from tuning_registry.formats.stores import StorePath, package_of, place_of
from tuning_registry.locations import DRIVERS, EXPECTED_URL, is_damaged_url, is_url, split_paths
from tuning_registry.model.names import check_text, is_known_arch, normal_arch

StrPath = str | os.PathLike[str]
BlockSizes = Mapping[str, int | Mapping[str, int]]

NODE: Final = "node"  # as a value of `split`: the ranks of each node share the work
SEEDED: Final = "seeded"
_KEY: Final = "tuning_registry"  # in the metadata of a dataclass field
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Everything about a policy field except its name, type and default.

    Attributes:
        help: For `--help` and the documentation.
        check: Returns the value in its final form; raises FormatError if it is not accepted.
        parse: Reads the value from an environment variable or a command-line option.
        metavar: How `--help` shows the value.
        choices: The accepted texts, if there are only a few.
        separator: What separates the items of a list in text; the option may then be repeated. Empty: not a list.
    """

    help: str
    check: Callable[[object], object]
    parse: Callable[[str], Any] = str
    metavar: str = "TEXT"
    choices: Sequence[str] = ()
    separator: str = ""

    @property
    def is_switch(self) -> bool:
        """Whether the command-line option takes no value."""
        return self.parse is parse_flag


def declare(text: str, check: Callable[[object], object], **others: Any) -> dict[str, Declaration]:
    """The `metadata` of a policy field: its help, its check, and other attributes of its `Declaration`."""
    return {_KEY: Declaration(help=text, check=check, **others)}


def declaration_of(field: Field[Any]) -> Declaration:
    """The declaration that `declare` gave a field."""
    found: Declaration = field.metadata[_KEY]
    return found


def kind_of(value: object) -> str:
    """The type of a rejected value, for an error message."""
    return f"a {type(value).__name__}"


def one_of(choices: Sequence[str], *, optional: bool = False) -> Callable[[object], str | None]:
    """The check for one of a few texts, or for None if the field is optional."""

    def check(value: object) -> str | None:
        if value is None and optional:
            return None
        if not isinstance(value, str) or value not in choices:
            shown = repr(value) if isinstance(value, str) else kind_of(value)
            raise FormatError(f"expected one of {', '.join(choices)}{' or None' if optional else ''}, found {shown}")
        return value

    return check


def check_names(value: object) -> tuple[str, ...]:
    """A sequence of dotted names. Patterns are refused, because they would silently match nothing."""
    names = _texts_with_dots(value)
    for name in names:
        if name != name.strip() or set(name) & set("*?["):
            raise FormatError(f"expected whole names without patterns or spaces, found {name!r}")
    return names


def _texts_with_dots(value: object) -> tuple[str, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | set | frozenset):
        raise FormatError(f"expected a sequence of names, found {kind_of(value)}")
    names = tuple(sorted(value, key=str)) if isinstance(value, set | frozenset) else tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise FormatError(f"expected strings, found {kind_of(name)}")
        if not name or any(part == "" for part in name.split(".")):
            raise FormatError(f"expected dotted names, found {name!r}")
        check_text(name)
    return names


def check_table_path(value: object) -> StrPath | tuple[StrPath, ...]:
    """A path or the URL of a store, a sequence of them, or None for no path."""
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return tuple(_table_path(item) for item in value)
    return _table_path(value)


def check_record_path(value: object) -> StrPath | None:
    """A prefix of file names or of objects in a store, the URL of a database, or None."""
    if value is None:
        return None
    path = _path(value, may_be_url=True)
    text = os.fspath(path)
    if is_url(text) and text.partition("://")[0] in DRIVERS:
        _check_url(text)
    elif is_url(text):
        place = _store_or_path(text)
        if text.startswith("memory://"):
            raise FormatError("memory:// does not outlive the process; expected the URL of an object store")
        if text.endswith("/") or text.count("/") < 3:
            raise FormatError(f"expected a prefix of object names (s3://bucket/folder/name), found {place}")
        return place
    elif text.endswith((".db", ".sqlite", ".sqlite3")):
        raise FormatError(
            f"{text!r} looks like a database file; for a database, {EXPECTED_URL}; for recording files, use a prefix "
            "without this ending"
        )
    elif os.path.basename(text) in {"", ".", ".."}:  # noqa: PTH119  # Path("a/.") is a
        raise FormatError("expected a prefix of file names (folder/name), found a folder")
    return text


def check_file(value: object) -> StrPath | None:
    """The path of a file, or None."""
    return None if value is None else _path(value)


def check_block_sizes(value: object) -> BlockSizes:
    """A mapping from parameter to integer, or from kernel to such a mapping; becomes read-only."""
    if not isinstance(value, Mapping):
        raise FormatError(f"expected a mapping of names to integers, found {kind_of(value)}")
    frozen: dict[str, int | Mapping[str, int]] = {}
    for name, stated in value.items():
        if not isinstance(name, str) or not name:
            raise FormatError(f"expected names, found {kind_of(name) if name != '' else 'an empty one'}")
        if isinstance(stated, Mapping):
            inner = check_block_sizes(stated)
            if any(isinstance(size, Mapping) for size in inner.values()):
                raise FormatError("expected {kernel: {parameter: integer}}, found deeper nesting", (name,))
            frozen[name] = inner  # type: ignore[assignment]
        elif type(stated) is int and stated > 0 and name.isidentifier():
            frozen[name] = stated
        elif type(stated) is int:
            expected = "a positive integer" if stated <= 0 else "the name of a launch parameter"
            raise FormatError(f"expected {expected}, found {stated if stated <= 0 else repr(name)}", (name,))
        else:
            raise FormatError(f"expected an integer, found {kind_of(stated)}", (name,))
    return MappingProxyType(frozen)


def check_steps(value: object) -> int:
    """A number of training steps, at least 0."""
    if type(value) is not int or value < 0:
        raise FormatError(
            f"expected a number of steps, at least 0, found {value if type(value) is int else kind_of(value)}"
        )
    return value


def check_split(value: object) -> int | str | None:
    """A number of ranks, at least 2; `node`; or None."""
    if value is None or value == NODE or (type(value) is int and value >= 2):
        return value
    shown = repr(value) if isinstance(value, str | int) else kind_of(value)
    raise FormatError(f"expected a number of ranks, at least 2, or {NODE!r}; found {shown}")


def check_repeats(value: object) -> int:
    """A number of ranks, at least 1."""
    if type(value) is not int or value < 1:
        raise FormatError(
            f"expected a number of ranks, at least 1, found {value if type(value) is int else kind_of(value)}"
        )
    return value


def check_bytes(value: object) -> int:
    """A number of bytes, at least 0."""
    if type(value) is not int or value < 0:
        raise FormatError(
            f"expected a number of bytes, at least 0, found {value if type(value) is int else kind_of(value)}"
        )
    return value


def check_audit(value: object) -> bool | str:
    """True, False, or `seeded`."""
    if isinstance(value, bool) or value == SEEDED:
        return value if isinstance(value, bool) else SEEDED
    found = repr(value) if isinstance(value, str) else kind_of(value)
    raise FormatError(f"expected True, False or {SEEDED!r}, found {found}")


def check_flag(value: object) -> bool:
    """True or False."""
    if type(value) is not bool:
        raise FormatError(f"expected True or False, found {kind_of(value)}")
    return value


def check_optional_text(value: object) -> str | None:
    """A string, or None."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise FormatError(f"expected a string, found {kind_of(value)}")
    return check_text(value)


def check_run(value: object) -> str | None:
    """The name of a run, or None."""
    text = check_optional_text(value)
    if text is not None and not text.strip():
        raise FormatError("expected the name of a run, found an empty string")
    return text


def check_arch(value: object) -> str | None:
    """A known architecture in its normal form, or None."""
    text = check_optional_text(value)
    if text is None:
        return None
    arch = normal_arch(text)
    if not is_known_arch(arch):
        raise FormatError(f"expected an architecture such as sm90 or gfx942, found {text!r}")
    return arch


def check_digest(value: object) -> str | None:
    """The hexadecimal digits of a selection digest, at least the 12 that logs show; or None."""
    text = check_optional_text(value)
    if text is None:
        return None
    digest = text.strip().removesuffix("...").lower()
    if not re.fullmatch(r"[0-9a-f]{12,64}", digest):
        raise FormatError(f"expected 12 to 64 hexadecimal digits of a digest, found {text!r}")
    return digest


def parse_flag(text: str) -> bool:
    """`1`, `true`, `yes`, `on`, or their opposites."""
    if text.lower() not in _TRUE | _FALSE:
        raise FormatError(f"expected 1 or 0, found {text!r}")
    return text.lower() in _TRUE


def parse_on_off(text: str) -> bool:
    """A flag that is on by default, so that its option takes a value."""
    return parse_flag(text)


def parse_audit(text: str) -> bool | str:
    """`seeded`, or a flag."""
    if text.lower() == SEEDED:
        return SEEDED
    try:
        return parse_flag(text)
    except FormatError:
        raise FormatError(f"expected 1, 0 or {SEEDED}, found {text[:40]!r}") from None


def parse_integer(text: str) -> int:
    """A decimal integer."""
    try:
        return int(text)
    except ValueError:
        raise FormatError(f"expected an integer, found {text[:40]!r}") from None


def parse_split(text: str) -> int | str:
    """`node`, or a decimal integer."""
    text = text.strip()
    try:
        return text if text == NODE else int(text)
    except ValueError:
        raise FormatError(f"expected a number of ranks or {NODE!r}, found {text[:40]!r}") from None


def parse_names(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_paths(text: str) -> str | tuple[str, ...]:
    """Paths and URLs separated as in `PATH`."""
    parts = tuple(split_paths(text))
    return parts[0] if len(parts) == 1 else parts


def check_module_names(value: object) -> tuple[str, ...]:
    """`PATTERN=NAME` texts, or a mapping from pattern to name; becomes a tuple of texts."""
    pairs = [f"{pattern}={name}" for pattern, name in value.items()] if isinstance(value, Mapping) else value
    names = _texts_with_dots(pairs)
    for pair in names:
        pattern, _, name = pair.partition("=")
        if not pattern or not all(part.isidentifier() for part in name.split(".")):
            raise FormatError(f"expected PATTERN=MODULE, found {pair!r}")
    return names


def parse_block_sizes(text: str) -> dict[str, Any]:
    """`NAME=INTEGER` pairs separated by commas, or a JSON object."""
    if text.startswith("{"):
        try:
            parsed = parse_json(text.encode("utf-8", "surrogateescape"), "block sizes")
        except RecordingError as fault:
            raise FormatError(fault.what, fault.path) from None
        assert isinstance(parsed, dict)
        return parsed
    sizes: dict[str, Any] = {}
    for pair in parse_names(text):
        name, equals, value = pair.partition("=")
        if not equals or name in sizes:
            raise FormatError(f"expected NAME=INTEGER[,NAME=INTEGER...], each name once, found {text!r}")
        sizes[name.strip()] = parse_integer(value.strip())
    return sizes


def _table_path(value: object) -> str:
    text = os.fspath(_path(value, may_be_url=isinstance(value, str) and is_url(value)))
    if is_url(text) and text.partition("://")[0] in DRIVERS:
        raise FormatError("expected a path or the URL of a store, found the URL of a database")
    return _store_or_path(text) if is_url(text) else text


def _store_or_path(url: str) -> str:
    """The URL of a store, or the path in a `file://` URL.

    Raises:
        FormatError: It is neither.
    """
    try:
        place = place_of(url)
        if isinstance(place, StorePath):
            package_of(place.scheme)
    except UsageError as error:
        raise FormatError(str(error)) from error
    return str(place)


def _path(value: object, *, may_be_url: bool = False) -> StrPath:
    if not isinstance(value, str | os.PathLike):
        raise FormatError(f"expected a path, found {kind_of(value)}")
    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text:
        raise FormatError("expected a path that is not empty and contains no NUL")
    if is_damaged_url(text) or (is_url(text) and not may_be_url):  # not shown: it may hold a password
        raise FormatError(f"{EXPECTED_URL}, or a path" if may_be_url else "expected a path, found something like a URL")
    return value


def _check_url(url: str) -> None:
    scheme, _, place = url.partition("://")
    if DRIVERS[scheme] == "sqlite" and (place[:1] != "/" or place == "/:memory:" or place[-1:] == "/" or "?" in place):
        raise FormatError("expected sqlite:///FILE without options; an in-memory database would end with the process")
    if re.split("[/?]", place)[0].count("@") > 1:
        raise FormatError("the database URL contains two @; write %40 in a user name or password")
