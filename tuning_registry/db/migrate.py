"""Running the Alembic migrations that ship with the package."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config

from tuning_registry.db.schema import REVISIONS
from tuning_registry.db.store import Store, find_revision, refuse_taken_names, refuse_unknown_revision


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
    store: Store, target: str = "head", report: Callable[[int, int], None] | None = None
) -> tuple[str | None, str | None]:
    """Bring the schema to `target`, creating it in an empty database.

    Args:
        store: The database.
        target: The revision.
        report: Called with the number of migrations that have run, and with that of all up to the newest revision.

    Returns:
        The revision before (None if there was no schema) and after.

    Raises:
        SchemaError: The database is newer than this program.
        DatabaseError: It cannot be opened or written. It is unchanged.
    """
    return _migrate(store, target, command.upgrade, report)


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
