"""Object stores that are slow, busy or closed, and uploads that are killed: one clear line, and no half object.

Ranks, commands and the server are processes; `tests/object_store.py` has the server and what misbehaves before it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import H200, ROOT, Cli, config, version_1, write_recording
from tests.helpers import error_of, on_sqlite, run_prepared
from tests.object_store import Bucket
from tuning_registry.errors import FileError
from tuning_registry.formats import stores
from tuning_registry.formats.files import read_bytes, write_atomically
from tuning_registry.formats.recordings import parse_recording
from tuning_registry.formats.stores import place_of
from tuning_registry.operations.ingest.ahead import fetch_ahead
from tuning_registry.runtime.recording.uploads import Uploads

OLD, NEW = b'{"old": 1}', b'{"new": 1}' * 500_000  # larger than the buffers of sockets

# A rank that votes, waits for a line, and ends; as in test_hand_in, with the budget of an exit shortened.
RANK = """
import json, logging, signal, sys, time
logging.basicConfig(format="%(message)s")
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as in workers of Ray: children leave no exit status
path, quiet_s, budget_s = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
from tuning_registry.model.canonical import config_text
from tuning_registry.runtime import guard
from tuning_registry.runtime.recording import hand_in, recorder
from tuning_registry.runtime.recording.owners import Owners
Owners().find(["json.k"])
hand_in.HandIn.finish.__defaults__ = (budget_s,)
hand_in.QUIET_S, hand_in.SPREAD_S = quiet_s, 0.0
made = recorder.Recorder(path, "job", None, interval_s=0.02)
config = config_text({"kwargs": {"B": 64}, "num_warps": 4, "num_stages": 3})
slowest = 0.0
for number in range(50):
    begin = time.perf_counter()
    made.vote(("sm90", "json.k", f"M={number}"), config, [], [config])
    slowest = max(slowest, time.perf_counter() - begin)
sys.stdin.readline()
begin = time.monotonic()
made.finish()
print(json.dumps({"slowest_s": slowest, "finish_s": time.monotonic() - begin, "file": str(made.file or ""),
                  "faults": guard.fault_counts(), "loaded": sorted({"fsspec", "s3fs", "botocore"} & set(sys.modules))}))
"""


class Rank:
    """A rank at work in a separate process."""

    def __init__(self, path: str, folder: Path, quiet_s: float = 600.0, budget_s: float = 20.0) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "XDG_DATA_HOME": str(folder),
            "RANK": "3",
            "WORLD_SIZE": "8",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", RANK, path, str(quiet_s), str(budget_s)], env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def ended(self) -> tuple[dict[str, Any], list[str]]:
        """What it printed and logged; its exit status must be 0."""
        out, log = self.process.communicate("\n", timeout=120)
        assert self.process.returncode == 0, log
        return json.loads(out), log.splitlines()


def wait_for_keys(bucket: Bucket) -> list[str]:
    deadline = time.monotonic() + 60
    while not bucket.list_keys() and time.monotonic() < deadline:
        time.sleep(0.1)
    return bucket.list_keys()


def test_rank_uploads_at_its_end(bucket: Bucket, tmp_path: Path) -> None:
    """The store's packages never enter its process, and the local file is gone."""
    said, log = Rank(f"{bucket.url}/run/rec", tmp_path).ended()
    (key,) = bucket.list_keys()
    recording = parse_recording(bucket.get(key), key)
    # With the id: an attempt in a restarted pod may have the same host and process id, and finds no file of the first.
    assert re.fullmatch(rf"run/rec\.job\..*\.\d+-{str(recording.header.id)[:8]}\.rank3\.json", key)
    assert len(recording.votes["sm90"]["json.k"]) == 50
    assert (said["file"], said["faults"], said["loaded"]) == ("", {}, [])
    assert log == []
    assert [request.split("?")[0] for request in bucket.store.seen] == [
        f"PUT /{bucket.name}/{key}"
    ]  # needs no other right
    assert not list(tmp_path.rglob("*.rank3.json"))


