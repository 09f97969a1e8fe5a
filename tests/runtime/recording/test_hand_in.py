"""Handing in to a database during a run and at its end."""

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.recording.helpers import (
    CONFIGS,
    URL,
    FakeDatabase,
    entry,
    forked,
    into_database,
    use_database,
    wait_for,
)
from tuning_registry.errors import (
    BusyError,
    DatabaseError,
    ForbiddenError,
    FormatError,
    SchemaError,
    UnreachableError,
)
from tuning_registry.formats.hand_ins import pack_hand_in
from tuning_registry.formats.recordings import read_recording
from tuning_registry.locations import absolute_location, shown_url
from tuning_registry.runtime.guard import fault_counts
from tuning_registry.runtime.recording import hand_in
from tuning_registry.runtime.recording import recorder as recorder_module
from tuning_registry.runtime.recording.recorder import Recorder


@pytest.fixture
def ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher that states the rank."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")


def soon(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
    """Hand in soon after a choice, instead of up to a minute later."""
    times = {
        "QUIET_S": 0.05,
        "SPREAD_S": 0.05,
        "LATEST_S": 0.3,
        "GUESSED_S": 60.0,
        "_PAUSE_AFTER_FAULT_S": 0.01,
    } | seconds
    for name, value in times.items():
        monkeypatch.setattr(hand_in, name, value)


def files_of(tmp_path: Path) -> list[Path]:
    return [file for file in (tmp_path / "data").rglob("*") if file.is_file()]


def test_a_database_gets_the_recording_and_no_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake, recorder = into_database(monkeypatch, [BusyError("locked"), UnreachableError("not reachable"), None])
    assert fake.urls == [URL] * 3
    assert len(set(fake.identities)) == 1  # a retry cannot append twice
    (recording,) = fake.recordings
    assert recording.votes == {"sm90": {"pkg.kernel": {"M=0": CONFIGS[0]}}}
    assert recorder.file is None
    assert files_of(tmp_path) == []


@pytest.mark.parametrize(
    "answer",
    [
        UnreachableError("not reachable"),
        DatabaseError("read-only"),
        SchemaError("no schema"),
        ForbiddenError("no right"),
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


def test_a_server_that_does_not_answer_at_all_is_not_waited_for_to_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fake = use_database(monkeypatch, FakeDatabase([UnreachableError("refused")], accepts=False))
    monkeypatch.setattr(hand_in, "_PATIENCE_S", 0.05)
    one = hand_in.HandIn(URL, lambda: pack_hand_in([b"{}"]), lambda: False)
    assert not one.finish(20.0)
    assert len(fake.urls) < 20
    fake.accepts = True  # it answers that it has no connection left: waiting helps
    fake.answers = [UnreachableError("too many clients")] * 5 + [None]
    assert one.finish(20.0)
    assert caplog.text.count("cannot hand in") == 1


def test_without_the_driver_the_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "tuning_registry.db.appending", None)
    recorder = Recorder(URL, "job", None, interval_s=0.01)
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    assert recorder.file is not None
    assert recorder.file.exists()
    assert str(recorder.file) in caplog.text


@pytest.mark.usefixtures("ranked")
def test_what_was_handed_in_during_the_run_is_not_handed_in_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon(monkeypatch)
    fake = use_database(monkeypatch, FakeDatabase())
    recorder = Recorder(URL, "job", None, interval_s=0.01)
    recorder.vote(entry(0), CONFIGS[0], [], [])
    wait_for(lambda: len(fake.hand_ins) == 1)
    assert len(files_of(tmp_path)) == 1  # until the end, in case a later choice cannot be handed in
    recorder.vote(entry(1), CONFIGS[0], [], [])
    wait_for(lambda: len(fake.hand_ins) == 2)
    recorder.finish()
    assert [len(one.votes["sm90"]["pkg.kernel"]) for one in fake.recordings] == [1, 2]
    assert len({one.header.id for one in fake.recordings}) == 1
    assert len(set(fake.identities)) == 2
    assert files_of(tmp_path) == []


@pytest.mark.usefixtures("ranked")
def test_choices_that_keep_coming_do_not_put_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    soon(monkeypatch, QUIET_S=60.0, LATEST_S=0.2)
    fake = use_database(monkeypatch, FakeDatabase())
    recorder = Recorder(URL, "job", None, interval_s=0.01)
    number = iter(range(10**6))

    def vote_on() -> bool:
        recorder.vote(entry(next(number)), CONFIGS[0], [], [])
        return bool(fake.hand_ins)

    wait_for(vote_on)
    recorder.finish()


@pytest.mark.usefixtures("ranked")
def test_a_try_that_failed_is_followed_by_another_without_a_new_choice(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    soon(monkeypatch)
    fake = use_database(monkeypatch, FakeDatabase([UnreachableError("away"), ForbiddenError("no right"), None]))
    recorder = Recorder(URL, "job", None, interval_s=0.01)
    recorder.vote(entry(), CONFIGS[0], [], [])
    wait_for(lambda: fake.hand_ins, 20)
    recorder.finish()
    assert len(set(fake.identities)) == 1
    assert len(fake.hand_ins) == 1
    assert caplog.text.count("cannot hand in the recording") == 1  # what waiting mends is not logged


def test_a_guessed_rank_is_handed_in_at_the_end_with_a_run_to_give_way_to(monkeypatch: pytest.MonkeyPatch) -> None:
    soon(monkeypatch)
    fake = use_database(monkeypatch, FakeDatabase())
    recorder = Recorder(URL, "job", None, interval_s=0.01)
    recorder.vote(entry(), CONFIGS[0], [], [])
    wait_for(lambda: recorder.file is not None)
    assert fake.hand_ins == []
    recorder.finish()
    ((_, separate_run),) = fake.hand_ins
    assert (fake.recordings[0].header.run, fake.recordings[0].header.rank) == ("job", 0)
    assert separate_run is not None
    assert separate_run.startswith("job.")


@pytest.mark.usefixtures("ranked")
def test_a_server_that_hangs_keeps_neither_the_file_from_being_written_nor_the_exit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    soon(monkeypatch)
    release, asked = threading.Event(), threading.Event()

    class Hanging(FakeDatabase):
        def append_hand_in(self, url: Any, identity: Any, payload: Any, wait_s: Any) -> None:  # noqa: ARG002
            asked.set()
            release.wait(30)
            raise UnreachableError("gone")

    use_database(monkeypatch, Hanging(accepts=False))
    monkeypatch.setattr(hand_in, "_PATIENCE_S", 0.0)
    recorder = Recorder(URL, "job", None, interval_s=0.01)
    recorder.vote(entry(0), CONFIGS[0], [], [])
    assert asked.wait(10)
    recorder.vote(entry(1), CONFIGS[0], [], [])
    wait_for(lambda: [len(read_recording(f).votes["sm90"]["pkg.kernel"]) for f in files_of(tmp_path)] == [2])
    ending = threading.Thread(target=recorder.finish)
    ending.start()
    threading.Timer(0.5, release.set).start()
    ending.join(20)
    assert not ending.is_alive()
    assert len(files_of(tmp_path)) == 1
    assert f"run: registry ingest {recorder.file}" in caplog.text


@pytest.mark.usefixtures("ranked")
def test_a_forked_child_hands_in_its_own_recording(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    soon(monkeypatch)
    fake = use_database(monkeypatch, FakeDatabase())
    recorder = Recorder(URL, "job", None, interval_s=0.01)
    recorder.vote(entry(0), CONFIGS[0], [], [])
    wait_for(lambda: fake.hand_ins)

    def child() -> None:
        recorder.vote(entry(1), CONFIGS[0], [], [])
        recorder.finish()
        ids = {str(one.header.id) for one in fake.recordings}
        (tmp_path / "child").write_text(f"{len(fake.hand_ins)} {len(ids)}")

    forked(child)
    recorder.finish()
    assert (tmp_path / "child").read_text() == "2 2"
    assert len(fake.hand_ins) == 1


def test_a_recording_that_is_too_large_stays_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(chunks: Any, separate_run: Any) -> bytes:
        raise FormatError("the recording is larger than 32 MiB")

    monkeypatch.setattr(recorder_module, "pack_hand_in", refuse)
    _, recorder = into_database(monkeypatch, [None])
    assert recorder.file.exists()
    assert "larger than 32 MiB" in caplog.text
    assert fault_counts() == {}


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
    fake = use_database(monkeypatch, FakeDatabase())
    monkeypatch.chdir(tmp_path)
    recorder = Recorder("sqlite:///r.db", "job", None, interval_s=0.01)
    recorder.vote(entry(), CONFIGS[0], [], [])
    monkeypatch.chdir("/")
    recorder.finish()
    assert fake.urls == [f"sqlite:///{tmp_path}/r.db"]


def test_passwords_are_hidden() -> None:
    assert shown_url("postgresql://u:p%40ss@h/d") == "postgresql://u:***@h/d"
    assert shown_url("sqlite:////a/b.db") == "sqlite:////a/b.db"
