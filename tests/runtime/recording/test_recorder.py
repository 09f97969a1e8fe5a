"""Files: names, kill safety, faults of disks and databases."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from tuning_registry.errors import BusyError, ConflictError, DatabaseError, SchemaError, UnreachableError
from tuning_registry.formats.recordings import rank_in_name, read_recording
from tuning_registry.locations import absolute_location, shown_url
from tuning_registry.model.canonical import config_text
from tuning_registry.model.names import lookup_key
from tuning_registry.model.records import Observation
from tuning_registry.runtime.guard import fault_counts
from tuning_registry.runtime.recording import recorder as recorder_module
from tuning_registry.runtime.recording import recording_file
from tuning_registry.runtime.recording import sink as sink_module
from tuning_registry.runtime.recording.recorder import Recorder

ROOT = Path(__file__).parents[3]
CONFIGS = [config_text({"kwargs": {"B": b}, "num_warps": 4, "num_stages": 2}) for b in range(5)]


def entry(number: Any = 0, kernel: Any = "pkg.kernel") -> Any:
    return ("sm90", kernel, f"M={number}")


def made(tmp_path: Path, **options: Any) -> Any:
    (tmp_path / "rec").mkdir(exist_ok=True)
    return Recorder(
        str(tmp_path / "rec" / "r"), options.pop("run", "job"), None, interval_s=options.pop("interval_s", 0.01)
    )


def files(tmp_path: Path) -> Any:
    """The recordings in the folder, without temporary files of a write in progress."""
    return sorted(file for file in (tmp_path / "rec").iterdir() if not file.name.startswith("."))


def wait_for(condition: Any, seconds: Any = 10.0) -> None:
    event = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        event.wait(0.01)
    pytest.fail("did not happen in time")


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


def test_slurm_gives_the_rank_where_torchrun_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_PROCID", "9")
    monkeypatch.setenv("SLURM_NTASKS", "10")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    recorder = made(tmp_path, run=None)
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    header = read_recording(files(tmp_path)[0]).header
    assert (header.run, header.rank, header.world_size) == ("4711", 9, 10)


def test_the_first_vote_stands_and_a_vote_replaces_an_observation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = made(tmp_path)
    recorder.observe(entry(1), CONFIGS[1], "echo")
    recorder.vote(entry(1), CONFIGS[0], [], [])
    recorder.vote(entry(1), CONFIGS[2], [], [])
    recorder.observe(entry(1), CONFIGS[3], "single candidate")
    recorder.vote(("sm90", "pkg.kernel", "M=True"), CONFIGS[0], [], [])
    recorder.observe(entry(2), None, "failed")
    recorder.observe(entry(2), CONFIGS[3], "again")
    recording = recorder.recording()
    assert recording.votes == {"sm90": {"pkg.kernel": {"M=1": CONFIGS[0]}}}
    assert recording.observations == {"sm90": {"pkg.kernel": {"M=2": Observation(None, "failed")}}}
    assert lookup_key("M=True") == "M=1"
    assert "tuned twice" in caplog.text


def test_nothing_recorded_writes_no_file(tmp_path: Path) -> None:
    made(tmp_path).finish()
    assert files(tmp_path) == []


def test_the_file_is_whole_after_every_change(tmp_path: Path) -> None:
    recorder = made(tmp_path)
    for number in range(20):
        recorder.vote(entry(number), CONFIGS[0], [], [])
        wait_for(
            lambda number=number: (
                files(tmp_path) and len(read_recording(files(tmp_path)[0]).votes["sm90"]["pkg.kernel"]) == number + 1
            )
        )
    assert len(files(tmp_path)) == 1
    recorder.finish()


def test_many_threads_record_at_once(tmp_path: Path) -> None:
    recorder = made(tmp_path)

    def work(kernel: Any) -> None:
        for number in range(100):
            recorder.vote(entry(number, f"pkg.k{kernel}"), CONFIGS[number % 5], [], CONFIGS)

    threads = [threading.Thread(target=work, args=(kernel,)) for kernel in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.finish()
    votes = read_recording(files(tmp_path)[0]).votes["sm90"]
    assert sum(map(len, votes.values())) == 800


CHILD = """
    import os, signal, sys, time
    from tests.runtime.fakes import autotuner, launch, Timer
    from tuning_registry.runtime import install
    install({"record_path": sys.argv[1], "arch": "sm90"})
    for name in ("a", "b", "c"):
        launch(autotuner(name=name))
    time.sleep(float(sys.argv[3]))
    how = sys.argv[2]
    if how == "exit": os._exit(0)
    if how == "raise": raise RuntimeError("after kernel c")
    if how != "end": os.kill(os.getpid(), getattr(signal, how))
