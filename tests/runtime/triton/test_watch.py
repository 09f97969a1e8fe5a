"""What Triton chose, and what of it is kept: votes, observations, timings, choices."""

# ruff: noqa: ARG002, ANN001 - fakes take what Triton passes

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (  # fmt: skip
    ARCH,
    HAS_DISK_CACHE,
    HAS_LISTENER,
    KEY,
    NAME,
    Autotuner,
    Config,
    Tensor,
    Timer,
    autotuner,
    launch,
    launched,
    only_recording,
    text_of,
    three,
    triton,
)
from tuning_registry.errors import LaunchError
from tuning_registry.model.canonical import text_digest
from tuning_registry.model.records import Observation, TimedCandidates, Timing
from tuning_registry.runtime import AutotunePolicy, choice_log, coverage_report, install, uninstall


def record(tmp_path: Path, **fields: Any) -> Any:
    return install(AutotunePolicy(record_path=tmp_path / "rec" / "r", arch=ARCH, **fields))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> None:
    (tmp_path / "rec").mkdir()


def finished(tmp_path: Path) -> Any:
    uninstall()
    return only_recording(tmp_path / "rec")


def test_the_winner_and_all_timings_are_kept(tmp_path: Path) -> None:
    assert record(tmp_path, run="job-1", source="a test").mode == "record"
    kernel = autotuner(timer=Timer([3.0, 1.0, 2.0]))
    for _ in range(3):
        launch(kernel)
    assert launched(kernel)[3:] == [64, 64, 64]
    recording = finished(tmp_path)
    texts = [text_of(config) for config in three()]
    assert recording.votes == {ARCH: {NAME: {KEY: texts[1]}}}
    assert recording.observations == {}
    assert recording.timings == {
        ARCH: {
            NAME: {
                KEY: TimedCandidates.from_timings(
                    Timing(text, m, m * 0.9, m * 1.1) for text, m in zip(texts, (3.0, 1.0, 2.0), strict=True)
                )
            }
        }
    }
    assert recording.candidate_sets == {ARCH: {NAME: {KEY: text_digest("\n".join(sorted(texts)))}}}
    header = recording.header
    assert (header.run, header.rank, header.world_size, header.source) == ("job-1", 0, 1, "a test")
    assert (header.device_arch, header.triton) == (ARCH, triton.__version__)


def test_recording_replaces_no_launch_function(tmp_path: Path) -> None:
    """What is watched happens at a key's first launch; a launch in steady state is Triton's own code."""
    original = Autotuner.__dict__["run"]
    record(tmp_path)
    assert Autotuner.__dict__["run"] is original


def test_names_and_dtypes_come_in_signature_order_whatever_the_call(tmp_path: Path) -> None:
    record(tmp_path)
    kernel = autotuner()
    x, y = Tensor("torch.bfloat16"), Tensor("torch.float32")
    launch(kernel, x, y, 3)
    launch(kernel, M=3, y=y, x=x)
    assert list(finished(tmp_path).votes[ARCH][NAME]) == ["M=3|torch.bfloat16|torch.float32"]


def test_true_one_and_one_point_oh_are_one_vote(tmp_path: Path) -> None:
    record(tmp_path)
    for values in ((True, 1, 1.0, "1", None), (1, 1.0, True)):
        kernel = autotuner()
        for value in values:
            launch(kernel, Tensor(), Tensor(), value)
    keys = sorted(finished(tmp_path).votes[ARCH][NAME])
    assert [key.partition("|")[0] for key in keys] == ["M=None", "M=True", r"M=\1"]


def test_a_tensor_as_key_value_is_skipped_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record(tmp_path)
    odd, fine = autotuner(key=("x",), name="odd"), autotuner()
    launch(odd)
    launch(odd)
    launch(fine)
    assert list(finished(tmp_path).votes[ARCH]) == [NAME]
    assert len([r for r in caplog.records if "key argument at x" in r.getMessage()]) == 1