def test_killed_rank_has_uploaded_before(bucket: Bucket, tmp_path: Path) -> None:
    rank = Rank(f"{bucket.url}/run/rec", tmp_path, quiet_s=0.1)
    (key,) = wait_for_keys(bucket)
    rank.process.kill()
    rank.process.communicate()
    assert parse_recording(bucket.get(key), key).votes["sm90"]["json.k"].keys() >= {"M=0"}


@pytest.mark.parametrize(
    ("fault", "budget_s", "said"),
    [
        ("denied", 20.0, "access denied; check the credentials and their permissions on the bucket"),
        ("silent", 5.0, "the upload did not finish within 5 s"),
        ("cut", 6.0, ""),
    ],
)
def test_rank_whose_store_fails_keeps_its_file(
    fault: str, budget_s: float, said: str, bucket: Bucket, tmp_path: Path
) -> None:
    """It ends in time, says once why and which command takes the file, and no half object is there."""
    bucket.store.fault = fault
    outcome, log = Rank(f"{bucket.url}/run/rec", tmp_path, budget_s=budget_s).ended()
    assert outcome["finish_s"] < budget_s + 4
    assert outcome["slowest_s"] < 0.5
    assert outcome["faults"] == {}
    assert len(log) == 2, log
    assert f"cannot upload the recording to {bucket.url}/run/rec: {said}" in log[0]
    assert log[1].endswith(f"to ingest it later, run: registry ingest {outcome['file']}")
    assert len(parse_recording(Path(outcome["file"]).read_bytes(), "").votes["sm90"]["json.k"]) == 50
    assert bucket.list_keys() == []


def test_rank_outlives_a_store_that_is_busy_for_a_while(bucket: Bucket, tmp_path: Path) -> None:
    bucket.store.fault, bucket.store.times = "busy", 2
    outcome, log = Rank(f"{bucket.url}/run/rec", tmp_path).ended()
    assert outcome["file"] == "", log
    assert len(bucket.list_keys()) == 1


def test_a_later_upload_ends_the_one_before(bucket: Bucket, tmp_path: Path) -> None:
    """An older state that is still under way must not come last, and its end is not an error."""
    uploads = Uploads(lambda: tmp_path / "rec.rank0.json")
    url, ended = f"{bucket.url}/run/rec", threading.Event()
    bucket.store.fault, bucket.store.times = "silent", 1

    def upload() -> None:
        uploads.append_hand_in(url, "", OLD, 60.0)
        ended.set()

    threading.Thread(target=upload).start()
    assert bucket.store.reached.wait(60)
    uploads.append_hand_in(url, "", NEW, 60.0)
    assert ended.wait(10)
    assert bucket.get("run/rec.rank0.json") == NEW


def test_rank_without_the_package_of_its_store(tmp_path: Path) -> None:
    _, log = Rank("gs://bucket/run/rec", tmp_path).ended()
    assert "gs:// needs the package gcsfs, which is not installed" in log[0]
    assert len(list(tmp_path.rglob("*.rank3.json"))) == 1


@pytest.mark.parametrize("fault", ["stuck", "cut"])
def test_upload_that_is_killed_leaves_the_old_object(fault: str, bucket: Bucket, tmp_path: Path) -> None:
    """Half of the new object has reached the server."""
    url = bucket.put("tables/sm90.json", OLD)
    bucket.store.fault, bucket.store.methods = fault, {"PUT"}
    data = tmp_path / "new"
    data.write_bytes(NEW)
    code = "import sys, pathlib; from tuning_registry.formats.files import *; from tuning_registry.formats.stores import *\n"
    code += "write_atomically(place_of(sys.argv[1]), pathlib.Path(sys.argv[2]).read_bytes())"
    command = [sys.executable, "-c", code, url, str(data)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL) as writer:
        assert bucket.store.reached.wait(60)
        writer.send_signal(signal.SIGKILL)
    time.sleep(0.3)  # the server sees the end of the connection
    assert bucket.get("tables/sm90.json") == OLD
    assert bucket.list_keys() == ["tables/sm90.json"]
    bucket.store.fault = ""
    write_atomically(place_of(url), NEW)
    assert bucket.get("tables/sm90.json") == NEW