"""


def child(tmp_path: Path, how: Any, wait: Any = 2.0, **environment: Any) -> Any:
    pytest.importorskip("triton")
    (tmp_path / "rec").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), str(tmp_path / "rec" / "r"), how, str(wait)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("how", "status"),
    [("exit", 0), ("SIGKILL", -signal.SIGKILL), ("SIGTERM", -signal.SIGTERM), ("raise", 1), ("end", 0)],
)
def test_a_rank_that_ends_in_any_way_leaves_an_ingestible_recording(tmp_path: Path, how: Any, status: Any) -> None:
    ended = child(tmp_path, how, wait=0.0 if how in {"raise", "end"} else 5.0)
    assert ended.returncode == status
    (file,) = files(tmp_path)
    assert sorted(read_recording(file).votes["sm90"]) == ["pkg.ops.a", "pkg.ops.b", "pkg.ops.c"]


def test_a_rank_killed_at_once_leaves_nothing_broken(tmp_path: Path) -> None:
    child(tmp_path, "SIGKILL", wait=0.0)
    for file in files(tmp_path):
        assert read_recording(file).header.rank == 0


def test_two_nodes_with_one_local_rank_share_a_folder(tmp_path: Path) -> None:
    for rank in ("1", "9"):
        child(tmp_path, "end", wait=0.0, RANK=rank, LOCAL_RANK="1", WORLD_SIZE="16", TUNING_REGISTRY_RUN="job")
    assert {rank_in_name(file.name)[1] for file in files(tmp_path)} == {1, 9}


def forked(work: Any) -> None:
    """Run `work` in a child by `fork`."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("rank", [None, "0", "1"])
def test_a_forked_child_begins_empty_and_writes_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: Any
) -> None:
    recorder = made(tmp_path)
    recorder.vote(entry(), CONFIGS[0], [], [])
    wait_for(lambda: files(tmp_path))

    def work() -> None:
        if rank is not None:
            os.environ.update(RANK=rank, WORLD_SIZE="2")
        recorder.vote(entry(1), CONFIGS[0], [], [])
        recorder.finish()

    forked(work)
    recorder.vote(entry(2), CONFIGS[0], [], [])
    recorder.finish()
    kept = {tuple(r.votes["sm90"]["pkg.kernel"]): r.header for r in map(read_recording, files(tmp_path))}
    assert set(kept) == {("M=0", "M=2"), ("M=1",)}
    assert len({(header.run, header.rank) for header in kept.values()}) == 2
    if rank is not None:
        assert (kept["M=1",].run, kept["M=1",].rank) == ("job", int(rank))


def test_a_forked_child_is_not_the_rank_that_its_parent_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    recorder = made(tmp_path)
    recorder.vote(entry(), CONFIGS[0], [], [])

    def work() -> None:
        recorder.vote(entry(1), CONFIGS[0], [], [])
        recorder.finish()

    forked(work)
    recorder.finish()
    headers = sorted((read_recording(file).header for file in files(tmp_path)), key=lambda header: header.run or "")
    assert [(header.run, header.rank) for header in headers] == [("job", 3), (headers[1].run, 0)]
    assert str(headers[1].run).startswith("job.")


def test_a_place_that_a_script_set_after_the_recorder_was_made_is_not_the_childs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = made(tmp_path)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    recorder.vote(entry(), CONFIGS[0], [], [])

    def grandchild() -> None:
        recorder.vote(entry(2), CONFIGS[0], [], [])
        recorder.finish()

    def child() -> None:
        forked(grandchild)
        recorder.vote(entry(1), CONFIGS[0], [], [])
        recorder.finish()

    forked(child)
    recorder.finish()
    headers = [read_recording(file).header for file in files(tmp_path)]
    assert sorted(header.rank or 0 for header in headers) == [0, 0, 3]
    assert len({header.run for header in headers}) == 3


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


def test_a_process_group_that_appears_later_renames_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = made(tmp_path, run=None)
    recorder.vote(entry(0), CONFIGS[0], [], [])
    wait_for(lambda: files(tmp_path))
    alone = files(tmp_path)[0]
    store: dict[str, bytes] = {}
    group = types.SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 3, get_world_size=lambda: 4,
        distributed_c10d=types.SimpleNamespace(_get_default_store=lambda: types.SimpleNamespace(
            compare_set=lambda key, old, new: store.setdefault(key, b"agreed"))),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch.distributed", group)
    recorder.vote(entry(1), CONFIGS[0], [], [])
    recorder.finish()
    (file,) = files(tmp_path)
    assert file != alone
    assert (read_recording(file).header.run, read_recording(file).header.rank) == ("agreed", 3)


