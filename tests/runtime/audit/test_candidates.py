"""Which candidates an audit finds equal, different, wrong, or different from run to run."""

# ruff: noqa: N803 - arguments are named as Triton passes them

# mypy: disable-error-code="import-untyped, import-not-found"

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from triton.runtime.errors import OutOfResources  # noqa: E402  # likewise

from tests.runtime.audit.helpers import classes, kernel, recorded, sizes  # noqa: E402  # what needs torch waits for it
from tests.runtime.fakes import Config, Timer, autotuner, launched  # noqa: E402  # likewise
from tuning_registry.model.audits import WORST  # noqa: E402  # likewise


def row_sums(x: Any, y: Any, M: Any, *, BLOCK_M: Any, **_: Any) -> None:
    """Sums of rows, BLOCK_M values at a time: the order of the additions follows the config."""
    parts = [x[:, start : start + BLOCK_M].sum(1) for start in range(0, x.shape[1], BLOCK_M)]
    y.copy_(torch.stack(parts).sum(0))


def data(dtype: Any = torch.float32) -> Any:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(40, 1000, generator=generator).to(dtype), torch.empty(40, dtype=dtype), 16


def test_candidates_of_equal_bits_are_one_class(tmp_path: Path) -> None:
    entry = recorded(tmp_path, kernel(lambda x, y, M, **_: y.copy_(x[:, 0])), *data())
    assert classes(entry) == {128: 0, 64: 0, 32: 0}
    assert sizes(entry, "difference") == {128: 0.0, 64: 0.0, 32: 0.0}


