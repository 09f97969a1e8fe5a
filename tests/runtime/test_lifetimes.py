"""What is kept, of what, and for how long: tensors, autotuners, copies, choices of before."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import contextlib
import copy
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (  # fmt: skip
    ARCH,
    KEY,
    NAME,
    Autotuner,
    Config,
    FakeJIT,
    Tensor,
    Timer,
    autotuner,
    function,
    launch,
    launched,
    only_recording,
    stored,
    text_of,
    three,
    write_table,
)
from tuning_registry.model.records import Observation
from tuning_registry.runtime import AutotunePolicy, choice_log, coverage_report, install, uninstall
from tuning_registry.runtime.triton import coverage
from tuning_registry.runtime.triton.weak_map import WeakIdentityMap


class Stops(Autotuner):
    """Times one candidate and calls it a day."""

    def run(self, *args: Any, **kwargs: Any) -> None:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        pruned = self.prune_configs(kwargs)
        self._bench(*args, config=pruned[0], **kwargs)


def out_of_memory(call: Any, quantiles: Any) -> None:
    raise MemoryError


def failing_reset(arguments: Any, reset_only: bool = False) -> None:
    if reset_only:
        raise MemoryError


@pytest.mark.parametrize("options", [{"timer": out_of_memory}, {"pre_hook": failing_reset}, {"cls": Stops}])
def test_a_tuning_that_is_never_completed_keeps_no_tensor_alive(options: dict[str, Any]) -> None:
    install(AutotunePolicy(mode="auto", arch=ARCH))
    kernel = autotuner(**options)

    def step() -> weakref.ref[Any]:
        tensor = Tensor()
        with contextlib.suppress(MemoryError):
            launch(kernel, tensor, Tensor(), 16)
        kernel.nargs = None  # Triton's own keeping
        kernel.fn.launches.clear()
        return weakref.ref(tensor)

    kept = [step() for _ in range(3)]
    gc.collect()
    assert [reference() for reference in kept] == [None] * 3


@pytest.mark.parametrize("mode", ["auto", "pinned"])
def test_autotuners_that_are_made_on_the_fly_are_freed(mode: str) -> None:
    install(AutotunePolicy(mode=mode, arch=ARCH))

    def one() -> weakref.ref[Any]:
        kernel = autotuner()
        for size in (1, 2):
            launch(kernel, Tensor(), Tensor(), size)
        return weakref.ref(kernel)

    kept = [one() for _ in range(20)]
    gc.collect()
    assert [reference() for reference in kept] == [None] * 20


def test_a_shallow_copy_of_a_pinned_autotuner_with_another_kernel_is_looked_up_anew(tmp_path: Path) -> None:
    tables = {NAME: {"*": stored(three()[0])}, "pkg.ops.other": {"*": stored(three()[1])}}
    path = write_table(tmp_path, tables)
    install(AutotunePolicy(mode="pinned", table_path=path, arch=ARCH))
    kernel = autotuner()
    launch(kernel)
    other = copy.copy(kernel)
    other.base_fn = function("other")
    other.fn = FakeJIT(other.base_fn, other.arg_names)
    for _ in range(2):
        launch(other)
        launch(kernel)
    assert (launched(kernel), launched(other)) == ([128] * 3, [64] * 2)


@pytest.mark.usefixtures("alone")
def test_a_key_that_was_tuned_before_install_stays_reported_when_others_are_seen() -> None:
    kernel = autotuner()
    launch(kernel)
    install(AutotunePolicy(mode="auto", arch=ARCH))
    launch(kernel, Tensor(), Tensor(), 17)
    launch(kernel)
    assert coverage_report().not_covered == ((NAME, coverage.EARLIER),)
    assert [choice.key for choice in choice_log()] == [KEY.replace("16", "17")]
    kernel.cache.clear()
    launch(kernel)  # tuned again, and seen
    assert coverage_report().not_covered == ()


def test_a_winner_whose_time_is_not_a_number_does_not_vote(tmp_path: Path) -> None:
    """Python's `min` gives a NaN that comes first, and never one that comes later."""
    install(AutotunePolicy(record_path=tmp_path / "rec" / "r", arch=ARCH, run="job"))
    launch(autotuner(timer=Timer([float("nan"), 1.0, 2.0])))
    launch(autotuner(timer=Timer([2.0, float("nan"), 1.0]), name="later"))
    assert [choice.source for choice in choice_log()] == ["timed", "timed"]
    uninstall()
    recording = only_recording(tmp_path / "rec")
    assert recording.votes == {ARCH: {"pkg.ops.later": {KEY: text_of(three()[2])}}}
    assert recording.observations[ARCH][NAME][KEY] == Observation(text_of(three()[0]), "impossible time")


