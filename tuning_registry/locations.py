"""Where things lie: the user's folder, the environment variables that move it, and what a database URL looks like."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tuning_registry.errors import UsageError

TABLE_PATH_VARIABLE = "TUNING_REGISTRY_TABLE_PATH"
DATABASE_VARIABLE = "TUNING_REGISTRY_DB"

# What may stand before the :// of a database URL, and the SQLAlchemy driver that it means.
DRIVERS: Final[Mapping[str, str]] = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
EXPECTED_URL: Final = "expected sqlite:///FILE or postgresql://USER@HOST/NAME"
# Options of a Postgres URL that are printed; any other may hold a secret, a mistyped `pasword` too.
SHOWN_OPTIONS: Final = frozenset({"application_name", "connect_timeout", "dbname", "host", "port", "sslmode"})

URL_START: Final = re.compile(r"(postgres(ql)?|sqlite)(\+\w+)?(:|//)")  # a slash or colon short, but no file name
USER_AND_PASSWORD: Final = re.compile(r"(\w*:?//)?[^/@:]+:[^@]*@")  # ... likewise, and with what must not be printed


def is_url(path: str) -> bool:
    """Whether a text is a URL (`sqlite:///...`, `postgresql://...`) and not a path of files."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path) is not None


def is_damaged_url(path: str) -> bool:
    """Whether a text is meant as a database URL and is none: a slash short, in quotes, without its scheme.

    It must not be printed: it may hold a password.
    """
    if is_url(path):
        return False
    bare = path.strip(" \t\n\"'")
    return "://" in bare or URL_START.match(bare) is not None or USER_AND_PASSWORD.match(bare) is not None


def shown_url(url: str) -> str:
    """`url` as it may stand in the log: without password, and with the options that cannot hold one.

    A password that should have been percent-encoded (`p@ss`, `a:b`, `a/b`) is hidden to its last `@`.
    """
    if not is_url(url) or DRIVERS.get(url.partition("://")[0]) == "sqlite":
        return url
    base, mark, query = url.partition("?")
    if "@" in query:  # the end of a password, which may begin anywhere
        return base.partition("://")[0] + "://***"
    base = re.sub(r"(://[^:]*:).*@", r"\1***@", base, flags=re.DOTALL)
    options = (part.partition("=") for part in query.split("&"))
    shown = (name + equals + (value if name in SHOWN_OPTIONS else "***") for name, equals, value in options)
    return base + (mark and mark + "&".join(shown))


def absolute_location(location: str) -> str:
    """A path, or the URL of an SQLite file, that means the same from any current folder; other URLs as they are.

    Raises:
        OSError: The path is relative and the current folder is gone.
        RuntimeError: The path begins with `~` and there is no such home.
    """
    start, mark, rest = location.partition(":///")
    if is_url(location):
        return f"{start}{mark}{Path(rest).absolute()}" if mark and DRIVERS.get(start) == "sqlite" else location
    return str(Path(location).expanduser().absolute())


def user_folder() -> Path | None:
    """The folder of this user's data: on Linux `$XDG_DATA_HOME/tuning-registry`, else `~/.local/share/...`.

    Nothing is created. None for a user without a home: no `HOME`, and no entry in the password file, as many a
    container has it.
    """
    if not os.environ.get("XDG_DATA_HOME", "").strip() and os.path.expanduser("~") == "~":  # noqa: PTH111  # raises not
        return None
    try:
        # Here, since whoever imports the loader mostly never asks.
        from platformdirs import user_data_path  # noqa: PLC0415
    except ImportError:  # a training image with the bare source only: the same answer for Linux
        pass
    else:
        return user_data_path("tuning-registry", appauthor=False)
    return Path(os.environ.get("XDG_DATA_HOME", "").strip() or Path.home() / ".local/share") / "tuning-registry"


def user_table_folder() -> Path | None:
    """Where the loader looks for this user's own tables; None for a user without a home."""
    folder = user_folder()
    return None if folder is None else folder / "tables"


def default_database() -> Path:
    """The SQLite file that is used when neither `--db` nor the environment names one.

    Raises:
        UsageError: This user has no home.
    """
    folder = user_folder()
    if folder is None:
        raise UsageError(f"this user has no home folder to keep a database in; set --db or {DATABASE_VARIABLE}")
    return folder / "registry.db"
