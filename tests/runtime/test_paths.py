"""Paths that cannot be used are refused by name or given up for a better one, never raised as they come."""

import os
import pwd
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

from tests.runtime.fakes import autotuner, launch, launched, only_recording, stored, three, write_table
from tuning_registry.errors import FormatError, PolicyError, UsageError
from tuning_registry.formats.recordings import read_recording
from tuning_registry.locations import default_database, user_folder, user_table_folder
from tuning_registry.runtime import active_policy, install, uninstall


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user id without an entry in the password file, as in many a container."""

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("bare", [False, True])
def test_without_a_home_a_given_table_is_found(
    tmp_path: Path, homeless: None, monkeypatch: pytest.MonkeyPatch, bare: bool
) -> None:
    if bare:
        monkeypatch.setitem(__import__("sys").modules, "platformdirs", None)
    table = write_table(tmp_path, {"pkg.ops.kernel": {"*": stored(three()[2])}})
    install({"mode": "pinned", "table_path": table, "arch": "sm90", "on_miss": "error"})
    kernel = autotuner()
    launch(kernel)
    assert launched(kernel) == [32]


def test_without_a_home_a_recording_waits_in_the_folder_for_temporary_files(
    tmp_path: Path, homeless: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    assert (user_folder(), user_table_folder()) == (None, None)
    with pytest.raises(UsageError, match="--db"):
        default_database()
    install({"record_path": "sqlite:///nowhere/r", "arch": "sm90"})
    launch(autotuner())
    uninstall()
    (file,) = tmp_path.rglob("rec.*.json")
    assert list(read_recording(file).votes["sm90"]) == ["pkg.ops.kernel"]
    assert str(file) in caplog.text


@pytest.mark.parametrize(
    "policy",
    [
        {"record_path": "~nosuchuser/rec"},
        {"mode": "pinned", "table_path": "~nosuchuser/tables"},
        {"mode": "pinned", "table_path": "t" * 300},
    ],
)
def test_a_path_that_cannot_be_used_is_refused_and_the_policy_before_stays(policy: Any) -> None:
    install({"mode": "auto"})
    with pytest.raises(PolicyError, match="path"):
        install({"arch": "sm90", **policy})
    policy_now = active_policy()
    assert policy_now is not None
    assert policy_now.mode == "auto"


@pytest.mark.parametrize("policy", [{"record_path": "rec"}, {"mode": "pinned", "table_path": "tables"}])
def test_a_relative_path_in_a_folder_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Any
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(PolicyError, match="path"):
        install({"arch": "sm90", **policy})


@pytest.mark.parametrize("path", ["/.", "x/..", ".", "..", "x/"])
def test_a_record_path_is_not_a_folder(path: str) -> None:
    with pytest.raises(FormatError, match="found a folder"):
        install({"record_path": path})


@pytest.mark.parametrize("name", ["r" * 240, "é" * 120, "r\udcff"])
def test_any_name_that_a_path_can_have_is_recorded(tmp_path: Path, name: str) -> None:
    install({"record_path": tmp_path / name, "arch": "sm90", "run": "x" * 200})
    launch(autotuner())
    uninstall()
    (file,) = tmp_path.iterdir()
    assert os.fsencode(file.name).startswith(os.fsencode(name)[:40])
    assert list(read_recording(file).votes["sm90"]) == ["pkg.ops.kernel"]


def test_a_run_in_bytes_that_are_no_text_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNING_REGISTRY_RUN", "job\udcff")
    install({"record_path": tmp_path / "r", "arch": "sm90"})
    launch(autotuner())
    uninstall()
    assert only_recording(tmp_path).header.run == "job\\udcff"


def test_one_path_in_two_spellings_is_one_recorder_and_two_sources_are_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, policy in enumerate(
        ({"record_path": "r"}, {"record_path": "./r"}, {"record_path": "r", "source": "phase 2"})
    ):
        install({"arch": "sm90", "run": "job", **policy})
        launch(autotuner(name=f"k{number}"))
        uninstall()
    recordings = sorted((sorted(r.votes["sm90"]), r.header.source) for r in map(read_recording, tmp_path.glob("r.*")))
    assert recordings == [(["pkg.ops.k0", "pkg.ops.k1"], None), (["pkg.ops.k2"], "phase 2")]
