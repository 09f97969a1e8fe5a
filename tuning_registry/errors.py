"""Every error the package raises, as one tree.

RegistryError
├── FormatError (ValueError)     a value breaks a rule: config, key, arch, flag
│   └── RecordingError           ... inside a recording file, with its place
├── FileError (OSError)          a file cannot be read or written
├── TableError (ValueError)      a file is not a per-arch table, or is for another architecture
├── UsageError (ValueError)      a flag or argument makes no sense
├── PluginError                  a package's file format cannot be loaded, or fails
├── ConflictError                a recording contradicts its flags or the database
├── SelectionError               a query or export cannot be answered
├── PolicyError (ValueError)     an autotune policy cannot work in this process
├── LaunchError (RuntimeError)   the policy or a graph capture forbids a kernel launch
├── AgreementError (RuntimeError)  ranks of one job chose different configs
└── DatabaseError                the database cannot be opened, read or written
    ├── SchemaError              its schema is missing, older, newer or not ours
    ├── BusyError                another process held the write lock for too long: try again
    ├── UnreachableError         its server does not answer, or the connection broke: try again
    ├── ForbiddenError           its user lacks a right
    └── RejectedError            it refuses a value: out of range, too long, or against a constraint
"""

from __future__ import annotations


class RegistryError(Exception):
    """Base of every error that this package raises on purpose.

    Its text is safe to print, whatever names it contains.
    """

    def __str__(self) -> str:
        """The message on one line, with control characters escaped."""
        return printable(super().__str__())


class FormatError(RegistryError, ValueError):
    """A value breaks a rule of the formats.

    Args:
        what: What was found and what was expected.
        path: Keys that lead to the value, outermost first.
    """

    def __init__(self, what: str, path: tuple[str, ...] = ()) -> None:
        self.what = what
        self.path = path
        super().__init__(f"at {'/'.join(path)}: {what}" if path else what)

    def under(self, *parents: str) -> FormatError:
        """The same fault with `parents` before its path, as an outer value reports it."""
        return FormatError(self.what, (*parents, *self.path))


class RecordingError(FormatError):
    """A recording file holds something that is not accepted; names the file and the place in it."""

    def __init__(self, file: str, what: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(what, path)
        self.file = file
        self.args = (f"{file}: {self.args[0]}",)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the arguments of `__init__`: process pools send errors to their parent."""
        return type(self), (self.file, self.what, self.path), self.__dict__


class FileError(RegistryError, OSError):
    """A file cannot be read or written."""


class TableError(RegistryError, ValueError):
    """A file is not a per-arch table, or is for another architecture than expected."""


class UsageError(RegistryError, ValueError):
    """A flag or an argument makes no sense; the command line exits with status 2."""


class PluginError(RegistryError):
    """A package's format cannot be loaded, or failed with an error that is not about a file."""


class ConflictError(RegistryError):
    """A recording contradicts what the database already holds."""


class SelectionError(RegistryError):
    """A query or an export cannot be answered."""


class PolicyError(RegistryError, ValueError):
    """An autotune policy cannot work in this process."""


class LaunchError(RegistryError, RuntimeError):
    """The policy, or a graph capture in progress, forbids a kernel launch; nothing was launched.

    Args:
        text: The message.
        miss: Why the table did not decide, if that is the reason.
    """

    def __init__(self, text: str, miss: str = "") -> None:
        super().__init__(text)
        self.miss = miss


class AgreementError(RegistryError, RuntimeError):
    """Ranks of one job chose different configs."""


class DatabaseError(RegistryError):
    """The database cannot be opened, read or written."""


class SchemaError(DatabaseError):
    """The schema is missing, older, newer, or belongs to another program."""


class BusyError(DatabaseError):
    """Another process held the write lock for too long; try the same command again."""


class UnreachableError(DatabaseError):
    """The server does not answer, or the connection to it broke; try the same command again."""


class ForbiddenError(DatabaseError):
    """The user of the database lacks a right; the message names the role that has it."""


class RejectedError(DatabaseError):
    """The database refuses a value: it is out of range, too long, or against a constraint."""


# See docs/decisions.md, D13.
def printable(text: str) -> str:
    r"""`text` on one line, with control characters and lone surrogates as `\x..` or `\u....` escapes.

    File, kernel and run names come from outside. Printed as they are, they could control the terminal.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def describe(value: object) -> str:
    """A JSON value in words, short enough for an error message."""
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    if isinstance(value, int):
        return f"the integer {value}" if value.bit_length() <= 64 else "a long integer"
    if isinstance(value, float):
        return f"the number {value!r}"
    if isinstance(value, str):
        shown = value if len(value) <= 40 else value[:37] + "..."
        return f"the string {shown!r}"
    return "an array" if isinstance(value, list) else "an object"
