"""What recorders state since version 2, and which choices of Triton's real Autotuner do not vote."""

# ruff: noqa: E402 - Triton may be missing

from __future__ import annotations

import json
import linecache
import sys
import types
from pathlib import Path
from typing import Any

import pytest

triton = pytest.importorskip("triton")

from tests.runtime.fakes import ARCH, Config, Timer, autotuner, launch, only_recording, stored, write_table
from tests.runtime.recording.helpers import CONFIGS, entry, files, made
from tuning_registry.errors import FormatError
from tuning_registry.formats.recordings import read_recording
from tuning_registry.model.records import IMPOSSIBLE_TIME, NO_TEXT, TWO_SOURCES, Hardware, Observation
from tuning_registry.runtime import AutotunePolicy, install, uninstall
from tuning_registry.runtime.guard import fault_counts
from tuning_registry.runtime.job.devices import Device
from tuning_registry.runtime.job.nvml import Management, ask_management
from tuning_registry.runtime.recording import facts
from tuning_registry.runtime.recording.facts import find_hardware
from tuning_registry.runtime.recording.owners import is_importable
from tuning_registry.runtime.triton.keys import kernel_name, source_hash


def function_of(source: str, name: str = "kernel", module: str = "pkg.ops") -> Any:
    """A function that `inspect` finds this source of."""
    file = f"<source {abs(hash(source))}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": module}
    exec(compile(source, file, "exec"), namespace)
    return namespace[name]


def tuned(source: str, medians: Any = None, **options: Any) -> Any:
    made = autotuner(timer=Timer(medians), **options)
    made.fn.fn = made.base_fn = function_of(source)
    return made


RELU, GELU = "def kernel(x, y, M):\n    return 'relu'\n", "def kernel(x, y, M):\n    return 'gelu'\n"


def record(folder: Path, *kernels: Any, keys: Any = (16,)) -> Any:
    install(AutotunePolicy(record_path=folder / "rec" / "r", arch=ARCH, run="job"))
    for kernel, key in zip(kernels, keys if len(keys) > 1 else keys * len(kernels), strict=True):
        launch(kernel, None, None, key)
    uninstall()
    return only_recording(folder / "rec")


def test_a_recording_states_its_process_its_place_and_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "2"}.items():
        monkeypatch.setenv(name, value)
    kernel = tuned(RELU)
    header = record(tmp_path, kernel).header
    assert (len(header.id), header.attempt, header.local_rank) == (32, 2, 1)
    assert header.sources == {"pkg.ops.kernel": source_hash(kernel)}
    assert source_hash(kernel) == source_hash(tuned(RELU)) != source_hash(tuned(GELU))


def test_the_source_of_a_jit_function_is_hashed_from_its_def_on() -> None:
    plain = function_of(RELU)
    assert source_hash(triton.jit(plain)) == source_hash(types.SimpleNamespace(fn=plain))
    assert source_hash(triton.jit(plain)) != source_hash(triton.jit(function_of(GELU)))
    assert source_hash(types.SimpleNamespace(fn=len)) is None


def test_every_recorder_has_another_id_and_every_write_the_same(tmp_path: Path) -> None:
    recorder = made(tmp_path)
    recorder.vote(entry(1), CONFIGS[0], [], [])
    first = recorder.recording().header.id
    recorder.finish()
    recorder.resume()
    recorder.vote(entry(2), CONFIGS[0], [], [])
    recorder.finish()
    assert read_recording(files(tmp_path)[0]).header.id == first != made(tmp_path).recording().header.id


def test_two_functions_of_one_name_are_observed_and_warned_about_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recording = record(tmp_path, tuned(RELU), tuned(RELU), tuned(GELU), tuned(RELU), keys=(1, 2, 3, 4))
    assert recording.votes == {}
    seen = recording.observations[ARCH]["pkg.ops.kernel"]
    assert {key.partition("|")[0]: observed.reason for key, observed in seen.items()} == dict.fromkeys(
        ("M=1", "M=2", "M=3", "M=4"), TWO_SOURCES
    )
    assert caplog.text.count("two functions with different source code are named pkg.ops.kernel") == 1


