"""Database URLs: parsing them, and showing them without passwords."""

from __future__ import annotations

import os
import re
from pathlib import Path

import sqlalchemy as sa

from tuning_registry import locations
from tuning_registry.errors import UsageError
from tuning_registry.locations import (
    DATABASE_VARIABLE,
    DRIVERS,
    EXPECTED_URL,
    URL_START,
    USER_AND_PASSWORD,
    default_database,
)

_KEYWORDS = re.compile(r"\b(host|user|password|dbname|port)\s*=")  # a libpq connection string

IN_MEMORY = sa.URL.create("sqlite", database=":memory:")


def resolve_url(given: str | None) -> sa.URL:
    """The database to use: `given` (`--db`), then `TUNING_REGISTRY_DB`, then the user's SQLite file."""
    if given == "":
        raise UsageError("--db is empty; expected a file or a database URL")
    text = given or os.environ.get(DATABASE_VARIABLE)
    return parse_url(text) if text else sa.URL.create("sqlite", database=str(default_database()))


def parse_url(text: str) -> sa.URL:
    """A database URL, or the path of an SQLite file.

    `postgresql://` and `postgres://` both mean Postgres through psycopg 3.

    Raises:
        UsageError: It is not a URL, or is the URL of another database. The message never quotes it: it may hold a
            password.
    """
    if "\0" in text:
        raise UsageError("the database URL contains a NUL character")
    if "://" not in text and not URL_START.match(text):
        return _url_of_file(text)
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        # Without the cause, which quotes parts of the text.
        raise UsageError(
            f"not a database URL; {EXPECTED_URL} (special characters in a user name or password percent-encoded: "
            "%40 for @)"
        ) from None
    if "@" in (url.host or ""):  # part of a password, which would be printed as the host's name
        raise UsageError("the database URL has two @; in a user name or password write %40")
    driver = DRIVERS.get(url.drivername)
    if driver is None:
        raise UsageError(f"{url.drivername} is not supported; {EXPECTED_URL}")
    if driver == "sqlite":
        if url.host:
            raise UsageError(f"sqlite://{url.host} names a host; a relative file has three slashes: sqlite:///FILE")
        if url.query:
            raise UsageError("an SQLite URL takes no options after ?")
        return url.set(drivername=driver, database=os.path.expanduser(url.database or ":memory:"))  # noqa: PTH111
    return url.set(drivername=driver)


def _url_of_file(path: str) -> sa.URL:
    if _KEYWORDS.search(path):
        raise UsageError("a keyword=value string is not a database URL; expected postgresql://USER@HOST/NAME")
    if USER_AND_PASSWORD.match(path):
        raise UsageError(
            "USER:PASSWORD@ belongs in a database URL, postgresql://USER@HOST/NAME; to name a file, begin its path "
            "with ./"
        )
    return sa.URL.create("sqlite", database=os.path.expanduser(path))  # noqa: PTH111  # keeps ./ and //


def is_in_memory(url: sa.URL) -> bool:
    """Whether the database is only in the memory of this process."""
    return url.get_backend_name() == "sqlite" and url.database in {None, "", ":memory:"}


def sqlite_file(url: sa.URL) -> Path | None:
    """The file of an SQLite URL; None for Postgres and for an in-memory database."""
    if url.get_backend_name() != "sqlite" or is_in_memory(url):
        return None
    return Path(url.database or "").absolute()


def shown_url(url: sa.URL) -> str:
    """The URL for messages: an absolute path for SQLite, without secrets for Postgres (`locations.shown_url`)."""
    file = sqlite_file(url)
    if file is not None:
        return f"sqlite:///{file}"
    if is_in_memory(url):
        return "an in-memory database"
    return locations.shown_url(url.set(drivername="postgresql").render_as_string(hide_password=False))