@pytest.mark.parametrize(
    ("fault", "methods", "said"),
    [
        (
            "denied",
            {"PUT"},
            "cannot be written: access denied; check the credentials and their permissions on the bucket",
        ),
        (
            "busy",
            {"PUT"},
            "cannot be written: Please reduce your request rate; try again later if the store is busy or down",
        ),
    ],
)
@on_sqlite
def test_export_that_fails(
    fault: str, methods: set[str], said: str, bucket: Bucket, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("ingest", *sorted(H200.glob("rec.rank[01].json")))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # instead of retries for half a minute
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)
    bucket.store.fault, bucket.store.methods = fault, methods
    text = error_of(cli("export", "--arch", "sm90", "-o", f"{bucket.url}/sm90.json"))
    assert f"{bucket.url}/sm90.json: {said}" in text
    assert bucket.list_keys() == []
    assert cli("exports").stdout.count("sm90") == 0


def test_store_that_does_not_answer(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    url = bucket.put("sm90.json", OLD)
    bucket.store.fault = "silent"
    monkeypatch.setattr(stores, "LIMIT_S", 0.3)
    with pytest.raises(FileError, match=f"{url}: cannot be read: the store did not answer within 0 s; try again later"):
        read_bytes(place_of(url))


def test_slow_store_is_read(bucket: Bucket, tmp_path: Path) -> None:
    """Objects are fetched side by side: 40 that take 0.2 s each take far less than 8 s."""
    for rank in range(40):
        file = write_recording(tmp_path / f"rec.rank{rank}.json", version_1({"sm90": {"k": {"M=1": config()}}}))
        bucket.put(f"run/{file.name}", file.read_bytes())
    read_bytes(place_of(f"{bucket.url}/run/rec.rank0.json"))  # loads the packages
    bucket.store.delay_s = 0.2
    began = time.monotonic()
    places = [place_of(f"{bucket.url}/run/rec.rank{number}.json") for number in range(40)]
    found = [fetched() for _, fetched in fetch_ahead(places) if fetched]
    assert len(found) == 40
    assert time.monotonic() - began < 4


def test_no_credentials(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(FileError, match=r"cannot be (read|written): (no usable credentials|access denied)"):
        read_bytes(place_of(bucket.put("x.json", OLD)))


def test_empty_and_oversized_objects(bucket: Bucket) -> None:
    assert read_bytes(place_of(bucket.put("empty.json", b""))) == b""
    assert len(read_bytes(place_of(bucket.put("fits.json", b" " * (4 << 20))), 4 << 20)) == 4 << 20
    with pytest.raises(FileError, match=r"large.json: larger than the limit of 4 MiB"):
        read_bytes(place_of(bucket.put("large.json", b" " * ((4 << 20) + 1))), 4 << 20)


def test_missing_package_of_the_store() -> None:
    prelude = "import sys; sys.modules['s3fs'] = None"
    said = error_of(run_prepared(prelude, "check", "s3://bucket/sm90.json"))
    assert said == (
        "error: s3://bucket/sm90.json: s3:// needs the package s3fs, which is not installed; run: pip install "
        "'tuning-registry[s3]'"
    )


def test_an_upload_never_starts_a_frozen_application_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    uploads = Uploads(lambda: tmp_path / "rec.json")
    with pytest.raises(FileError, match="the upload process cannot be started: .* is not a Python interpreter"):
        uploads.append_hand_in("s3://bucket/rec", "", b"{}", 1.0)
