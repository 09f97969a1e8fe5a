"""The tables that a policy pins from."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import ARCH, KEY, NAME, autotuner, launch, launched, stored, three, write_table
from tuning_registry.errors import LaunchError, PolicyError
from tuning_registry.formats import table as table_module
from tuning_registry.formats.files import read_bytes
from tuning_registry.formats.table import read_table
from tuning_registry.runtime import install, uninstall
from tuning_registry.runtime.job.devices import Device


def test_a_table_file_is_read_once_from_install_to_the_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []

    def counting(path: Path) -> bytes:
        reads.append(path)
        return read_bytes(path)

    monkeypatch.setattr(table_module, "read_bytes", counting)
    path = write_table(tmp_path, {NAME: {KEY: stored(three()[0])}})
    install(mode="pinned", table_path=path, arch=ARCH)
    assert reads == [path]
    path.unlink()  # what was checked is what is used
    path.write_text("{}")
    for kernel in (autotuner(), autotuner()):
        launch(kernel)
        assert launched(kernel) == [128]
    assert reads == [path]


def test_an_empty_table_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_table(tmp_path, {})
    install(mode="pinned", table_path=path, arch=ARCH)
    monkeypatch.setattr(table_module, "read_bytes", lambda path: pytest.fail("read again"))
    launch(kernel := autotuner())
    assert launched(kernel) == [32]


def test_of_several_paths_the_first_table_of_the_architecture_is_used(tmp_path: Path) -> None:
    paths = [
        write_table(tmp_path / str(number), {NAME: {KEY: stored(three()[number])}}, arch=arch)
        for number, arch in enumerate(("sm80", ARCH, ARCH))
    ]
    install(mode="pinned", table_path=paths, arch=ARCH)
    launch(kernel := autotuner())
    assert launched(kernel) == [64]


@pytest.mark.parametrize(("content", "message"), [("{}", "not a per-arch table"), ('{"arch": ', "truncated")])
def test_a_file_that_is_not_a_table_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    (tmp_path / "sm90.json").write_text(content)
    with pytest.raises(PolicyError, match=message):
        install(mode="pinned", table_path=tmp_path / "sm90.json")
    assert install(mode="pinned", table_path=tmp_path).mode == "pinned"


def path_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, path: object) -> dict[str, Any]:
    """The fields of a policy whose table path is stated in one of the three ways."""
    if how == "variable":
        monkeypatch.setenv("TUNING_REGISTRY_TABLE_PATH", str(path))
        return {}
    return {"table_path": path if how == "policy" else [tmp_path, path]}


@pytest.mark.parametrize("how", ["policy", "list", "variable"])
@pytest.mark.parametrize("fields", [{}, {"arch": ARCH}, {"on_miss": "error"}])
def test_a_stated_path_that_does_not_exist_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, fields: Any
) -> None:
    path = tmp_path / "tablez"
    with pytest.raises(PolicyError, match="tablez does not exist"):
        install(mode="pinned", **path_fields(tmp_path, monkeypatch, how, path), **fields)


@pytest.mark.parametrize("how", ["policy", "list", "variable"])
@pytest.mark.parametrize("on_miss", ["min_cost", "error"])
@pytest.mark.parametrize("content", ["<<<<<<< HEAD\n", "{}", '{"arch": "sm80", "kernels": {}}'])
def test_a_broken_table_in_a_stated_folder_never_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, on_miss: str, content: str
) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "sm90.json").write_text(content)
    fields = {**path_fields(tmp_path, monkeypatch, how, folder), "mode": "pinned", "on_miss": on_miss}
    with pytest.raises(PolicyError, match=r"sm90\.json"):
        install(**fields, arch=ARCH)
    monkeypatch.setattr("tuning_registry.runtime.job.devices.Devices._detect", lambda self: [Device(ARCH)])
    install(**fields)
    kernel = autotuner()
    for _ in range(2):
        with pytest.raises(LaunchError, match=r"no kernel can be pinned on sm90: .*sm90\.json"):
            launch(kernel)
    assert (kernel.fn.launches, kernel.timer.calls) == ([], 0)


def test_a_file_for_another_device_never_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_table(tmp_path, {NAME: {KEY: stored(three()[0])}}, arch="sm80")
    monkeypatch.setattr("tuning_registry.runtime.job.devices.Devices._detect", lambda self: [Device(ARCH)])
    install(mode="pinned", table_path=path)
    with pytest.raises(LaunchError, match=r"sm80\.json is for sm80, but the architecture is sm90"):
        launch(autotuner())


def test_a_stated_folder_without_a_table_lets_the_search_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    file = write_table(tmp_path / "user", {NAME: {KEY: stored(three()[0])}})
    monkeypatch.setattr("tuning_registry.formats.loader.user_table_folder", lambda: tmp_path / "user")
    caplog.set_level("INFO", logger="tuning_registry")
    install(mode="pinned", table_path=tmp_path / "empty", arch=ARCH)
    launch(kernel := autotuner())
    assert launched(kernel) == [128]
    assert f"pinning from {file}: 1 entry" in caplog.text


def test_the_first_line_names_the_table_and_its_entries(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write_table(tmp_path, {NAME: {KEY: stored(three()[0]), "*": stored(three()[1])}})
    caplog.set_level("INFO", logger="tuning_registry")
    for path in (file, tmp_path):
        caplog.clear()
        install(mode="pinned", table_path=path, arch=ARCH)
        assert f"pinning from {file}: 2 entries" in caplog.records[0].getMessage()
        uninstall()


def test_no_table_at_all_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    install(mode="pinned", table_path=tmp_path, arch="sm91")
    launch(autotuner())
    (warning,) = [
        r.getMessage() for r in caplog.records if "no table for sm91" in r.getMessage() and "Searched" in r.getMessage()
    ]
    assert str(tmp_path) in warning


def test_the_expected_digest_is_required_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_table(tmp_path, {NAME: {KEY: stored(three()[0])}})
    digest = read_table(file).selection_digest
    for expected in (digest, digest[:12], digest[:16].upper() + "..."):
        install(mode="pinned", table_path=tmp_path, arch=ARCH, expect_digest=expected)
        launch(autotuner())
    other = "0" * 64
    for path in (tmp_path, file):
        with pytest.raises(PolicyError, match=f"has the selection digest {digest}, but expect_digest is {other}"):
            install(mode="pinned", table_path=path, arch=ARCH, expect_digest=other)
    with pytest.raises(PolicyError, match="expect_digest"):  # one file: the device does not matter
        install(mode="pinned", table_path=file, expect_digest=other)
    monkeypatch.setattr("tuning_registry.runtime.job.devices.Devices._detect", lambda self: [Device(ARCH)])
    install(mode="pinned", table_path=tmp_path, expect_digest=other)
    with pytest.raises(LaunchError, match="has the selection digest"):
        launch(kernel := autotuner())
    assert kernel.fn.launches == []
    with pytest.raises(PolicyError, match="is missing"):
        install(mode="pinned", table_path=tmp_path, arch="sm91", expect_digest=digest)


def test_a_ban_changes_the_selection_digest_and_not_the_digest(tmp_path: Path) -> None:
    kernels = {NAME: {KEY: stored(three()[0])}}
    ban = {"action": "ban", "kernel": NAME, "key": "*", "config": stored(three()[1]), "reason": "slow"}
    plain = read_table(write_table(tmp_path / "plain", kernels))
    banned = read_table(write_table(tmp_path / "banned", kernels, extra={"overrides": [ban]}))
    reworded = read_table(
        write_table(tmp_path / "reworded", kernels, extra={"overrides": [{**ban, "reason": "wrong"}]})
    )
    assert plain.selection_digest == plain.digest == banned.digest
    assert banned.selection_digest == reworded.selection_digest != plain.selection_digest
    assert banned.provenance["tuning_registry"]["selection_digest"] == banned.selection_digest
    assert "selection_digest" not in plain.provenance["tuning_registry"]


def test_an_edited_ban_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ban = {"action": "ban", "kernel": NAME, "key": "*", "config": stored(three()[1]), "reason": "slow"}
    file = write_table(tmp_path, {NAME: {KEY: stored(three()[0])}}, extra={"overrides": [ban]})
    file.write_text(file.read_text().replace('"action": "ban"', '"action": "pin"'))
    install(mode="pinned", table_path=file, arch=ARCH)
    launch(autotuner())
    assert "selection digest does not match" in caplog.text


def test_a_ban_that_cannot_be_read_refuses_the_table(tmp_path: Path) -> None:
    file = write_table(tmp_path, {NAME: {KEY: stored(three()[0])}})
    document = json.loads(file.read_text())
    document["tuning_registry"]["overrides"] = [{"action": "ban", "kernel": NAME}]
    file.write_text(json.dumps(document))
    with pytest.raises(PolicyError, match=r"overrides/0: required field 'key' is missing"):
        install(mode="pinned", table_path=file, arch=ARCH)


def test_the_search_path_is_that_of_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts change their folder, and not on every rank to the same one."""
    (tmp_path / "tables").mkdir()
    write_table(tmp_path / "output" / "tables", {NAME: {"*": stored(three()[0])}})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNING_REGISTRY_TABLE_PATH", "tables")
    install(mode="pinned", arch=ARCH, on_miss="min_cost")
    monkeypatch.chdir(tmp_path / "output")
    launch(kernel := autotuner())
    assert launched(kernel) == [32]
