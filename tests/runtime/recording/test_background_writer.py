"""Writing that goes on: after faults, without a thread, in slices, beyond any fixed limit of time."""

import itertools
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.recording.helpers import CONFIGS, URL, FakeDatabase, entry, files, made, wait_for
from tuning_registry.formats.recording_writer import timings_text
from tuning_registry.formats.recordings import read_recording
from tuning_registry.locations import shown_url
from tuning_registry.model.canonical import config_text
from tuning_registry.model.records import Timing
from tuning_registry.runtime import control
from tuning_registry.runtime.guard import fault_counts
from tuning_registry.runtime.recording import background_writer, notes, recording_file
from tuning_registry.runtime.recording import recorder as recorder_module
from tuning_registry.runtime.recording.owners import Owners
from tuning_registry.runtime.recording.recorder import Recorder


def votes(tmp_path: Path) -> int:
    return sum(len(read_recording(file).votes["sm90"]["pkg.kernel"]) for file in files(tmp_path))


def test_a_write_that_failed_is_tried_again_without_a_new_choice(tmp_path: Path) -> None:
    recorder = made(tmp_path)
    (tmp_path / "rec").rmdir()
    (tmp_path / "rec").write_text("no folder")
    recorder.vote(entry(), CONFIGS[0], [], [])
    wait_for(lambda: fault_counts().get("writing the recording", 0) > 1)
    (tmp_path / "rec").unlink()
    wait_for((tmp_path / "rec").is_dir)
    wait_for(lambda: files(tmp_path))
    assert votes(tmp_path) == 1
    recorder.finish()


def test_pauses_between_failed_writes_grow_to_a_limit() -> None:
    tries: list[float] = []

    def fail() -> bool:
        tries.append(time.monotonic())
        return False

    one = background_writer.BackgroundWriter(fail, interval_s=0.02)
    one.touch()
    wait_for(lambda: len(tries) == 5)
    one.finish(lambda: None)
    pauses = [after - before for before, after in itertools.pairwise(tries)]
    assert pauses[-1] > 2 * pauses[0]


def test_without_a_thread_the_end_writes_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    recorder = made(tmp_path)
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    recorder.finish()
    assert votes(tmp_path) == 1


def test_a_write_serializes_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serialized: list[Any] = []

    def serialize(timed: Any) -> bytes:
        serialized.append(timed)
        return timings_text(timed)

    monkeypatch.setattr(notes, "timings_text", serialize)
    recorder = made(tmp_path)
    for number in range(5):
        recorder.vote(entry(number), CONFIGS[0], [Timing(CONFIGS[0], 1.0, 1.0, 1.0)], [])
        wait_for(lambda number=number: files(tmp_path) and votes(tmp_path) == number + 1)
    recorder.finish()
    assert len(serialized) == 5