class FakeSink:
    def __init__(self, answers: Any) -> None:
        self.answers = list(answers)
        self.urls: list[str] = []
        self.recordings: list[Any] = []
        self.replaces: list[bool] = []

    def open_sink(self, url: Any, wait_s: Any) -> Any:
        assert 0 < wait_s <= sink_module.RETRY_BUDGET_S
        self.urls.append(url)
        return self

    def write(self, recording: Any, *, replace: bool = False) -> bool:
        self.replaces.append(replace)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer
        self.recordings.append(recording)
        return True


URL = "postgresql://user:SECRET@host/db"


def into_database(monkeypatch: pytest.MonkeyPatch, answers: Any) -> Any:
    fake = FakeSink(answers)
    monkeypatch.setattr(sink_module, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(sink_module.write_with_retries, "__defaults__", (0.5,))
    monkeypatch.setitem(
        sys.modules, "tuning_registry.operations.ingest.sink", types.SimpleNamespace(open_sink=fake.open_sink)
    )
    recorder = Recorder(URL, "job", None, interval_s=0.01)
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    return fake, recorder


def test_a_database_takes_the_recording_and_no_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake, recorder = into_database(monkeypatch, [BusyError("locked"), UnreachableError("not reachable"), None])
    assert fake.urls == [URL] * 3
    (recording,) = fake.recordings
    assert recording.votes == {"sm90": {"pkg.kernel": {"M=0": CONFIGS[0]}}}
    assert recorder.file is None
    assert [p for p in (tmp_path / "data").rglob("*") if p.is_file()] == []


@pytest.mark.parametrize(
    "answer",
    [
        UnreachableError("not reachable"),
        DatabaseError("read-only"),
        SchemaError("no schema"),
        ConflictError("other content"),
        ValueError("ours"),
    ],
)
def test_a_database_that_stays_away_leaves_the_file_and_the_log_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    fake, recorder = into_database(monkeypatch, [answer])
    assert (len(fake.urls) > 2) == isinstance(answer, UnreachableError)
    assert recorder.file.is_relative_to(tmp_path / "data")
    assert list(read_recording(recorder.file).votes["sm90"]) == ["pkg.kernel"]
    assert "SECRET" not in caplog.text
    assert str(recorder.file) in caplog.text


def test_a_missing_database_half_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "tuning_registry.operations.ingest.sink", None)
    recorder = Recorder(URL, "job", None, interval_s=0.01)
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    assert recorder.file is not None
    assert recorder.file.exists()
    assert str(recorder.file) in caplog.text


@pytest.mark.parametrize(
    ("location", "absolute"),
    [
        ("sqlite:////a/b.db", "sqlite:////a/b.db"), ("sqlite:///b.db", "sqlite:////here/b.db"), ("/a/b", "/a/b"), ("rec", "/here/rec"),
        ("sqlite+pysqlite:///x/../b.db", "sqlite+pysqlite:////here/x/../b.db"), ("postgresql+psycopg://h/d", "postgresql+psycopg://h/d"),
        ("postgresql:///d", "postgresql:///d"), ("C:/x", "/here/C:/x"), ("dir/a:b", "/here/dir/a:b"),
    ],
)  # fmt: skip
def test_a_location_means_the_same_from_any_folder(
    location: Any, absolute: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getcwd", lambda: "/here")
    assert absolute_location(location) == absolute


def test_a_relative_database_is_that_of_the_folder_at_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeSink([None])
    monkeypatch.setitem(
        sys.modules, "tuning_registry.operations.ingest.sink", types.SimpleNamespace(open_sink=fake.open_sink)
    )
    monkeypatch.chdir(tmp_path)
    recorder = Recorder("sqlite:///r.db", "job", None, interval_s=0.01)
    recorder.vote(entry(), CONFIGS[0], [], [])
    monkeypatch.chdir("/")
    recorder.finish()
    assert fake.urls == [f"sqlite:///{tmp_path}/r.db"]


def test_passwords_are_hidden() -> None:
    assert shown_url("postgresql://u:p%40ss@h/d") == "postgresql://u:***@h/d"
    assert shown_url("sqlite:////a/b.db") == "sqlite:////a/b.db"