def test_a_single_candidate_is_an_observation(tmp_path: Path) -> None:
    record(tmp_path)
    launch(autotuner([Config({"BLOCK_M": 8})], name="one"))
    launch(autotuner(prune_configs_by={"early_config_prune": lambda c, n, **k: c[:1]}))
    recording = finished(tmp_path)
    assert recording.votes == {}
    assert recording.observations == {ARCH: {NAME: {KEY: Observation(text_of(three()[0]), "single candidate")}}}


def test_a_kernel_whose_candidates_all_fail_has_no_vote(tmp_path: Path) -> None:
    record(tmp_path)
    launch(autotuner(timer=Timer([None])))
    recording = finished(tmp_path)
    assert recording.votes == {}
    assert recording.observations[ARCH][NAME][KEY] == Observation(None, "every candidate failed")
    assert [timing.median_ms for timing in recording.timings[ARCH][NAME][KEY]] == [None] * 3
    assert choice_log() == []


def test_one_failed_candidate_is_timed_as_null(tmp_path: Path) -> None:
    record(tmp_path)
    launch(autotuner(timer=Timer([None, 2.0, 3.0])))
    recording = finished(tmp_path)
    assert recording.votes[ARCH][NAME][KEY] == text_of(three()[1])
    medians = {timing.config: timing.median_ms for timing in recording.timings[ARCH][NAME][KEY]}
    assert [medians[text_of(config)] for config in three()] == [None, 2.0, 3.0]


@pytest.mark.parametrize("answer", [2.0, [2.0, 2.0, 2.0]])
def test_a_timer_that_answers_with_one_number_is_fine(tmp_path: Path, answer: Any) -> None:
    record(tmp_path)
    kernel = autotuner()
    kernel.__dict__["do_bench"] = lambda call, quantiles: answer
    launch(kernel)
    recording = finished(tmp_path)
    assert recording.votes[ARCH][NAME][KEY] == text_of(three()[0])
    assert [timing.median_ms for timing in recording.timings[ARCH][NAME][KEY]] == [2.0] * 3


def test_a_winner_that_no_recording_can_hold_is_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record(tmp_path)
    launch(autotuner([Config({"F": object()}), Config({"F": 1})], timer=Timer([1.0, 2.0])))
    launch(autotuner([Config({"F": object()}), Config({"F": 1})], timer=Timer([2.0, 1.0]), name="b"))
    recording = finished(tmp_path)
    assert list(recording.votes[ARCH]) == ["pkg.ops.b"]
    assert [timing.median_ms for timing in recording.timings[ARCH]["pkg.ops.b"][KEY]] == [1.0]
    assert "cannot hold" in caplog.text


def test_equal_candidates_that_differ_in_a_hook_are_one_timing(tmp_path: Path) -> None:
    record(tmp_path)
    launch(autotuner([Config({"B": 1}), Config({"B": 1}, pre_hook=lambda a: None)], timer=Timer([2.0, 1.0])))
    assert [timing.median_ms for timing in finished(tmp_path).timings[ARCH][NAME][KEY]] == [1.0]


@pytest.mark.skipif(not HAS_DISK_CACHE, reason="this Triton has no result cache on disk")
@pytest.mark.parametrize("without_listener", [False, True])
def test_an_echo_of_the_disk_cache_is_an_observation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_listener: Any
) -> None:
    winner = three()[2]

    def from_disk(self, key: Any, configs: Any, bench: Any) -> Any:
        self.cache[key] = winner
        self.configs_timings = {winner: [1.0, 1.0, 1.0]}
        return True

    monkeypatch.setattr(Autotuner, "check_disk_cache", from_disk)
    if without_listener:
        monkeypatch.setattr("tuning_registry.runtime.triton.adapter.has_listener", lambda knobs: False)
    record(tmp_path)
    launch(autotuner(cache_results=True))
    assert [(choice.source, choice.config) for choice in choice_log()] == [("echo", text_of(winner))]
    recording = finished(tmp_path)
    assert (recording.votes, recording.timings) == ({}, {})
    assert recording.observations[ARCH][NAME][KEY] == Observation(text_of(winner), "echo of Triton's disk cache")


