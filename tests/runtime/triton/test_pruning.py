"""A kernel's own pruning, before a pinned launch; classes whose pruning reads and keeps state."""

# ruff: noqa: ARG002 - fakes take what Triton passes

# mypy: disable-error-code="assignment, misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import gc
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (  # fmt: skip
    ARCH,
    NAME,
    Autotuner,
    Tensor,
    autotuner,
    launch,
    launched,
    pin,
    stored,
    three,
    write_table,
)
from tuning_registry.runtime import AutotunePolicy, coverage_report, install


def test_a_pinned_config_that_pruning_dropped_is_a_miss_and_is_not_launched(tmp_path: Path) -> None:
    prune = {"early_config_prune": lambda c, n, **k: [x for x in c if x.kwargs["BLOCK_M"] <= n["M"]]}
    kernel = autotuner(prune_configs_by=prune)
    pin(tmp_path, stored(three()[0]), key="*")
    launch(kernel, Tensor(), Tensor(), 64)
    assert launched(kernel) == [32]
    launch(kernel, Tensor(), Tensor(), 32)  # one candidate left, and not the pinned one
    launch(kernel, Tensor(), Tensor(), 128)
    assert launched(kernel) == [32, 32, 128]
    assert coverage_report().miss_counts == {"pruned away": 2}


def test_an_empty_pruning_surfaces_as_tritons_own_error(tmp_path: Path) -> None:
    def errors(policy: Any) -> Any:
        kernel = autotuner(prune_configs_by={"early_config_prune": lambda c, n, **k: []})
        if policy:
            pin(tmp_path, stored(three()[0]))
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the same error, whichever the release raises
            launch(kernel)
        return type(caught.value), str(caught.value)

    assert errors(policy=False) == errors(policy=True)


def test_a_failing_pruner_raises_its_own_error_and_leaves_no_state(tmp_path: Path) -> None:
    def prune(configs: Any, named: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError("the user's own")

    kernel = autotuner(prune_configs_by={"early_config_prune": prune})
    pin(tmp_path, stored(three()[0]))
    with pytest.raises(ZeroDivisionError):
        launch(kernel)
    assert getattr(kernel, "nargs", None) is None
    kernel.early_config_prune = None
    launch(kernel)
    assert launched(kernel) == [128]


def test_a_pruner_that_rebuilds_configs_still_matches_by_fields(tmp_path: Path) -> None:
    rebuilt = three()
    kernel = autotuner(prune_configs_by={"early_config_prune": lambda c, n, **k: rebuilt})
    pin(tmp_path, stored(three()[1]))
    launch(kernel)
    assert kernel.best_config is rebuilt[1]


class Slotted(Autotuner):
    """Keeps what its pruning reads in a slot."""

    __slots__ = ("limit",)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.limit = 2

    def prune_configs(self, kwargs: Any) -> Any:
        return super().prune_configs(kwargs)[: self.limit]


class Counting(Autotuner):
    """Its `run` reads what its pruning has set."""

    def prune_configs(self, kwargs: Any) -> Any:
        pruned = super().prune_configs(kwargs)
        self.pruned_to = len(pruned)
        return pruned

    def run(self, *args: Any, **kwargs: Any) -> Any:
        super().run(*args, **kwargs)
        return self.pruned_to


class Ending(Autotuner):
    """Frees something at its end."""

    ended: list[str] = []  # noqa: RUF012

    def __del__(self) -> None:
        self.ended.append("ended")


class Shy(Autotuner):
    """Answers for no attribute that it does not have."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Halving(Autotuner):
    """Its pruner, one of its methods, works without the call's arguments if it has none."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.early_config_prune = self.halve

    def halve(self, configs: Any, named: Any, **_: Any) -> Any:
        return configs[:2] if self.nargs else configs


class Local(Autotuner, threading.local):
    """Its class has a base in C, of which no bare copy can be made."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)


class Tallying(Autotuner):
    """Counts in a slot what its pruner, which knows the live object, adds."""

    __slots__ = ("tally",)


class Once(Autotuner):
    """Prunes with something that a copy cannot have."""

    def prune_configs(self, kwargs: Any) -> Any:
        if self is not self.me:
            raise ValueError("not me")
        return super().prune_configs(kwargs)


def test_the_pruning_of_a_subclass_finds_and_keeps_its_state(tmp_path: Path) -> None:
    pin(tmp_path, stored(three()[0]), key="*")
    kernels = []
    for kind, answer in (
        (Slotted, "launched"),
        (Counting, 3),
        (Shy, "launched"),
        (Ending, "launched"),
        (Once, "launched"),
    ):
        kernel = autotuner(cls=kind)
        kernels.append(kernel)
        if kind is Once:
            kernel.me = kernel
        assert [launch(kernel) for _ in range(2)] == [answer] * 2
        assert (launched(kernel), kernel.timer.calls) == ([128, 128], 0)
    gc.collect()
    assert Ending.ended == []
    assert coverage_report().faults == {}


def test_a_pruner_that_is_a_method_of_the_autotuner_is_asked_as_triton_does(tmp_path: Path) -> None:
    configs = three()
    path = write_table(tmp_path / "tables", {NAME: {"*": stored(configs[2])}})
    install(AutotunePolicy(mode="pinned", table_path=path, arch=ARCH))
    halving = autotuner(configs, cls=Halving)
    for size in (1, 2, 3):
        launch(halving, Tensor(), Tensor(), size)
    assert launched(halving) == [64] * 3  # what the table names is pruned away: the cheapest of the two that are left
    local = autotuner(cls=Local)
    assert launch(local) == "launched"
    tallying = autotuner(
        cls=Tallying, prune_configs_by={"early_config_prune": lambda configs, *_, **__: tally(configs)}
    )
    tallying.tally = 0

    def tally(configs: Any) -> Any:
        tallying.tally += 1
        return configs

    launch(tallying)
    assert tallying.tally == 1


def test_an_error_of_a_users_pruning_comes_out_as_without_us(tmp_path: Path) -> None:
    def prune(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("of the user")

    pin(tmp_path, stored(three()[0]), key="*")
    kernel = autotuner(prune_configs_by={"early_config_prune": prune})
    with pytest.raises(ZeroDivisionError, match="of the user"):
        launch(kernel)
    assert getattr(kernel, "nargs", None) is None
