"""The file of a recorder: its name, and disks that fail."""

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import ARCH, autotuner, launch
from tests.runtime.recording.helpers import (
    CONFIGS,
    child,
    entry,
    files,
    made,
    wait_for,
)
from tuning_registry.formats.recordings import rank_in_name, read_recording
from tuning_registry.runtime import AutotunePolicy, install, uninstall
from tuning_registry.runtime.guard import fault_counts
from tuning_registry.runtime.recording import recorder as recorder_module
from tuning_registry.runtime.recording import recording_file
from tuning_registry.runtime.recording.recorder import Recorder


def test_the_name_has_prefix_run_host_process_and_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node-7.cluster.example.com")
    for name, value in {"RANK": "9", "LOCAL_RANK": "1", "WORLD_SIZE": "16"}.items():
        monkeypatch.setenv(name, value)
    recorder = made(tmp_path, run="my job/3")
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    (file,) = files(tmp_path)
    assert file.name == f"r.my-job-3.node-7.{os.getpid()}.rank9.json"
    assert rank_in_name(file.name)[1] == 9
    header = read_recording(file).header
    assert (header.run, header.rank, header.world_size, header.host) == ("my job/3", 9, 16, "node-7")


def test_two_nodes_with_one_local_rank_share_a_folder(tmp_path: Path) -> None:
    for rank in ("1", "9"):
        child(tmp_path, "end", wait=0.0, RANK=rank, LOCAL_RANK="1", WORLD_SIZE="16", TUNING_REGISTRY_RUN="job")
    assert {rank_in_name(file.name)[1] for file in files(tmp_path)} == {1, 9}


def test_a_full_disk_is_logged_once_and_what_was_written_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = made(tmp_path)
    recorder.vote(entry(0), CONFIGS[0], [], [])
    wait_for(lambda: files(tmp_path))
    real, tries = os.fsync, []

    def full(handle: Any) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            tries.append(handle)
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    for number in range(1, 4):
        recorder.vote(entry(number), CONFIGS[0], [], [])
        wait_for(lambda number=number: len(tries) >= number)
    recorder.finish()
    assert fault_counts()["writing the recording"] >= 2
    assert caplog.text.count("writing the recording failed") == 1
    (file,) = files(tmp_path)
    assert list(read_recording(file).votes["sm90"]["pkg.kernel"]) == ["M=0"]


def test_a_record_path_that_cannot_be_written_is_kept_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "elsewhere"))
    recorder = Recorder(str(tmp_path / "file" / "r"), "job", None, interval_s=0.01)
    (tmp_path / "file").write_text("no folder")
    for number in range(3):
        recorder.vote(entry(number), CONFIGS[0], [], [])
    recorder.finish()
    (file,) = (tmp_path / "elsewhere").iterdir()
    assert len(read_recording(file).votes["sm90"]["pkg.kernel"]) == 3
    assert str(file) in caplog.text


def test_a_read_only_folder_is_logged_once_and_does_not_stop_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Root may write anywhere, so the refusal is injected."""
    real = os.open
    recorder = made(tmp_path)

    def read_only(path: Any, flags: Any, *rest: Any) -> Any:
        if str(path).startswith(str(tmp_path / "rec")) and flags & os.O_CREAT:
            raise OSError(30, "Read-only file system")
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    for number in range(3):
        recorder.vote(entry(number), CONFIGS[0], [], [])
        wait_for(lambda number=number: fault_counts().get("writing the recording", 0) > number)
    recorder.finish()
    assert files(tmp_path) == []
    assert caplog.text.count("writing the recording failed") == 1
    assert "Read-only file system" in caplog.text


def test_a_file_system_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()
    monkeypatch.setattr(recorder_module, "_STALL_S", 0.2)
    monkeypatch.setattr(recording_file.RecordingFile, "write", lambda *a: release.wait(20))
    recorder = made(tmp_path)
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    release.set()
    assert "not finished" in caplog.text


def test_a_pipe_with_the_name_of_a_rival_does_not_stop_the_writing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rec.job.host.1.rank0.json")
    file = recording_file.RecordingFile(tmp_path / "rec", lambda: None)
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(file.has_rival("job", 0)), daemon=True)
    thread.start()
    thread.join(10)
    assert answers == [True]


def test_a_second_job_under_a_prefix_too_long_for_a_file_name_is_a_separate_run(tmp_path: Path) -> None:
    prefix = tmp_path / ("p" * 240)
    for _ in range(2):
        install(AutotunePolicy(record_path=prefix, arch=ARCH, run="job", source=str(_)))
        launch(autotuner())
        uninstall()
    runs = {read_recording(file).header.run for file in tmp_path.glob("*.json")}
    assert len(runs) == 2