@pytest.mark.skipif(not HAS_LISTENER, reason="Triton's listener came with 3.9")
def test_another_tools_listener_is_what_it_reads_at_any_time_and_hears_what_we_hear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, during = [], []
    knob = triton.knobs.autotuning
    theirs = lambda **event: heard.append(event["cache_hit"])
    monkeypatch.setattr(knob, "listener", theirs)
    record(tmp_path)
    launch(autotuner(behave=lambda *a, **k: during.append(knob.listener is theirs)))
    assert all(during)
    assert heard == [False]
    uninstall()
    assert knob.listener is theirs
    assert vars(type(knob))["listener"] is None
    assert list(finished(tmp_path).votes[ARCH]) == [NAME]


@pytest.mark.skipif(not HAS_LISTENER, reason="Triton's listener came with 3.9")
def test_a_listener_set_by_another_tool_while_tuning_costs_no_vote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = []
    monkeypatch.setattr(triton.knobs.autotuning, "listener", None)
    record(tmp_path)

    def behave(*args: Any, **kwargs: Any) -> None:
        triton.knobs.autotuning.listener = lambda **event: heard.append(event)

    launch(autotuner(behave=behave, timer=Timer([3.0, 1.0, 2.0])))
    assert len(heard) == 1
    assert finished(tmp_path).votes[ARCH][NAME] == {KEY: text_of(three()[1])}


def test_a_kernel_that_is_not_a_jit_function_tunes_as_without_us(tmp_path: Path) -> None:
    """With any listener set, Triton 3.9 fails on such kernels; ours must not be the one."""
    record(tmp_path)
    kernel = autotuner(plain=True, timer=Timer([3.0, 1.0, 2.0]))
    launch(kernel)
    assert launched(kernel)[-1] == 64
    assert finished(tmp_path).votes[ARCH][NAME][KEY] == text_of(three()[1])


class InterpretedFunction:
    """Named as Triton's interpreter names it."""

    def __init__(self, kernel: Any) -> None:
        self.fn = kernel.fn
        self.launches = kernel.launches

    def run(self, *args: Any, grid: Any, warmup: Any, **kwargs: Any) -> None:
        self.launches.append(kwargs)


def test_the_interpreter_records_nothing_and_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record(tmp_path)
    for name in ("a", "b"):
        kernel = autotuner(plain=True, name=name)
        kernel.fn = InterpretedFunction(kernel.fn)
        launch(kernel)
    uninstall()
    assert list((tmp_path / "rec").iterdir()) == []
    assert caplog.text.count("interpreter") == 1


def test_warmup_begins_no_tuning(tmp_path: Path) -> None:
    record(tmp_path)
    kernel = autotuner()
    kernel.fn.warmup = lambda *args, **kwargs: "compiled"
    assert kernel.warmup(Tensor(), Tensor(), 16, grid=(1,)) == ["compiled"] * 3
    assert choice_log() == []
    launch(kernel)
    assert len(choice_log()) == 1


def test_a_tuning_that_fails_halfway_is_forgotten(tmp_path: Path) -> None:
    record(tmp_path)
    fail = [True]

    def behave(*args: Any, **kwargs: Any) -> None:
        if kwargs["BLOCK_M"] == 64 and fail:
            fail.pop()
            raise RuntimeError("from the kernel")

    kernel = autotuner(behave=behave, timer=Timer([5.0, 3.0, 1.0, 2.0]))
    with pytest.raises(RuntimeError, match="from the kernel"):
        launch(kernel)
    launch(kernel)
    recording = finished(tmp_path)
    medians = {timing.median_ms: timing.config for timing in recording.timings[ARCH][NAME][KEY]}
    assert len(medians) == 3
    assert recording.votes[ARCH][NAME][KEY] == medians[1.0]