def test_another_rounding_is_another_class_within_the_tolerance(tmp_path: Path) -> None:
    entry = recorded(tmp_path, kernel(row_sums), *data())
    assert set(classes(entry).values()) == {0, 1, 2}
    differences = sizes(entry, "difference")
    assert min(differences.values()) == 0.0
    assert 0 < max(differences.values()) < 1e-4
    assert all(sizes(entry, "within").values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_wrong_value_is_outside_the_tolerance(tmp_path: Path, dtype: Any) -> None:
    def wrong(x: Any, y: Any, M: Any, *, BLOCK_M: Any, **_: Any) -> None:
        y.copy_(x.sum(1))
        if BLOCK_M == 64:
            y[-1] = 0.0  # a tile that was left out

    entry = recorded(tmp_path, kernel(wrong), *data(dtype))
    assert classes(entry) == {128: 0, 32: 0, 64: 1}
    assert sizes(entry, "within") == {128: True, 64: False, 32: True}
    assert sizes(entry, "repeats") == {128: True, 64: True, 32: True}


def test_the_first_candidate_can_be_the_wrong_one(tmp_path: Path) -> None:
    def wrong(x: Any, y: Any, M: Any, *, BLOCK_M: Any, **others: Any) -> None:
        row_sums(x, y, M, BLOCK_M=BLOCK_M, **others)
        if BLOCK_M == 128:
            y[:8] = 0.0

    entry = recorded(tmp_path, kernel(wrong), *data())
    assert len(set(classes(entry).values())) == 3
    assert sizes(entry, "within") == {128: False, 64: True, 32: True}


def test_memory_that_no_candidate_writes_hides_nothing(tmp_path: Path) -> None:
    x, _, size = data()
    y = torch.full((4000,), 3e38)  # what an allocation may hold

    def wrong(x: Any, y: Any, M: Any, *, BLOCK_M: Any, **_: Any) -> None:
        y[:40] = x.sum(1) * (1.5 if BLOCK_M == 64 else 1)

    assert sizes(recorded(tmp_path, kernel(wrong), x, y, size), "within")[64] is False


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_number_in_place_of_a_number_is_the_largest_difference(tmp_path: Path, value: float) -> None:
    def wrong(x: Any, y: Any, M: Any, *, BLOCK_M: Any, **_: Any) -> None:
        y.fill_(1.0)
        y[1] = value if BLOCK_M == 64 else 1.0

    entry = recorded(tmp_path, kernel(wrong), *data())
    assert sizes(entry, "difference") == {128: 0.0, 64: WORST, 32: 0.0}


def test_integers_must_be_equal(tmp_path: Path) -> None:
    def wrong(x: Any, y: Any, M: Any, *, BLOCK_M: Any, **_: Any) -> None:
        y.fill_(1 << 60)
        y[3] += BLOCK_M == 64

    entry = recorded(tmp_path, kernel(wrong), data()[0], torch.zeros(40, dtype=torch.int64), 16)
    assert sizes(entry, "within") == {128: True, 64: False, 32: True}


def test_a_candidate_that_differs_from_run_to_run_is_named(tmp_path: Path) -> None:
    count = itertools.count()

    def racing(x: Any, y: Any, M: Any, *, BLOCK_M: Any, **_: Any) -> None:
        y.copy_(x.sum(1))
        if BLOCK_M == 32:
            y[0] += 1e-3 * next(count)

    entry = recorded(tmp_path, kernel(racing), *data())
    assert sizes(entry, "repeats") == {128: True, 64: True, 32: False}
    assert classes(entry) == {128: 0, 64: 0}


def test_candidates_none_of_which_repeats_itself_are_compared_with_the_first(tmp_path: Path) -> None:
    count = itertools.count()
    entry = recorded(tmp_path, kernel(lambda x, y, M, **_: y.fill_(1.0 + next(count) * 1e-6)), *data())
    assert not any(sizes(entry, "repeats").values())
    assert classes(entry) == {}
    assert all(sizes(entry, "within").values())
    assert sizes(entry, "difference")[128] == 0.0 < sizes(entry, "difference")[64]


def test_adding_in_place_begins_from_the_tensors_of_the_job(tmp_path: Path) -> None:
    x, y, size = data()
    y.fill_(5.0)
    adding = kernel(lambda x, y, M, **_: y.add_(x[:, 0]), timer=Timer([1.0, 2.0, 3.0], runs=False))
    entry = recorded(tmp_path, adding, x, y, size)
    assert classes(entry) == {128: 0, 64: 0, 32: 0}
    assert torch.equal(y, 5.0 + x[:, 0])  # the launch alone has added


def test_reset_to_zero_clears_the_copies_as_before_the_first_launch(tmp_path: Path) -> None:
    x, y, size = data()
    y.fill_(5.0)
    seen: list[float] = []

    def adding(x: Any, y: Any, M: Any, **_: Any) -> None:
        seen.append(float(y.sum()))
        y.add_(x[:, 0])

    entry = recorded(tmp_path, kernel(adding, reset_to_zero=["y"]), x, y, size)
    assert set(seen) == {0.0}
    assert classes(entry) == {128: 0, 64: 0, 32: 0}
    assert torch.equal(y, x[:, 0])


def test_restore_value_does_not_hide_what_a_candidate_writes(tmp_path: Path) -> None:
    x, y, size = data()
    y.fill_(5.0)

    def scaling(x: Any, y: Any, M: Any, *, BLOCK_M: Any, **_: Any) -> None:
        y.mul_(2.0 if BLOCK_M == 64 else 3.0)

    entry = recorded(tmp_path, kernel(scaling, restore_value=["y"]), x, y, size)
    assert classes(entry) == {128: 0, 32: 0, 64: 1}
    assert set(y.tolist()) == {10.0}  # BLOCK_M 64 is the fastest


def test_hooks_see_the_copies(tmp_path: Path) -> None:
    x, y, size = data()
    y.fill_(5.0)
    places: set[int] = set()

    def clear(arguments: dict[str, Any]) -> None:
        places.add(arguments["y"].data_ptr())
        arguments["y"].zero_()

    configs = [Config({"BLOCK_M": 64}, pre_hook=clear), Config({"BLOCK_M": 32})]
    adding = kernel(lambda x, y, M, **_: y.add_(x[:, 0]), configs=configs, timer=Timer([2.0, 1.0], runs=False))
    entry = recorded(tmp_path, adding, x, y, size)
    assert classes(entry) == {64: 0, 32: 1}
    assert y.data_ptr() not in places
    assert torch.equal(y, 5.0 + x[:, 0])


def test_a_hook_of_the_autotuner_runs_as_before_the_first_launch(tmp_path: Path) -> None:
    calls: list[bool] = []

    def hook(arguments: dict[str, Any], reset_only: bool = False) -> None:
        calls.append(reset_only)
        arguments["y"].fill_(2.0)

    timer = Timer([1.0, 2.0, 3.0], runs=False)
    entry = recorded(tmp_path, kernel(lambda x, y, M, **_: y.mul_(2.0), pre_hook=hook, timer=timer), *data())
    assert set(calls) == {True}
    assert classes(entry) == {128: 0, 64: 0, 32: 0}


def test_a_candidate_that_fails_is_named_and_the_others_are_compared(tmp_path: Path) -> None:
    def failing(x: Any, y: Any, M: Any, *, BLOCK_M: Any, **_: Any) -> None:
        if BLOCK_M == 64:
            raise OutOfResources(2, 1, "shared memory")
        y.copy_(x[:, 0])

    entry = recorded(tmp_path, kernel(failing, timer=Timer([1.0, None, 2.0], runs=False)), *data())
    assert sizes(entry, "failed") == {128: False, 64: True, 32: False}
    assert sizes(entry, "difference") == {128: 0.0, 64: None, 32: 0.0}
    assert classes(entry) == {128: 0, 32: 0}


def test_every_candidate_runs_twice_and_one_of_each_other_class_once_more(tmp_path: Path) -> None:
    other = kernel(lambda x, y, M, *, BLOCK_M, **_: y.fill_(float(BLOCK_M > 64)), timer=Timer([1.0] * 3, runs=False))
    recorded(tmp_path, other, *data())
    assert launched(other) == [128, 64, 32, 128, 64, 32, 64, 128, 128]  # the last one is the job's launch


def test_tensors_passed_by_name_are_copied(tmp_path: Path) -> None:
    x, y, size = data()
    y.fill_(1.0)
    doubling = kernel(lambda x, y, M, **_: y.mul_(2.0), timer=Timer([1.0] * 3, runs=False))
    entry = recorded(tmp_path, doubling, x, kwargs={"y": y, "M": size})
    assert classes(entry) == {128: 0, 64: 0, 32: 0}
    assert set(y.tolist()) == {2.0}


def test_a_kernel_with_one_candidate_is_not_audited(tmp_path: Path) -> None:
    single = autotuner([Config({"BLOCK_M": 64})], behave=lambda x, y, M, **_: y.mul_(2.0), timer=Timer(runs=False))
    with pytest.raises(ValueError, match="not enough values"):
        recorded(tmp_path, single, *data())
    assert len(launched(single)) == 1


def test_a_candidate_that_pruning_leaves_alone_is_not_audited(tmp_path: Path) -> None:
    pruned = kernel(lambda x, y, M, **_: y.mul_(2.0), timer=Timer([1.0], runs=False),
                    prune_configs_by={"early_config_prune": lambda configs, *_, **__: configs[:1]})  # fmt: skip
    with pytest.raises(ValueError, match="not enough values"):
        recorded(tmp_path, pruned, *data())
    assert len(launched(pruned)) == 1
