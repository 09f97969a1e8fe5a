"""The key of a call: values that are written like others."""

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (
    ARCH,
    NAME,
    Tensor,
    autotuner,
    launch,
    launched,
    only_recording,
    stored,
    three,
    write_table,
)
from tuning_registry.runtime import AutotunePolicy, install, uninstall


def record(tmp_path: Path) -> None:
    install(AutotunePolicy(record_path=tmp_path / "rec" / "r", arch=ARCH, run="job"))


def test_numpy_scalars_are_keys_like_the_numbers_they_hold(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    key = "M=16|torch.float32|torch.float32|int64"
    asked: list[int] = []

    def prune(configs: Any, *_: Any, **__: Any) -> Any:
        asked.append(1)
        return configs

    path = write_table(tmp_path, {NAME: {key: stored(three()[1])}})
    install(AutotunePolicy(mode="pinned", table_path=path, arch=ARCH, on_miss="error"))
    kernel = autotuner(prune_configs_by={"early_config_prune": prune})
    for _ in range(3):
        launch(kernel, Tensor(), Tensor(), numpy.int64(16))
    assert (launched(kernel), len(asked)) == ([64] * 3, 1)
    record(tmp_path)
    launch(autotuner(), Tensor(), Tensor(), numpy.int64(16))
    launch(autotuner(name="long"), Tensor(), Tensor(), numpy.longdouble(1))  # no Python number holds it
    uninstall()
    assert {kernel: list(keys) for kernel, keys in only_recording(tmp_path / "rec").votes[ARCH].items()} == {
        NAME: [key]
    }
