"""Ingest while a job records: at any moment, across kills of the recorder and of the ingest, every vote counts once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers import all_rows, on_both, take
from tests.operations.ingest.test_growth import content
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.formats.recordings import read_recording

# A rank with a real recorder that records until it is killed, or until it has recorded everything.
RECORDER = """
import random, sys, time
from tuning_registry.model.canonical import config_text
from tuning_registry.model.records import Timing
from tuning_registry.runtime.recording.recorder import Recorder

seed, folder = int(sys.argv[1]), sys.argv[2]
rng = random.Random(seed)
configs = [config_text({"kwargs": {"B": n}, "num_warps": 4, "num_stages": 3}) for n in range(4)]
recorder = Recorder(folder + "/rec", "job", None, interval_s=0.01)
for number in range(150):
    entry = ("sm90", f"pkg.kernel{number % 5}", f"M={number}")
    if rng.random() < 0.3:
        recorder.observe(entry, configs[1], "echo of Triton's disk cache")
    if rng.random() < 0.9:
        timings = [Timing(text, 1.0 + rng.random(), 1.0, 3.0) for text in configs]
        recorder.vote(entry, configs[rng.randrange(4)], timings, configs, "0" * 64)
    time.sleep(rng.random() * 0.02)
recorder.finish()
"""
INGEST = """
import sys
from tuning_registry.cli.app import main
main()
"""


@on_both
@pytest.mark.parametrize("seed", range(2))
def test_a_job_that_is_ingested_at_random_moments_counts_once(
    store: Store, database: str, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    recorder = subprocess.Popen([sys.executable, "-c", RECORDER, str(seed), str(tmp_path)])
    try:
        file = wait_for_file(tmp_path, recorder)
        kills = rng.random() < 0.5
        began, rounds = time.monotonic(), 0
        while recorder.poll() is None and rounds < 8 and time.monotonic() - began < 60:
            ingest = subprocess.Popen(
                [sys.executable, "-c", INGEST, "--db", database, "ingest", str(file)],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            if rng.random() < 0.3:
                time.sleep(rng.random())
                ingest.send_signal(signal.SIGKILL)
            _, errors = ingest.communicate(timeout=60)
            assert ingest.returncode in {0, -signal.SIGKILL}, errors
            rounds += 1
            if kills and rounds == 3:
                recorder.kill()
        assert rounds > 0
        recorder.wait(timeout=60)
    finally:
        recorder.kill()
    take(store, file, run=None)
    recording = read_recording(file)
    found = content(store)
    assert all_rows(store)["recordings"] == 1
    assert len(found["votes"]) == all_rows(store)["votes"] == sum(map(len, recording.votes["sm90"].values())) > 0
    once = Store(parse_url(str(tmp_path / "once.db")))
    take(once, file, run=None)
    assert content(once) == found
    assert take(store, file, run=None).already == 1


def wait_for_file(folder: Path, recorder: subprocess.Popen[bytes]) -> Path:
    """The recorder's file, as soon as it has written it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and recorder.poll() is None:
        found = list(folder.glob("rec.*.json"))
        if found:
            return found[0]
        time.sleep(0.01)
    raise AssertionError("the recorder wrote no file")
