"""A kernel's own pruning, before a pinned launch."""


# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (
    ARCH,
    KEY,
    Tensor,
    autotuner,
    launch,
    launched,
    stored,
    three,
    write_table,
)  # fmt: skip
from tuning_registry.runtime import AutotunePolicy, coverage_report, install

NAME = "pkg.ops.kernel"


def pin(tmp_path: Path, config: Any, *, name: Any = NAME, key: Any = KEY, kernels: Any = None, **fields: Any) -> Any:
    path = write_table(tmp_path / "tables", kernels or {name: {key: config}})
    return install(AutotunePolicy(mode="pinned", table_path=path, arch=ARCH, **fields))


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
