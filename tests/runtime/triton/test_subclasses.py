"""Autotuners of other kinds: classes that override `run`, pruning or timing, odd objects, odd arguments."""

# ruff: noqa: PLW1641, ARG002 - an unhashable class is the point; fakes take what Triton passes

# mypy: disable-error-code="assignment, misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (  # fmt: skip
    ARCH,
    HAS_LISTENER,
    KEY,
    NAME,
    Autotuner,
    Tensor,
    Timer,
    autotuner,
    launch,
    launched,
    only_recording,
    stored,
    text_of,
    three,
    write_table,
)
from tuning_registry.runtime import AutotunePolicy, choice_log, coverage_report, install, uninstall
from tuning_registry.runtime.triton import coverage

pytestmark = pytest.mark.usefixtures("alone")


def record(tmp_path: Path) -> None:
    install(AutotunePolicy(record_path=tmp_path / "rec" / "r", arch=ARCH, run="job"))


def pin(tmp_path: Path, **fields: Any) -> None:
    path = write_table(tmp_path / "tables", {NAME: {"*": stored(three()[0])}})
    install(AutotunePolicy(mode="pinned", table_path=path, arch=ARCH, **fields))


class OwnRun(Autotuner):
    """As FlagGems' LibTuner: a custom `run` over Triton's pruning and timing."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        key = (args[2],)
        if key not in self.cache:
            pruned = self.prune_configs(kwargs)
            timings = {config: self._bench(*args, config=config, **kwargs) for config in pruned}
            self.cache[key] = min(timings, key=timings.__getitem__)
        self.nargs = None
        return self.fn.run(*args, **kwargs, **self.cache[key].all_kwargs())


class OwnTiming(Autotuner):
    """Asks nobody for a time."""

    def _bench(self, *args: Any, config: Any, **meta: Any) -> Any:
        return [float(config.kwargs["BLOCK_M"])] * 3


class TimingOnTop(Autotuner):
    """Has a `_bench` that calls Triton's."""

    def _bench(self, *args: Any, config: Any, **meta: Any) -> Any:
        return super()._bench(*args, config=config, **meta)


class Unhashable(Autotuner):
    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")


@pytest.mark.parametrize("on_miss", ["min_cost", "error"])
def test_a_class_with_its_own_run_is_reported_where_it_should_be_pinned(tmp_path: Path, on_miss: str) -> None:
    pin(tmp_path, on_miss=on_miss)
    launch(kernel := autotuner(cls=OwnRun))
    report = coverage_report()
    assert report.not_covered == ((NAME, coverage.NOT_PINNED),)
    assert report.reached == {NAME: "timed"}
    assert [choice.source for choice in choice_log()] == ["timed"]
    assert kernel.timer.calls == 3


def test_a_class_with_its_own_run_is_recorded(tmp_path: Path) -> None:
    record(tmp_path)
    kernel = autotuner(cls=OwnRun, timer=Timer([3.0, 1.0, 2.0]))
    launch(kernel)
    launch(kernel)
    assert coverage_report().not_covered == ()
    uninstall()
    assert only_recording(tmp_path / "rec").votes[ARCH][NAME] == {KEY: text_of(three()[1])}


def test_a_class_with_its_own_timing_is_recorded_where_triton_tells_and_else_reported(tmp_path: Path) -> None:
    record(tmp_path)
    launch(autotuner(cls=OwnTiming))
    report = coverage_report()
    assert report.reached == {NAME: "timed"}
    assert report.not_covered == (() if HAS_LISTENER else ((NAME, coverage.OWN_TIMING),))
    assert [choice.config for choice in choice_log()] == ([text_of(three()[2])] if HAS_LISTENER else [])


def test_a_class_with_a_timing_on_top_of_tritons_is_recorded(tmp_path: Path) -> None:
    record(tmp_path)
    launch(autotuner(cls=TimingOnTop, timer=Timer([3.0, 1.0, 2.0])))
    assert coverage_report().not_covered == ()
    uninstall()
    assert only_recording(tmp_path / "rec").votes[ARCH][NAME] == {KEY: text_of(three()[1])}


def test_a_custom_timing_inside_a_graph_capture_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    install(AutotunePolicy(mode="auto", arch=ARCH))
    monkeypatch.setattr("tuning_registry.runtime.triton.adapter.is_capturing", lambda: True)
    assert launch(autotuner(cls=OwnTiming)) == "launched"
    assert coverage_report().not_covered == ((NAME, coverage.IN_CAPTURE),)


@pytest.mark.parametrize("mode", ["auto", "record", "pinned"])
def test_an_autotuner_without_a_hash_is_like_any_other(tmp_path: Path, mode: str) -> None:
    if mode == "record":
        record(tmp_path)
    elif mode == "pinned":
        pin(tmp_path)
    else:
        install(AutotunePolicy(mode="auto", arch=ARCH))
    kernels = [autotuner(cls=Unhashable), autotuner(cls=Unhashable)]
    for kernel in kernels:
        launch(kernel)
        launch(kernel)
        assert len(launched(kernel)) == (2 if mode == "pinned" else 5)
    report = coverage_report()
    assert (report.reached, report.not_covered, report.faults) == (
        {NAME: "pinned" if mode == "pinned" else "timed"},
        (),
        {},
    )
    uninstall()
    assert not [name for kernel in kernels for name in vars(kernel) if "tuning_registry" in name]


@pytest.mark.parametrize("name", ["autotuner", "original", "kwargs", "args", "tuning_key", "kind", "call"])
@pytest.mark.parametrize("mode", ["auto", "pinned"])
def test_kernel_arguments_may_have_the_names_of_our_own(mode: str, name: str) -> None:
    install(AutotunePolicy(mode=mode, arch=ARCH))
    kernel = autotuner(args=("x", "y", "M", name), key=("M", name))
    for _ in range(2):
        assert launch(kernel, Tensor(), Tensor(), 16, **{name: 3}) == "launched"
    assert [choice.key for choice in choice_log()] == [f"M=16|{name}=3|torch.float32|torch.float32"]
    assert coverage_report().faults == {}


@pytest.mark.parametrize("mode", ["auto", "record", "pinned"])
def test_a_pruner_that_gives_an_iterator_does_as_on_stock_triton(tmp_path: Path, mode: str) -> None:
    def made(taken: list[Any]) -> Any:
        def prune(configs: Any, named: Any, **kwargs: Any) -> Any:
            for config in configs:
                if config.kwargs["BLOCK_M"] < 100:
                    taken.append(config)
                    yield config

        return autotuner(prune_configs_by={"early_config_prune": prune}, timer=Timer([2.0, 1.0]))

    def outcome(kernel: Any) -> Any:
        try:
            launch(kernel)
        except TypeError:  # Triton 3.9 asks for a length
            return TypeError
        return kernel.best_config.kwargs

    taken: list[Any] = []
    stock, kernel = outcome(made([])), made(taken)
    if mode == "record":
        record(tmp_path)
    elif mode == "pinned":
        pin(tmp_path)
    else:
        install(AutotunePolicy(mode="auto", arch=ARCH))
    assert outcome(kernel) == ({"BLOCK_M": 32} if mode == "pinned" else stock)
    if stock is TypeError:
        return
    assert taken == kernel.configs[1:]
    assert [choice.source for choice in choice_log()] == ["min_cost" if mode == "pinned" else "timed"]
    assert coverage_report().not_covered == ()
