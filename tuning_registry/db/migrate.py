"""Running the Alembic migrations that ship with the package."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config

from tuning_registry.db import packing
from tuning_registry.db.roles import MIGRATE
from tuning_registry.db.schema import HEAD, REVISIONS
from tuning_registry.db.store import Store, find_revision, refuse_taken_names, refuse_unknown_revision

Track = Callable[[Sequence[list[int]]], Iterable[list[int]]]  # iterates, and may show how far it is
_ROWS_AT_A_TIME: Final = 100_000  # a bound on memory and on how long others wait


def migrations_folder() -> Path:
    """The folder of the migrations: inside the installed package, or next to it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def alembic_config() -> Config:
    """Alembic's configuration without a file, so that it sets up no logging and interpolates no URL."""
    config = Config()
    # Alembic reads this option with configparser, which treats percent signs as special.
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    return config


def upgrade_database(
    store: Store, target: str = "head", report: Callable[[int, int], None] | None = None, track: Track = iter
) -> tuple[str | None, str | None]:
    """Bring the schema to `target`, creating it in an empty database. At the newest one, also pack rows of timings.

    Rows are packed some entries at a time, each time in a transaction. If this is interrupted, the database is valid, and
    the next upgrade goes on where it stopped.

    Args:
        store: The database.
        target: The revision.
        report: Called with the number of migrations that have run, and with that of all up to the newest revision.
        track: Wraps the groups of entries to pack, to show progress.

    Returns:
        The revision before (None if there was no schema) and after.

    Raises:
        SchemaError: The database is newer than this program.
        DatabaseError: It cannot be opened or written. It is unchanged.
    """
    done = _migrate(store, target, command.upgrade, report)
    if done[1] == HEAD:
        _pack_rows(store, track)
    return done


# See docs/decisions.md, D111.
def _pack_rows(store: Store, track: Track) -> None:
    with store.reading() as reading:
        due = packing.entries_to_pack(reading)
    parts: list[list[int]] = []
    rows = _ROWS_AT_A_TIME
    for entry, number in due:
        if rows + number > _ROWS_AT_A_TIME:
            parts.append([])
            rows = 0
        parts[-1].append(entry)
        rows += number
    for part in track(parts):
        with store.writing(MIGRATE) as transaction:
            packing.pack_entries(transaction, part)


def downgrade_database(store: Store, target: str) -> tuple[str | None, str | None]:
    """Bring the schema back to an older revision; `base` removes it, with all data.

    Returns and raises as `upgrade_database` does.
    """
    return _migrate(store, target, command.downgrade)


def _migrate(
    store: Store,
    target: str,
    run: Callable[[Config, str], None],
    report: Callable[[int, int], None] | None = None,
) -> tuple[str | None, str | None]:
    with store.migrating() as connection:
        before = find_revision(connection)
        if before is None:
            refuse_taken_names(connection)
        else:
            refuse_unknown_revision(before, store.url)
        config = alembic_config()
        config.attributes["connection"] = connection
        if report is not None:
            config.attributes["on_version_apply"] = _steps(before, report)
        run(config, target)
        after = find_revision(connection)
    return before, after


def _steps(before: str | None, report: Callable[[int, int], None]) -> Callable[..., None]:
    """What Alembic calls after each migration."""
    past = 0 if before is None else REVISIONS.index(before) + 1
    done = itertools.count(1)
    report(0, len(REVISIONS) - past)
    return lambda **_: report(next(done), len(REVISIONS) - past)
