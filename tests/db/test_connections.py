"""TLS and password files, as any client of libpq takes them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import trustme
from typer.testing import CliRunner, Result

from tests.conftest import H200, DebianPostgres
from tests.helpers import error_of
from tuning_registry.cli.app import app
from tuning_registry.db.dialects import connect_engine
from tuning_registry.db.url import parse_url

PASSWORD = "hunter2:\\/"


@dataclass
class Secured:
    """A server that takes TLS and passwords only, and who signed its certificate."""

    port: int
    authority: Path

    def url(self, host: str = "localhost", **options: str) -> str:
        said = {"sslmode": "verify-full", "sslrootcert": str(self.authority), **options}
        return f"postgresql://fleet@{host}:{self.port}/tuning?" + "&".join(f"{k}={v}" for k, v in said.items())


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    server, authority = DebianPostgres(), trustme.CA()
    server.make()
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(str(server.data / "server.key"))
    certificate.cert_chain_pems[0].write_to_path(str(server.data / "server.crt"))
    (server.data / "pg_hba.conf").write_text("local all all trust\nhostssl all all all scram-sha-256\n")
    for file in (server.data / "server.key", server.data / "server.crt"):
        file.chmod(0o600)
        os.chown(file, server.data.stat().st_uid, server.data.stat().st_gid)
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    server.start(f"-c listen_addresses=localhost -p {port} -c ssl=on")
    with psycopg.connect(f"{server.url}&port={port}", autocommit=True) as connection:
        connection.execute(f"CREATE ROLE fleet LOGIN PASSWORD '{PASSWORD}'".encode())
        connection.execute("CREATE DATABASE tuning OWNER fleet")
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    yield Secured(port, tmp_path / "authority.pem")
    server.remove()


@pytest.fixture
def passwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "passwords"
    file.write_text("localhost:*:tuning:fleet:" + PASSWORD.replace("\\", "\\\\").replace(":", "\\:") + "\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    return file


def ask(url: str, *words: object) -> Result:
    result = CliRunner().invoke(app, ["--db", url, *map(str, words)])
    assert "hunter2" not in result.stdout + result.stderr
    return result


def test_tls_and_password_files_work_as_with_any_client(
    secured: Secured, passwords: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(secured.url(), "ingest", H200, "--run", "demo").exit_code == 0
    assert ask(secured.url(), "export", "--arch", "sm90", "-o", tmp_path / "sm90.json").exit_code == 0
    with psycopg.connect(secured.url()) as connection:
        assert connection.execute("SELECT count(*) FROM votes").fetchall() == [(360,)]

    plain = ask(secured.url(sslmode="disable"), "winners")
    assert ": cannot connect: " in error_of(plain)
    assert "no encryption" in error_of(plain)

    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    stranger = ask(secured.url(sslrootcert=str(tmp_path / "other.pem")), "winners")
    assert "certificate verify failed" in error_of(stranger)

    passwords.write_text("localhost:*:tuning:fleet:hunter2 is wrong\n")
    assert "password authentication failed" in error_of(ask(secured.url(), "winners"))
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "nowhere"))
    assert "no password supplied" in error_of(ask(secured.url(), "winners"))
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGSSLROOTCERT", str(secured.authority))
    assert ask(f"postgresql://fleet@localhost:{secured.port}/tuning", "winners").exit_code == 0


def test_a_host_that_vanishes_is_noticed(postgres_server: str) -> None:
    """Without these options, a statement would wait for two hours for the answer of a host that is gone."""
    with connect_engine(parse_url(postgres_server), writable=True).connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        options = driver.info.get_parameters()
    assert (options["keepalives_idle"], options["keepalives_interval"], options["keepalives_count"]) == (
        "30",
        "10",
        "6",
    )
