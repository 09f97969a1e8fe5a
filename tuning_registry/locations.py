"""Where things lie on this machine: the user's folder and the environment variables that move it."""

from __future__ import annotations

import os
from pathlib import Path

TABLE_PATH_VARIABLE = "TUNING_REGISTRY_TABLE_PATH"
DATABASE_VARIABLE = "TUNING_REGISTRY_DB"


def user_folder() -> Path:
    """The folder of this user's data: on Linux `$XDG_DATA_HOME/tuning-registry`, else `~/.local/share/...`.

    Nothing is created.
    """
    try:
        # Here, since whoever imports the loader mostly never asks.
        from platformdirs import user_data_path  # noqa: PLC0415
    except ImportError:  # a training image with the bare source only: the same answer for Linux
        pass
    else:
        return user_data_path("tuning-registry", appauthor=False)
    return Path(os.environ.get("XDG_DATA_HOME", "").strip() or Path.home() / ".local/share") / "tuning-registry"


def user_table_folder() -> Path:
    """Where the loader looks for this user's own tables."""
    return user_folder() / "tables"


def default_database() -> Path:
    """The SQLite file that is used when neither `--db` nor the environment names one."""
    return user_folder() / "registry.db"
