"""Where things lie on this machine: the user's folder and the environment variables that move it."""

from __future__ import annotations

import os
from pathlib import Path

from tuning_registry.errors import UsageError

TABLE_PATH_VARIABLE = "TUNING_REGISTRY_TABLE_PATH"
DATABASE_VARIABLE = "TUNING_REGISTRY_DB"


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