def test_two_functions_of_equal_source_vote(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recording = record(tmp_path, tuned(RELU), tuned(RELU), keys=(1, 2))
    assert len(recording.votes[ARCH]["pkg.ops.kernel"]) == 2
    assert "two functions" not in caplog.text


@pytest.mark.parametrize("median", [-0.5, 0.0, float("nan")])
def test_a_winner_with_an_impossible_time_is_an_observation(tmp_path: Path, median: float) -> None:
    recording = record(tmp_path, tuned(RELU, [median, 1.0, 2.0]))
    assert recording.votes == {}
    (observed,) = recording.observations[ARCH]["pkg.ops.kernel"].values()
    assert observed.reason == IMPOSSIBLE_TIME


NO_TIMES = [
    [0.1, 0.2, 0.05], [0.1, 0.05, 0.08], [5e-324] * 3, [1e-7] * 3, [True] * 3, [0.1, 0.1], [0.1] * 4, [], [-10**400] * 3,
    [0.1, float("nan"), float("nan")], [float("-inf")] * 3,
]  # fmt: skip


def timed_as(first: Any) -> Any:
    """A kernel whose timer gives this for the first candidate, and 9 ms for the others."""
    answers = iter([first, [9.0] * 3, [9.0] * 3])
    made = autotuner(timer=lambda call, quantiles: next(answers))
    made.fn.fn = made.base_fn = function_of(RELU)
    return made


@pytest.mark.parametrize("times", NO_TIMES)
def test_what_a_timer_gives_that_is_not_a_measurement_does_not_vote(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, times: Any
) -> None:
    recording = record(tmp_path, timed_as(times))
    assert recording.votes == {}
    (observed,) = recording.observations[ARCH]["pkg.ops.kernel"].values()
    assert observed.reason == IMPOSSIBLE_TIME
    (timed,) = recording.timings[ARCH]["pkg.ops.kernel"].values()
    assert sorted(row.median_ms or 0.0 for row in timed) == [0.0, 9.0, 9.0]
    assert caplog.text.count("cannot be median, p20 and p80 in ms") == 1
    assert fault_counts() == {}


@pytest.mark.parametrize("times", [[0.1, 0.1 * (1 + 1e-9), 0.1], [0.1], [1, 1, 1]])
def test_times_that_are_equal_but_for_rounding_are_a_measurement(tmp_path: Path, times: Any) -> None:
    assert record(tmp_path, timed_as(times)).observations == {}


@pytest.mark.parametrize("options", [{"num_warps": 128}, {"num_stages": -1}, {"maxnreg": 0}])
def test_a_launch_option_out_of_range_is_an_observation_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: Any
) -> None:
    configs = [Config({"BLOCK_M": 64}, **options), Config({"BLOCK_M": 32})]
    recording = record(
        tmp_path, tuned(RELU, [1.0, 2.0], configs=configs), tuned(RELU, [1.0, 2.0], configs=configs), keys=(1, 2)
    )
    assert recording.votes == {}
    assert set(recording.observations[ARCH]["pkg.ops.kernel"].values()) == {Observation(None, NO_TEXT)}
    assert caplog.text.count("a recording cannot hold") == 1


def test_candidates_that_differ_in_their_hook_alone_are_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    configs = [Config({"BLOCK_M": 64}, pre_hook=lambda _: None), Config({"BLOCK_M": 64}, pre_hook=lambda _: 1)]
    record(tmp_path, tuned(RELU, [1.0, 2.0], configs=configs), tuned(RELU, [1.0, 2.0], configs=configs), keys=(1, 2))
    assert caplog.text.count("two candidates of pkg.ops.kernel differ in their pre_hook alone") == 1


