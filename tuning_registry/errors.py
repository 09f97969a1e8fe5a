"""Every error the package raises, as one tree.

RegistryError
├── FormatError (ValueError)     a value breaks a rule: config, key, arch, flag
│   └── RecordingError           ... inside a recording file, with its place
├── FileError (OSError)          a file cannot be read or written
├── TableError (ValueError)      a file is no per-arch table, or not the one asked for
├── UsageError (ValueError)      a flag or argument cannot mean what was asked
├── ConflictError                a recording contradicts its flags or what the database holds
├── SelectionError               a query or export cannot answer what was asked
├── PolicyError (ValueError)     an autotune policy cannot work in this process
├── LaunchError (RuntimeError)   a kernel launch that the policy, or a graph capture, forbids
├── AgreementError (RuntimeError)  ranks of one job chose different configs
└── DatabaseError                the database cannot be opened, read or written
    ├── SchemaError              its schema is missing, older, newer or foreign
    ├── BusyError                another process held the lock for too long: try again
    └── UnreachableError         its server does not answer, or went away: try again
"""

from __future__ import annotations


class RegistryError(Exception):
    """Base of every error raised on purpose by this package.

    Its text is inert, whatever names stand in it: logs and tracebacks print it as it is.
    """

    def __str__(self) -> str:
        """The message on one line, what could drive a terminal as escapes."""
        return printable(super().__str__())


class FormatError(RegistryError, ValueError):
    """A value breaks a rule of the formats.

    Args:
        what: What was found and what was expected, as one phrase.
        path: Keys that lead to the value, outermost first.
    """

    def __init__(self, what: str, path: tuple[str, ...] = ()) -> None:
        self.what = what
        self.path = path
        super().__init__(f"at {'/'.join(path)}: {what}" if path else what)

    def under(self, *parents: str) -> FormatError:
        """The same fault seen from further out: `parents` come before its path."""
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
    """A file is not a per-arch table, or is another one than it is named."""


class UsageError(RegistryError, ValueError):
    """A flag or an argument cannot mean what was asked; the command line exits 2."""


class ConflictError(RegistryError):
    """A recording contradicts what the database already holds."""


class SelectionError(RegistryError):
    """A query or an export cannot answer what was asked."""


class PolicyError(RegistryError, ValueError):
    """An autotune policy cannot work in this process."""


class LaunchError(RegistryError, RuntimeError):
    """A kernel launch that the policy, or a graph capture in progress, forbids; nothing was launched.

    Args:
        text: The message.
        miss: Why the table did not decide, where that is the reason.
    """

    def __init__(self, text: str, miss: str = "") -> None:
        super().__init__(text)
        self.miss = miss


class AgreementError(RegistryError, RuntimeError):
    """Ranks of one job chose different configs."""


class DatabaseError(RegistryError):
    """The database cannot be opened, read or written."""


class SchemaError(DatabaseError):
    """The schema is missing, older, newer, or belongs to somebody else."""


class BusyError(DatabaseError):
    """Another process held the write lock for too long; the same command may be tried again."""


class UnreachableError(DatabaseError):
    """The server does not answer, or the connection to it was lost; the same may be tried again."""


def printable(text: str) -> str:
    r"""`text` on one line, with control characters and lone surrogates as `\x..` or `\u....` escapes.

    File, kernel and run names come from outside; printed raw they could drive the terminal.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