def test_a_hook_that_changes_its_config_is_launched_with_the_change(tmp_path: Path) -> None:
    """Triton reads the config's options at each launch, after its hook."""
    live = [Config({"BLOCK_M": 1, "N": 0}), Config({"BLOCK_M": 2})]
    live[0].pre_hook = lambda arguments: live[0].kwargs.update(N=arguments["M"])
    kernel = autotuner(live, key=("y",))
    install(AutotunePolicy(mode="pinned", arch=ARCH))
    for size in (16, 32, 64):
        launch(kernel, Tensor(), "s", size)
    assert [options["N"] for options in kernel.fn.launches] == [16, 32, 64]


def test_a_miss_in_the_interpreter_is_not_recorded(tmp_path: Path) -> None:
    class InterpretedFunction:
        """Named as Triton's interpreter names it."""

        def __init__(self, kernel: Any) -> None:
            self.fn = kernel.fn
            self.run = kernel.run

    install(AutotunePolicy(mode="pinned", record_path=tmp_path / "rec" / "r", arch=ARCH))
    kernel = autotuner(plain=True)
    kernel.fn = InterpretedFunction(kernel.fn)
    launch(kernel)
    assert coverage_report().miss_counts != {}
    uninstall()
    assert not list((tmp_path / "rec").glob("*"))


def test_a_config_with_a_launch_field_of_a_backend_neither_votes_nor_is_pinned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class BackendConfig(Config):
        def __init__(self, kwargs: Any, multibuffer: bool = False) -> None:
            super().__init__(kwargs)
            self.multibuffer = multibuffer

        def all_kwargs(self) -> Any:
            return {**super().all_kwargs(), "multibuffer": self.multibuffer}

    live = [BackendConfig({"BLOCK_M": 64}, multibuffer=True), BackendConfig({"BLOCK_M": 64})]
    install(AutotunePolicy(record_path=tmp_path / "rec" / "r", arch=ARCH, run="job"))
    launch(autotuner(live, timer=Timer([1.0, 2.0])))
    launch(autotuner(live, timer=Timer([2.0, 1.0]), name="plain"))
    uninstall()
    votes = only_recording(tmp_path / "rec").votes[ARCH]
    assert list(votes) == ["pkg.ops.plain"]
    assert caplog.text.count("cannot hold") == 1
    path = write_table(tmp_path / "tables", {NAME: {"*": stored(live[1])}})
    install(AutotunePolicy(mode="pinned", table_path=path, arch=ARCH, on_miss="error"))
    launch(kernel := autotuner(live))
    assert kernel.best_config is live[1]


def test_the_map_knows_its_objects_by_identity_and_forgets_them() -> None:
    class Odd:
        __hash__ = None  # type: ignore[assignment]  # how Python says unhashable

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

    things: WeakIdentityMap[int] = WeakIdentityMap()
    one, two = Odd(), Odd()
    things.put(one, 1)
    things.put(two, 2)
    things.put(one, 3)
    assert (things.get(one), things.get(two), things.get(Odd())) == (3, 2, None)
    assert len(things.live()) == 2
    del two
    gc.collect()
    assert len(things.live()) == 1
    assert len(things._items) == 1
