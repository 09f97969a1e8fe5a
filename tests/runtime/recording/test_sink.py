"""Writing a recording to a database at the end of a process."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.recording.helpers import CONFIGS, URL, FakeSink, entry, into_database
from tuning_registry.errors import BusyError, ConflictError, DatabaseError, SchemaError, UnreachableError
from tuning_registry.formats.recordings import read_recording
from tuning_registry.locations import absolute_location, shown_url
from tuning_registry.runtime.recording.recorder import Recorder


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
