"""From a pinned launch that found no entry, over the recording, to `registry misses`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import ARCH, KEY, NAME, Tensor, autotuner, launch, only_recording, stored, three, write_table
from tuning_registry.errors import LaunchError
from tuning_registry.runtime import AutotunePolicy, coverage_report, install, uninstall

OTHER_KEY = KEY.replace("16", "32")


def pinned(tmp_path: Path, **fields: Any) -> None:
    path = write_table(tmp_path / "tables", {NAME: {KEY: stored(three()[0])}})
    record_path = tmp_path / fields["run"] / "r"
    install(AutotunePolicy(mode="pinned", table_path=path, record_path=record_path, arch=ARCH, **fields))


def registry(tmp_path: Path, *arguments: object) -> str:
    """Standard output of the `registry` command in a separate process."""
    pytest.importorskip("sqlalchemy")
    command = [sys.executable, "-m", "tuning_registry", "--db", str(tmp_path / "registry.db"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def test_misses_of_a_pinned_run_come_out_of_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hit, missing = autotuner(), autotuner(name="absent")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        pinned(tmp_path, run=f"job{rank}", source=str(rank))
        for kernel in (hit, missing, missing):
            launch(kernel)
        if rank:
            launch(hit, Tensor(), Tensor(), 32)
        uninstall()
    assert (hit.timer.calls, missing.timer.calls) == (0, 0)
    registry(tmp_path, "ingest", tmp_path / "job0", tmp_path / "job1")
    found = json.loads(registry(tmp_path, "misses", "--format", "json"))
    absent = {
        "arch": ARCH,
        "kernel": "pkg.ops.absent",
        "key": KEY,
        "reason": "no kernel",
        "nearest": "",
        "ranks": 2,
        "runs": 2,
    }
    near = {"reason": "no key", "nearest": KEY}
    no_key = {"arch": ARCH, "kernel": NAME, "key": OTHER_KEY, **near, "ranks": 1, "runs": 1}
    assert found == [{**absent, "recorded": False}, {**no_key, "recorded": False}]
    # What is to be recorded next is recorded: the misses stand, and say so.
    install(AutotunePolicy(record_path=tmp_path / "next" / "r", arch=ARCH, run="next"))
    launch(missing)
    uninstall()
    registry(tmp_path, "ingest", tmp_path / "next")
    found = json.loads(registry(tmp_path, "misses", "--format", "json"))
    assert [entry["recorded"] for entry in found] == [True, False]


def test_a_pinned_run_without_a_miss_leaves_an_empty_recording_that_says_so(tmp_path: Path) -> None:
    pinned(tmp_path, run="perfect")
    for _ in range(3):
        launch(autotuner())
    uninstall()
    recording = only_recording(tmp_path / "perfect")
    assert (recording.header.run, recording.votes, recording.observations) == ("perfect", {}, {})
    registry(tmp_path, "ingest", tmp_path / "perfect")
    assert json.loads(registry(tmp_path, "misses", "--run", "perfect", "--exit-code", "--format", "json")) == []
    pinned(tmp_path, run="idle")  # nothing was launched: not a run
    uninstall()
    assert list((tmp_path / "idle").glob("*")) == []


def test_a_launch_that_on_miss_refuses_is_counted_and_kept_as_a_miss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pinned(tmp_path, run="job", on_miss="error")
    kernel = autotuner()
    for _ in range(2):
        with pytest.raises(LaunchError, match="no key"):
            launch(kernel, Tensor(), Tensor(), 32)
    (miss,) = coverage_report().misses
    assert (miss.key, miss.reason, miss.source) == (OTHER_KEY, "no key", "error")
    assert caplog.text.count("on sm90: the table does not have this key; the launch is refused") == 1
    uninstall()
    (observation,) = only_recording(tmp_path / "job").observations[ARCH][NAME].values()
    assert (observation.config, observation.reason) == (None, "miss: no key")
    assert kernel.fn.launches == []
