"""Recording choices: votes, observations, threads, and ranks that end in any way."""

import signal
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.recording.helpers import (
    CONFIGS,
    child,
    entry,
    files,
    into_database,
    made,
    wait_for,
)
from tuning_registry.formats.recordings import read_recording
from tuning_registry.model.names import lookup_key
from tuning_registry.model.records import Observation


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
    assert child(tmp_path, "SIGKILL", wait=0.0).returncode == -9
    for file in files(tmp_path):
        assert read_recording(file).header.rank == 0


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


def test_a_launch_waits_for_nobody_who_reads_or_begins_the_recording(tmp_path: Path) -> None:
    recorder = made(tmp_path)
    done = threading.Event()
    assert recorder._notes._lock.acquire()
    assert recorder._writer._start_lock.acquire()

    def launch_once() -> None:
        recorder.vote(entry(), CONFIGS[0], [], [])
        done.set()

    threading.Thread(target=launch_once, daemon=True).start()
    assert done.wait(10)
    recorder._notes._lock.release()
    recorder._writer._start_lock.release()
    recorder.vote(entry(1), CONFIGS[0], [], [])
    recorder.finish()
    assert len(read_recording(files(tmp_path)[0]).votes["sm90"]["pkg.kernel"]) == 2


def test_a_name_that_no_recording_can_hold_costs_only_itself(tmp_path: Path, caplog: Any) -> None:
    recorder = made(tmp_path)
    for kernel in ("pkg.k\ud800", "m" * 1200 + ".kernel", "pkg.kernel"):
        recorder.vote(entry(0, kernel), CONFIGS[0], [], [])
    recorder.finish()
    assert list(read_recording(files(tmp_path)[0]).votes["sm90"]) == ["pkg.kernel"]
    assert len([r for r in caplog.records if "a recording cannot hold" in r.getMessage()]) == 2


def test_what_is_launched_after_the_recording_ended_is_said_to_be_lost(tmp_path: Path, caplog: Any) -> None:
    recorder = made(tmp_path)
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    recorder.vote(entry(1), CONFIGS[0], [], [])
    recorder.observe(entry(2), None, "single candidate")
    recorder.attend()
    assert len([r for r in caplog.records if "after the recording was finished" in r.getMessage()]) == 1


def test_a_recording_that_is_still_being_finished_is_waited_for_after_another_install(
    tmp_path: Path, monkeypatch: Any
) -> None:
    recorder = made(tmp_path)
    recorder.vote(entry(0), CONFIGS[0], [], [])
    recorder.vote(entry(1), CONFIGS[0], [], [])
    release = threading.Event()
    real = recorder._file.write

    def slowly(*arguments: Any) -> Any:
        assert release.wait(20)
        return real(*arguments)

    monkeypatch.setattr(recorder._file, "write", slowly)
    recorder.finish(0.01)  # uninstall goes on after a while
    recorder.resume()  # another install, and nothing is launched
    threading.Timer(0.3, release.set).start()
    recorder.finish()  # the exit
    assert len(read_recording(files(tmp_path)[0]).votes["sm90"]["pkg.kernel"]) == 2


def test_what_a_second_install_adds_is_handed_in_as_a_later_state_of_the_recording(monkeypatch: Any) -> None:
    fake, recorder = into_database(monkeypatch, [None])
    recorder.resume()
    recorder.vote(entry(1), CONFIGS[0], [], [])
    recorder.finish()
    assert len({recording.header.id for recording in fake.recordings}) == 1
    assert [len(recording.votes["sm90"]["pkg.kernel"]) for recording in fake.recordings] == [1, 2]