@pytest.mark.usefixtures("alone")
def test_a_subclass_that_prunes_its_own_way_is_recorded_where_triton_tells(tmp_path: Path) -> None:
    class OwnPruning(Autotuner):
        def prune_configs(self, kwargs: Any) -> Any:
            return self.configs[:2]

    record(tmp_path)
    launch(autotuner(cls=OwnPruning, timer=Timer([2.0, 1.0])))
    gaps = [kernel for kernel, _ in coverage_report().not_covered]
    uninstall()
    assert gaps == ([] if HAS_LISTENER else [NAME])
    assert len(list((tmp_path / "rec").iterdir())) == (1 if HAS_LISTENER else 0)


def test_only_kernels_in_scope_are_recorded(tmp_path: Path) -> None:
    record(tmp_path, modules=("fla",))
    launch(autotuner(module="fla.ops"))
    launch(autotuner(module="flashy.ops"))
    report = coverage_report()
    assert report.reached == {"fla.ops.kernel": "timed", "flashy.ops.kernel": "out of scope"}
    assert list(finished(tmp_path).votes[ARCH]) == ["fla.ops.kernel"]


def test_misses_of_pinned_launches_are_kept_as_observations(tmp_path: Path) -> None:
    install(AutotunePolicy(mode="pinned", record_path=tmp_path / "rec" / "r", arch="sm999"))
    launch(autotuner())
    recording = finished(tmp_path)
    assert recording.votes == {}
    assert recording.observations == {"sm999": {NAME: {KEY: Observation(text_of(three()[2]), "miss: no table")}}}


def test_chaos_choices_never_vote(tmp_path: Path) -> None:
    record(tmp_path, chaos=True)
    launch(autotuner())
    recording = finished(tmp_path)
    assert recording.votes == {}
    assert recording.observations[ARCH][NAME][KEY].reason == "chaos"


def test_reinstalling_goes_on_with_the_same_file(tmp_path: Path) -> None:
    record(tmp_path)
    launch(autotuner(name="a"))
    record(tmp_path)
    launch(autotuner(name="b"))
    uninstall()
    record(tmp_path)
    launch(autotuner(name="c"))
    assert sorted(finished(tmp_path).votes[ARCH]) == ["pkg.ops.a", "pkg.ops.b", "pkg.ops.c"]


def test_timing_inside_a_graph_capture_is_refused_by_name_before_anything_is_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    record(tmp_path)
    kernel = autotuner()
    with pytest.raises(LaunchError, match=r"pkg\.ops\.kernel .*M=16.*Launch it once before the capture"):
        launch(kernel)
    assert (kernel.fn.launches, kernel.timer.calls) == ([], 0)
    install(AutotunePolicy(mode="pinned", arch=ARCH))
    assert launch(kernel) == "launched"


def test_auto_watches_choices_and_writes_nothing(tmp_path: Path) -> None:
    assert install(AutotunePolicy()).mode == "auto"
    launch(autotuner())
    assert [choice.source for choice in choice_log()] == ["timed"]
    assert coverage_report().reached == {NAME: "timed"}


def test_enumeration_logs_each_autotuner_when_it_is_first_reached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    install(AutotunePolicy(enumerate_autotuners=True, modules=("pkg",), config_invariant=("free",)))
    for kernel in (autotuner(), autotuner(name="free"), autotuner(module="other.ops")):
        launch(kernel)
        launch(kernel, Tensor(), Tensor(), 17)
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("tuning_registry: autotuner ")]
    assert lines == [
        "tuning_registry: autotuner pkg.ops.kernel (3 candidates): timed",
        "tuning_registry: autotuner pkg.ops.free (3 candidates): invariant",
        "tuning_registry: autotuner other.ops.kernel (3 candidates): out of scope",
    ]
