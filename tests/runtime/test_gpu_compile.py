"""On a GPU, kernels under torch.compile: recorded by one process, pinned in others, over cold and warm caches.

Needs only the standard library, torch, Triton and pytest.
"""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from tuning_registry import merge_records, write  # noqa: E402  # what needs torch waits for it
from tuning_registry.formats.recordings import read_recording  # noqa: E402  # what needs torch waits for it
from tuning_registry.model.canonical import config_text  # noqa: E402  # what needs torch waits for it

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")]

ROOT = Path(__file__).parents[2]
KERNEL = "tests.runtime.gpu_kernels.row_sum"
CONFIGS, SIZES = 8, 3


def here() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"sm{major}{minor}"


def worker(folder: Path, cache: str, function: str = "compiled_work", **environment: str) -> Any:
    """What a process did that ran the kernels, with the caches of this name."""
    caches = {"TRITON_CACHE_DIR": folder / cache / "triton", "TORCHINDUCTOR_CACHE_DIR": folder / cache / "inductor"}
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.runtime import gpu_kernels; gpu_kernels.{function}()"], cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **{name: str(path) for name, path in caches.items()}, **environment},
        stdout=subprocess.PIPE, text=True, timeout=300, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Folder, the answer of the recording process, and its recording; the table is in the folder."""
    folder = tmp_path_factory.mktemp("compile")
    answer = worker(folder, "recorded", TUNING_REGISTRY_RECORD_PATH=str(folder / "rec"), TUNING_REGISTRY_RUN="job")
    (file,) = folder.glob("rec.job.*.json")
    (folder / "tables").mkdir()
    write(here(), merge_records([file])[here()], folder / "tables" / f"{here()}.json", triton=triton.__version__)
    return folder, answer, read_recording(file)


def test_every_key_is_a_vote_with_the_times_of_all_candidates(recorded: Any) -> None:
    _, answer, recording = recorded
    assert (answer["mode"], answer["faults"], answer["timed"]) == ("record", {}, {"inductor": CONFIGS * SIZES})
    assert len(recording.votes[here()][KERNEL]) == SIZES
    assert all(len(timings) == CONFIGS for timings in recording.timings[here()][KERNEL].values())


def test_pinned_processes_time_nothing_and_give_the_bits_of_eager_launches(recorded: Any) -> None:
    folder, _, recording = recorded
    pinned = {"TUNING_REGISTRY_MODE": "pinned", "TUNING_REGISTRY_TABLE_PATH": str(folder / "tables"),
              "TUNING_REGISTRY_ON_MISS": "error"}  # fmt: skip
    answers = [worker(folder, cache, **pinned) for cache in ("pinned", "other", "pinned")]
    eager = worker(folder, "eager", "work", **pinned)
    for answer in answers:
        assert (answer["timed"], answer["misses"], answer["faults"]) == ({}, {}, {})
        assert answer["sums"] == eager["sums"]
        assert {key: config for kernel, key, config, source in answer["choices"] if source == "table"} == (
            recording.votes[here()][KERNEL]
        )
    assert answers[0]["compiled"] == answers[1]["compiled"] == SIZES  # one candidate for each key


def test_a_changed_table_counts_over_a_warm_cache(recorded: Any) -> None:
    folder, _, _ = recorded
    changed = folder / "changed"
    changed.mkdir(exist_ok=True)
    other = json.loads(config_text({"kwargs": {"BLOCK": 64}, "num_warps": 1, "num_stages": 3}))
    write(here(), {KERNEL: {"*": other}}, changed / f"{here()}.json", triton=triton.__version__)
    for tables in (folder / "tables", changed):
        pinned = {"TUNING_REGISTRY_MODE": "pinned", "TUNING_REGISTRY_TABLE_PATH": str(tables)}
        answer = worker(folder, "changing", **pinned)
    launched = [json.loads(config) for kernel, _, config, _ in answer["choices"] if kernel == KERNEL]
    assert [(config["kwargs"], config["num_warps"]) for config in launched] == [({"BLOCK": 64}, 1)] * SIZES
    assert answer["timed"] == {}