def test_a_folder_that_cannot_be_written_is_warned_about_at_install(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    install(AutotunePolicy(record_path=tmp_path / "file" / "deep" / "r", run="job"))
    assert f"cannot write to the folder {tmp_path}/file/deep, because {tmp_path}/file is not a folder" in caplog.text
    caplog.clear()
    install(AutotunePolicy(record_path=tmp_path / "new" / "deep" / "r", run="job"))
    assert "cannot write" not in caplog.text


@pytest.mark.parametrize("module", ["scan_1e6e70c7", "None"])
def test_a_module_that_no_other_process_can_import_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    recorder = made(tmp_path)
    for number in range(2):
        recorder.vote(entry(number, f"{module}.gen"), CONFIGS[0], [], [])
        recorder.vote(entry(number, "json.gen"), CONFIGS[0], [], [])
    recorder.finish()
    (warning,) = [r.getMessage() for r in caplog.records if "cannot be imported" in r.getMessage()]
    assert f"module {module} cannot be imported by its name" in warning
    assert f"may record {module}.gen under other names" in warning
    assert is_importable("json")


class FakeLibrary:
    """NVIDIA's management library, as ctypes shows it; `broken` functions fail."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            if name in self.broken:
                return 999
            if name == "nvmlSystemGetDriverVersion":
                arguments[0].value = b"570.86.15"
            if name == "nvmlDeviceGetMaxClockInfo":
                arguments[-1]._obj.value = {1: 1980, 2: 3201}[arguments[1].value]
            if name == "nvmlDeviceGetEnforcedPowerLimit":
                arguments[-1]._obj.value = 699_999
            return 0

        return call


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ((), Management("570.86.15", 1980, 3201, 700)),
        (("nvmlInit_v2",), Management()),
        (("nvmlDeviceGetHandleByUUID",), Management("570.86.15")),
        (("nvmlDeviceGetEnforcedPowerLimit",), Management("570.86.15", 1980, 3201)),
        (("nvmlSystemGetDriverVersion",), Management(None, 1980, 3201, 700)),
    ],
)
def test_what_the_management_library_answers_is_stated(
    monkeypatch: pytest.MonkeyPatch, broken: Any, expected: Management
) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: FakeLibrary(*broken))
    assert ask_management("GPU-1") == expected
    assert ask_management(None) == Management(expected.driver)


def test_without_any_library_nothing_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> Any:
        raise OSError("no such library")

    monkeypatch.setattr("ctypes.CDLL", missing)
    monkeypatch.setattr(facts, "_ptxas_version", lambda: 1 / 0)  # whatever fails, the rest is stated
    monkeypatch.setattr(
        facts, "loaded_torch", lambda: types.SimpleNamespace(version=types.SimpleNamespace(cuda="12.8"))
    )
    assert find_hardware(Device("sm90")) == Hardware(cuda="12.8")


def test_hardware_is_asked_for_after_the_first_choice_on_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Device] = []

    def ask(device: Device) -> Hardware:
        asked.append(device)
        return Hardware(driver="1")

    monkeypatch.setattr("tuning_registry.runtime.recording.recorder.find_hardware", ask)
    recorder = made(tmp_path)
    assert recorder.recording().header.hardware == Hardware()
    recorder.device = Device("sm90", "NVIDIA H200", 132, "GPU-7")
    recorder.vote(entry(), CONFIGS[0], [], [])
    recorder.finish()
    header = read_recording(files(tmp_path)[0]).header
    assert (asked, header.hardware.driver, header.device_uuid) == ([recorder.device], "1", "GPU-7")
    assert json.loads(files(tmp_path)[0].read_text())["version"] == 2


def test_a_generated_module_is_recorded_and_pinned_under_its_stated_name(tmp_path: Path) -> None:
    names = {"scan_*": "pkg.scan", "None": "pkg.generated"}
    install(AutotunePolicy(record_path=tmp_path / "rec" / "r", arch=ARCH, run="job", module_names=names))
    for module in ("scan_1e6e70c7", "None", "pkg.ops"):
        launch(autotuner(module=module))
    uninstall()
    votes = only_recording(tmp_path / "rec").votes[ARCH]
    assert set(votes) == {"pkg.scan.kernel", "pkg.generated.kernel", "pkg.ops.kernel"}
    pinned = autotuner(module="scan_ffff")
    table = write_table(tmp_path / "tables", {"pkg.scan.kernel": {"*": stored(pinned.configs[2])}})
    install(
        AutotunePolicy(mode="pinned", table_path=table, arch=ARCH, on_miss="error", module_names=("scan_*=pkg.scan",))
    )
    launch(pinned)
    assert (pinned.timer.calls, pinned.best_config) == (0, pinned.configs[2])
    uninstall()
    assert kernel_name(pinned) == "scan_ffff.kernel"


@pytest.mark.parametrize("names", ["scan", ("=x",), ("scan_*=",), {"a": "not a name"}, 7, {"a": 1}])
def test_names_of_modules_are_checked(names: Any) -> None:
    with pytest.raises(FormatError, match="module_names"):
        AutotunePolicy(module_names=names)
