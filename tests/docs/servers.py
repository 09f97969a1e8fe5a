"""The servers of the guides: Postgres at `db.example.com`, whose superuser is `postgres`, and the store of `bucket`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.conftest import ROOT, DebianPostgres
from tests.docs.blocks import POSTGRES_MARK, STORE_MARK
from tests.object_store import CREDENTIALS, Bucket, FaultyStore, moto_server


@contextmanager
def postgres_of(page: str) -> Iterator[dict[str, Any]]:
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


@contextmanager
def store_of(page: str) -> Iterator[dict[str, str]]:
    """An object store of the S3 protocol with the bucket `bucket` if the page asks for one; the variables to reach it."""
    if STORE_MARK not in (ROOT / page).read_text():
        yield {}
        return
    with moto_server() as port:
        store = FaultyStore(port)
        Bucket(port, store, "bucket")
        yield {**CREDENTIALS, "AWS_ENDPOINT_URL": store.url, "STORE": store.url}
        store.close()
