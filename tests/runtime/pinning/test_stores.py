"""Tables in object stores: read once, at install, under the rules for local paths."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import ARCH, KEY, NAME, autotuner, launch, launched, stored, three, write_table
from tuning_registry import load
from tuning_registry.errors import FormatError, LaunchError, PolicyError
from tuning_registry.formats.compile_file import compile_file_of
from tuning_registry.formats.stores import place_of
from tuning_registry.runtime import AutotunePolicy, coverage_report, install, uninstall
from tuning_registry.runtime.compile_ahead.background import _file_of
from tuning_registry.runtime.job.devices import Device
from tuning_registry.runtime.policies.options import policy_from_environment

URL = f"memory://bucket/tables/{ARCH}.json"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A store in this process, which has a device."""
    monkeypatch.setattr("tuning_registry.runtime.job.devices.Devices._detect", lambda self: [Device(ARCH)])
    store = importlib.import_module("fsspec").filesystem("memory")
    store.store.clear()
    yield store
    store.store.clear()


def put_table(memory: Any, folder: Path, url: str = URL, place: int = 0, arch: str = ARCH) -> None:
    path = write_table(folder / "local", {NAME: {KEY: stored(three()[place])}}, arch=arch)
    memory.pipe_file(url, path.read_bytes())


@pytest.mark.parametrize("path", [URL, "memory://bucket/tables", "memory://bucket/tables/"])
def test_a_table_in_a_store_pins_and_is_read_at_install_alone(memory: Any, tmp_path: Path, path: str) -> None:
    put_table(memory, tmp_path)
    install(mode="pinned", table_path=path)
    memory.store.clear()
    launch(kernel := autotuner())
    assert launched(kernel) == [128]
    assert not coverage_report().misses


def test_the_environment_separates_urls_by_colons(memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_table(memory, tmp_path)
    monkeypatch.setenv("TUNING_REGISTRY_MODE", "pinned")
    monkeypatch.setenv("TUNING_REGISTRY_TABLE_PATH", f"{tmp_path}:memory://bucket/tables:{tmp_path}")
    assert policy_from_environment().table_path == (str(tmp_path), "memory://bucket/tables", str(tmp_path))
    install()
    launch(kernel := autotuner())
    assert launched(kernel) == [128]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("memory://bucket/none.json", "table path: memory://bucket/none.json: cannot be read: "),
        ("memory://none", "table path: memory://none: cannot be listed: "),
        ("memory://bucket/empty", "table path: memory://bucket/empty contains no table; expected an object such as"),
        ("memory://bucket/broken.json", "table path: memory://bucket/broken.json: not JSON"),
        ("gs://bucket/none.json", "gs:// needs the package gcsfs, which is not installed"),
    ],
)
def test_a_stated_table_that_cannot_be_read_is_an_error(memory: Any, path: str, message: str) -> None:
    memory.pipe_file("memory://bucket/broken.json", b'{"arch": ')
    memory.pipe_file("memory://bucket/empty/notes.txt", b"")
    with pytest.raises(PolicyError, match=message):
        install(mode="pinned", table_path=path, arch=ARCH)


def test_a_broken_table_of_a_folder_matters_to_its_architecture_alone(memory: Any, tmp_path: Path) -> None:
    put_table(memory, tmp_path)
    memory.pipe_file("memory://bucket/tables/sm80.json", b"{}")
    install(mode="pinned", table_path="memory://bucket/tables")
    launch(kernel := autotuner())
    assert launched(kernel) == [128]
    uninstall()
    memory.pipe_file(URL, b"{}")
    install(mode="pinned", table_path="memory://bucket/tables")
    with pytest.raises(LaunchError, match=f"no kernel can be pinned on {ARCH}: {URL}: not a per-arch table"):
        launch(autotuner())


