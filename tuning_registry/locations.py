"""Default locations, the environment variables that change them, and the form of database URLs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tuning_registry.errors import UsageError

TABLE_PATH_VARIABLE = "TUNING_REGISTRY_TABLE_PATH"
DATABASE_VARIABLE = "TUNING_REGISTRY_DB"

# The accepted schemes of a database URL, and the SQLAlchemy driver of each.
DRIVERS: Final[Mapping[str, str]] = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
EXPECTED_URL: Final = "expected sqlite:///FILE or postgresql://USER@HOST/NAME"
# Options of a Postgres URL that are printed. Any other may hold a secret, such as a mistyped `pasword`.
SHOWN_OPTIONS: Final = frozenset({"application_name", "connect_timeout", "dbname", "host", "port", "sslmode"})

URL_START: Final = re.compile(
    r"(postgres(ql)?|sqlite)(\+\w+)?(:|//)"
)  # lacks a slash or a colon, but is not a file name
USER_AND_PASSWORD: Final = re.compile(r"(\w*:?//)?[^/@:]+:[^@]*@")  # likewise, with a password


def is_url(path: str) -> bool:
    """Whether a text is a URL (`sqlite:///...`, `postgresql://...`) and not a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path) is not None


def split_paths(text: str) -> list[str]:
    """Split a list of paths and URLs that is separated like `PATH`. The colon of a URL does not separate."""
    return [part for part in re.split(rf"{re.escape(os.pathsep)}(?!//)", text) if part]


def is_damaged_url(path: str) -> bool:
    """Whether a text looks like a broken database URL: without a slash or its scheme, or in quotes.

    Do not print such a text. It may hold a password.
    """
    if is_url(path):
        return False
    bare = path.strip(" \t\n\"'")
    return "://" in bare or URL_START.match(bare) is not None or USER_AND_PASSWORD.match(bare) is not None


def shown_url(url: str) -> str:
    """A URL that is safe to log: without its password, and only with options that cannot hold one.

    A password that should have been percent-encoded (`p@ss`, `a:b`, `a/b`) is hidden to its last `@`.
    """
    if not is_url(url) or DRIVERS.get(url.partition("://")[0]) == "sqlite":
        return url
    base, mark, query = url.partition("?")
    if "@" in query:  # the end of a password, which could begin anywhere
        return base.partition("://")[0] + "://***"
    base = re.sub(r"(://[^:]*:).*@", r"\1***@", base, flags=re.DOTALL)
    options = (part.partition("=") for part in query.split("&"))
    shown = (name + equals + (value if name in SHOWN_OPTIONS else "***") for name, equals, value in options)
    return base + (mark and mark + "&".join(shown))


def absolute_location(location: str) -> str:
    """An absolute path, or the URL of an SQLite file with one; other URLs are returned as given.

    A leading `~` means the home folder in both.

    Raises:
        OSError: The path is relative and the current folder no longer exists.
        RuntimeError: The path begins with `~` and that home folder is unknown.
    """
    start, mark, rest = location.partition(":///")
    if is_url(location):
        is_file = mark and DRIVERS.get(start) == "sqlite"
        home = os.path.expanduser(rest)  # noqa: PTH111  # leaves the name of an unknown user alone
        return f"{start}{mark}{Path(home).absolute()}" if is_file else location
    return str(Path(location).expanduser().absolute())


def user_folder() -> Path | None:
    """The data folder of the current user: on Linux `$XDG_DATA_HOME/tuning-registry`, by default in `~/.local/share`.

    Creates nothing. None for a user without a home folder: no `HOME` and no entry in the password file, as in many
    containers.
    """
    if not os.environ.get("XDG_DATA_HOME", "").strip() and os.path.expanduser("~") == "~":  # noqa: PTH111  # Path.expanduser raises
        return None
    try:
        # Imported here because most users of the loader never need it.
        from platformdirs import user_data_path  # noqa: PLC0415
    except ImportError:  # an image with the bare source only: the same answer for Linux
        pass
    else:
        return user_data_path("tuning-registry", appauthor=False)
    return Path(os.environ.get("XDG_DATA_HOME", "").strip() or Path.home() / ".local/share") / "tuning-registry"


def user_table_folder() -> Path | None:
    """The folder of tables of the current user; None for a user without a home folder."""
    folder = user_folder()
    return None if folder is None else folder / "tables"


def user_database() -> Path | None:
    """The database file of the current user; None for a user without a home folder."""
    folder = user_folder()
    return None if folder is None else folder / "registry.db"


def default_database() -> Path:
    """The SQLite file that is used if neither `--db` nor the environment names a database.

    Raises:
        UsageError: The user has no home folder.
    """
    file = user_database()
    if file is None:
        raise UsageError(
            f"the current user has no home folder for the default database; set --db or {DATABASE_VARIABLE}"
        )
    return file
