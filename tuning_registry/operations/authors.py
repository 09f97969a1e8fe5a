"""Who decides or exports, unless a name is given."""

from __future__ import annotations

import getpass
import os
import socket


def current_user() -> str:
    """User and host of this process: `alice@node7`."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in containers
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
