"""The Postgres server of the guides: `db.example.com`, whose superuser is `postgres`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.conftest import ROOT, DebianPostgres
from tests.docs.blocks import POSTGRES_MARK


@contextmanager
def server_of(page: str) -> Iterator[dict[str, Any]]:
    """A new server if the page asks for one; what a `Shell` needs to reach it.

    libpq's variables say where the host of a URL is, so URLs are used as the page shows them.
    """
    if POSTGRES_MARK not in (ROOT / page).read_text():
        yield {}
        return
    server = DebianPostgres()
    server.make()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server.start(f"-c listen_addresses=127.0.0.1 -c port={port}")
    client = {"PGHOSTADDR": "127.0.0.1", "PGPORT": str(port), "PGHOST": "db.example.com", "PGUSER": "postgres"}
    yield {"variables": client, "tools": [server.tools]}
    server.remove()
