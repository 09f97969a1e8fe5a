"""Running the Alembic migrations that ship with the package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config

from tuning_registry.db import schema
from tuning_registry.db.store import Store, find_revision
from tuning_registry.db.url import shown_url
from tuning_registry.errors import SchemaError


def migrations_folder() -> Path:
    """The folder of the migrations: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def alembic_config() -> Config:
    """Alembic's configuration without a file: no logging is set up and no URL is interpolated."""
    config = Config()
    # Alembic reads this option through configparser, to which a percent sign is special.
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    return config


def upgrade_database(store: Store, target: str = "head") -> tuple[str | None, str | None]:
    """Bring the schema to `target`, creating it in an empty database.

    Returns:
        The revision before (None: there was no schema) and after.

    Raises:
        SchemaError: The database is newer than this program.
        DatabaseError: It cannot be opened or written; then it is as it was.
    """
    return _migrate(store, target, command.upgrade)


def downgrade_database(store: Store, target: str) -> tuple[str | None, str | None]:
    """Bring the schema back to an older revision; `base` removes it, with all data.

    Returns and raises as `upgrade_database` does.
    """
    return _migrate(store, target, command.downgrade)


def _migrate(store: Store, target: str, run: Callable[[Config, str], None]) -> tuple[str | None, str | None]:
    with store.migrating() as connection:
        before = find_revision(connection)
        if before is not None and before not in schema.REVISIONS:
            raise SchemaError(
                f"{shown_url(store.url)}: the schema is newer than this program (found {before}, know {schema.HEAD}); "
                "upgrade the package: pip install -U tuning-registry"
            )
        config = alembic_config()
        config.attributes["connection"] = connection
        run(config, target)
        after = find_revision(connection)
    return before, after