def test_other_threads_run_while_much_is_serialized(tmp_path: Path) -> None:
    """The longest time that a thread which only sleeps is kept waiting, while entries have 2,000 timings each."""
    texts = [config_text({"kwargs": {"B": b}, "num_warps": 4, "num_stages": 2}) for b in range(50)]
    timings = [Timing(text, 1.0, 0.9, 1.1) for text in texts]
    recorder = made(tmp_path, interval_s=60)
    recorder.vote(entry(-1), CONFIGS[0], [], [])
    for number in range(500):
        recorder.vote(entry(number), texts[0], timings, texts)
    pauses: list[float] = []
    ending = threading.Thread(target=recorder.finish)
    ending.start()
    while ending.is_alive():
        began = time.perf_counter()
        time.sleep(0.0005)
        pauses.append(time.perf_counter() - began)
    ending.join()
    assert votes(tmp_path) == 501
    assert sorted(pauses)[len(pauses) // 2] < 0.05


def test_the_end_waits_for_as_long_as_the_writing_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_STALL_S", 0.3)
    real = recording_file.RecordingFile._write

    def slowly(file: Any, path: Any, chunks: Any) -> None:
        for _ in range(10):
            time.sleep(0.1)
            file._beat()
        real(file, path, chunks)

    monkeypatch.setattr(recording_file.RecordingFile, "_write", slowly)
    recorder = made(tmp_path)
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    assert votes(tmp_path) == 1


def test_the_first_write_does_not_wait_for_the_owners_of_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    real = Owners.find

    def slowly(self: Any, *arguments: Any) -> None:
        assert release.wait(10)
        real(self, *arguments)

    monkeypatch.setattr(Owners, "find", slowly)
    recorder = made(tmp_path)
    recorder.vote(entry(0, "hypothesis.core.kernel"), CONFIGS[0], [], [])
    wait_for(lambda: files(tmp_path))
    assert read_recording(files(tmp_path)[0]).header.packages == {}
    release.set()
    wait_for(lambda: read_recording(files(tmp_path)[0]).header.packages)
    recorder.finish()


class SlowDatabase(FakeDatabase):
    """A database that takes a recording once it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def append_hand_in(self, url: Any, identity: Any, payload: Any, wait_s: Any) -> None:
        self.urls.append(url)
        assert self.release.wait(10)
        super().append_hand_in(url, identity, payload, wait_s)


def test_replacing_a_policy_does_not_wait_for_a_database_and_the_exit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    from tests.runtime.fakes import autotuner, launch
    from tuning_registry.runtime import install

    slow = SlowDatabase()
    monkeypatch.setitem(sys.modules, "tuning_registry.db.appending", slow)
    monkeypatch.setattr(control, "_PATIENCE_S", 0.1)
    install({"record_path": URL, "arch": "sm90", "run": "job"})
    launch(autotuner())
    began = time.monotonic()
    install({"mode": "auto"})
    assert time.monotonic() - began < 5
    assert slow.recordings == []
    threading.Timer(0.2, slow.release.set).start()
    control._at_exit()
    assert len(slow.recordings) == 1


def test_a_recorder_that_is_taken_up_again_waits_for_its_own_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowDatabase()
    monkeypatch.setitem(sys.modules, "tuning_registry.db.appending", slow)
    recorder = Recorder(URL, "job", None, interval_s=0.01)
    recorder.vote(entry(0), CONFIGS[0], [], [])
    recorder.finish(0.05)
    wait_for(lambda: slow.urls)
    recorder.resume()
    recorder.vote(entry(1), CONFIGS[0], [], [])
    slow.release.set()
    recorder.finish()
    assert [len(recording.votes["sm90"]["pkg.kernel"]) for recording in slow.recordings] == [1, 2]


@pytest.mark.parametrize(("url", "shown"), [
    ("postgresql://u:s3cret@h/db", "postgresql://u:***@h/db"),
    ("postgresql://u:p@s3cret@h/db", "postgresql://u:***@h/db"),
    ("postgresql://u:a:s3cret/x@h/db", "postgresql://u:***@h/db"),
    ("postgresql://h/db?user=u&password=s3cret", "postgresql://h/db?user=***&password=***"),
    ("postgresql://h/db?pasword=s3cret&sslmode=require", "postgresql://h/db?pasword=***&sslmode=require"),
    ("postgresql://me@srv:s3cret@h/db", "postgresql://me@srv:***@h/db"),
    ("postgresql://me:s3?cret@h/db?sslmode=require", "postgresql://***"),
    ("postgresql://me@h:5432/db?password=s3@cret", "postgresql://***"),
    ("postgresql://u:s3\ncret@h/db", "postgresql://u:***@h/db"),
    ("postgresql://h/db?user=u:s3cret", "postgresql://h/db?user=***"),
    ("sqlite:////a:b/c@d.db", "sqlite:////a:b/c@d.db"),
    ("/a?b=c@d", "/a?b=c@d"),
])  # fmt: skip
def test_no_password_in_any_place_is_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_the_first_fault_of_the_disk_reaches_the_log_and_the_recording_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not only what the operating system says no to: whatever our own code raises leads to the other place."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "elsewhere"))
    recorder = made(tmp_path)
    monkeypatch.setattr(recorder._file, "write", lambda *a: 1 / 0)
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    (file,) = (tmp_path / "elsewhere").iterdir()
    assert list(read_recording(file).votes["sm90"]["pkg.kernel"]) == ["M=0"]
    assert str(file) in caplog.text
    assert files(tmp_path) == []