def test_a_store_without_the_table_lets_the_search_go_on(memory: Any, tmp_path: Path) -> None:
    put_table(memory, tmp_path, "memory://bucket/tables/sm80.json", arch="sm80")
    local = write_table(tmp_path / "later", {NAME: {KEY: stored(three()[1])}})
    install(mode="pinned", table_path=["memory://bucket/tables", local.parent], arch=ARCH)
    launch(kernel := autotuner())
    assert launched(kernel) == [64]


def test_a_changed_table_is_used_by_the_next_install(memory: Any, tmp_path: Path) -> None:
    put_table(memory, tmp_path)
    install(mode="pinned", table_path=URL, arch=ARCH)
    put_table(memory, tmp_path, place=1)
    install(mode="pinned", table_path=URL, arch=ARCH)
    launch(kernel := autotuner())
    assert launched(kernel) == [64]


def test_expect_digest_holds_for_stores(memory: Any, tmp_path: Path) -> None:
    put_table(memory, tmp_path)
    digest = load(ARCH, URL).selection_digest
    install(mode="pinned", table_path=URL, arch=ARCH, expect_digest=digest[:16])
    put_table(memory, tmp_path, place=1)
    with pytest.raises(PolicyError, match=f"{URL} has the selection digest"):
        install(mode="pinned", table_path=URL, arch=ARCH, expect_digest=digest[:16])


def test_compile_data_is_looked_for_next_to_the_table(memory: Any, tmp_path: Path) -> None:
    put_table(memory, tmp_path)
    table = load(ARCH, URL)
    assert _file_of(table) is None
    name = compile_file_of(place_of(URL), table.digest)
    memory.pipe_file(str(name), b"")
    assert str(_file_of(table)) == f"memory://bucket/tables/{ARCH}.{table.digest[:16]}.compile"


def test_load_never_raises_for_a_store(memory: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory.pipe_file("memory://bucket/tables/sm90.json", json.dumps({"arch": "sm90", "kernels": {}}).encode())
    assert load("sm90", "memory://bucket/tables").provenance["file"] == "memory://bucket/tables/sm90.json"
    assert not load("sm99", ["memory://none", "postgresql://host/x", "gs://bucket/x.json", "s3:/bucket"])
    said = caplog.text
    assert "table skipped: memory://none/sm99.json: cannot be read" in said
    assert "table path skipped: expected a file, found the URL of a postgresql database" in said


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("record_path", "s3://bucket", r"expected a prefix of object names \(s3://bucket/folder/name\)"),
        ("record_path", "s3://bucket/run/", r"expected a prefix of object names \(s3://bucket/folder/name\)"),
        (
            "record_path",
            "memory://bucket/rec",
            "memory:// does not outlive the process; expected the URL of an object store",
        ),
        ("record_path", "mysql://host/name", "fsspec does not support mysql://"),
        ("record_path", "s3://me:secret@bucket/x", "a s3:// URL contains a password; remove it"),
        ("record_path", "zip://x::s3://me:secret@bucket/x", "chained URLs"),
        ("table_path", "zip://x::s3://me:secret@bucket/x", "chained URLs"),
        ("table_path", "https://host/x.json?sig=secret", "has a query, which may hold a signature"),
        ("record_path", "file:///tmp/%00", "expected file:///PATH"),
        ("table_path", "file:///tmp/%00", "expected file:///PATH"),
        ("table_path", "sqlite:///x.db", "found the URL of a database"),
        ("table_path", ["ok", "nosuch://x/y"], "fsspec does not support nosuch://"),
    ],
)
def test_a_url_of_no_store_is_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        AutotunePolicy(**{field: value})
    assert "secret" not in str(caught.value)


def test_a_file_url_is_a_local_path(tmp_path: Path) -> None:
    policy = AutotunePolicy(record_path=f"file://{tmp_path}/rec", table_path=f"file://{tmp_path}")
    assert (policy.record_path, policy.table_path) == (f"{tmp_path}/rec", str(tmp_path))
