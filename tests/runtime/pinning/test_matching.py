"""Keys and configs in other spellings, odd candidates, and what counts as a choice."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import functools
from pathlib import Path
from typing import Any

import pytest
from triton.language import constexpr

from tests.runtime.fakes import ARCH, KEY, NAME, Config, Tensor, autotuner, launch, launched, stored, three, write_table
from tuning_registry.runtime import choice_log, coverage_report, install
from tuning_registry.runtime.pinning.decision import static_estimate
from tuning_registry.runtime.triton.keys import source_hash


def pin(tmp_path: Path, entries: Any, **fields: Any) -> None:
    install(mode="pinned", table_path=write_table(tmp_path, {NAME: entries}), arch=ARCH, **fields)


@pytest.mark.parametrize(
    ("key", "call"),
    [
        ("M=16|torch.bfloat16|torch.float32", {"y": Tensor("torch.bfloat16"), "x": Tensor(), "M": 16}),
        ("M=1|torch.float32|torch.float32", {"x": Tensor(), "y": Tensor(), "M": "1"}),
        ("M=a|b=c|torch.float32|torch.float32", {"x": Tensor(), "y": Tensor(), "M": "a|b=c"}),
        ("M=16|torch.float32|torch.float32", {"x": Tensor(), "y": Tensor(), "M": constexpr(16)}),
        ("M=constexpr[16]|torch.float32|torch.float32", {"x": Tensor(), "y": Tensor(), "M": constexpr(16)}),
        ("M=relu|torch.bfloat16|torch.float32", {"M": constexpr("relu"), "y": Tensor("torch.bfloat16"), "x": Tensor()}),
    ],
)
def test_keys_that_megatron_writes_are_found(tmp_path: Path, key: str, call: Any) -> None:
    pin(tmp_path, {key: stored(three()[0]), "*": stored(three()[1])})
    kernel = autotuner()
    kernel[(1,)](**call)
    assert launched(kernel) == [128]


def test_our_own_spelling_of_a_key_comes_first(tmp_path: Path) -> None:
    ours, theirs = (f"M={value}|torch.float32|torch.float32" for value in (r"\1", "1"))
    pin(tmp_path, {ours: stored(three()[0]), theirs: stored(three()[1])})
    launch(kernel := autotuner(), Tensor(), Tensor(), "1")
    launch(kernel, Tensor(), Tensor(), 1)
    assert launched(kernel) == [128, 64]


@pytest.mark.parametrize("written", [True, 1, 1.0])
@pytest.mark.parametrize("live", [True, 1, 1.0])
def test_values_that_triton_cannot_tell_apart_match(tmp_path: Path, written: Any, live: Any) -> None:
    pin(tmp_path, {KEY: stored(Config({"BLOCK_M": 128, "EVEN_K": written}))})
    kernel = autotuner([Config({"BLOCK_M": 32, "EVEN_K": False}), Config({"BLOCK_M": 128, "EVEN_K": live})])
    launch(kernel)
    assert launched(kernel) == [128]
    assert type(kernel.fn.launches[0]["EVEN_K"]) is type(live)


@pytest.mark.parametrize(("written", "live"), [("1", 1), (1, 2), (True, False), (1.5, 1), ([1], 1)])
def test_values_that_triton_tells_apart_do_not_match(tmp_path: Path, written: Any, live: Any) -> None:
    pin(tmp_path, {KEY: stored(Config({"BLOCK_M": 128, "X": written}))})
    launch(autotuner([Config({"BLOCK_M": 32, "X": 9}), Config({"BLOCK_M": 128, "X": live})]))
    assert coverage_report().miss_counts == {"not a candidate": 1}


def test_the_exact_spelling_is_preferred(tmp_path: Path) -> None:
    pin(tmp_path, {KEY: stored(Config({"BLOCK_M": 128, "EVEN_K": 1}))})
    kernel = autotuner([Config({"BLOCK_M": 128, "EVEN_K": True}), Config({"BLOCK_M": 128, "EVEN_K": 1})])
    launch(kernel)
    assert kernel.best_config is kernel.configs[1]


@pytest.mark.parametrize("options", [{"num_stages": None}, {"num_warps": None}, {"num_stages": 0}])
def test_options_left_to_triton_are_no_fault(tmp_path: Path, options: Any) -> None:
    odd = Config({"BLOCK_M": 64})
    for name, value in options.items():
        setattr(odd, name, value)
    plain = [Config({"BLOCK_M": size}, num_warps=4, num_stages=1) for size in (128, 32)]
    pin(tmp_path, {KEY: stored(odd)}, on_miss="min_cost")
    kernel = autotuner([plain[0], odd, plain[1]])
    launch(kernel)
    launch(kernel, Tensor(), Tensor(), 99)
    assert launched(kernel) == [64, 32]  # 0 does not win every estimate
    assert coverage_report().faults == {}
    assert static_estimate(odd) == (64 * (odd.num_stages or 1), odd.num_warps or 1)


class Pruner:
    """A pruner that raises the first time it is called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, configs: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002 - as Triton calls it
        self.calls += 1
        if self.calls == 1:
            raise ZeroDivisionError("the user's own")
        return configs


@pytest.mark.parametrize("form", ["object", "function", "partial", "method", "model"])
def test_a_pruner_that_raises_once_is_called_once_and_raised(tmp_path: Path, form: str) -> None:
    pruner = Pruner()

    def function(configs: Any, named: Any, **kwargs: Any) -> Any:
        return pruner(configs, named, **kwargs)

    def model(**kwargs: Any) -> float:
        pruner(None, None)
        return 1.0

    options: Any = {
        "object": {"early_config_prune": pruner},
        "function": {"early_config_prune": function},
        "partial": {"early_config_prune": functools.partial(function)},
        "method": {"early_config_prune": pruner.__call__},
        "model": {"perf_model": model, "top_k": 2},
    }[form]
    pin(tmp_path, {KEY: stored(three()[0])})
    kernel = autotuner(prune_configs_by=options)
    with pytest.raises(ZeroDivisionError):
        launch(kernel)
    assert (pruner.calls, kernel.fn.launches) == (1, [])
    launch(kernel)
    assert launched(kernel) == [128]


@pytest.mark.parametrize("order", [(128, 32), (32, 128)])
@pytest.mark.parametrize("checked", [False, True])
def test_pruning_by_an_argument_outside_the_key_is_found_by_the_debug_switch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, order: tuple[int, int], checked: bool
) -> None:
    def prune(configs: Any, named: Any, **kwargs: Any) -> Any:
        return [c for c in configs if c.kwargs["BLOCK_M"] <= named["stride"]]

    configs = [Config({"BLOCK_M": size}) for size in (16, 8)]
    configs += [Config({"BLOCK_M": 128}, num_stages=1, num_warps=1)]
    kernel = autotuner(configs, args=("x", "M", "stride"), prune_configs_by={"early_config_prune": prune})
    install(mode="pinned", table_path=tmp_path, arch=ARCH, check_launches=checked, block_sizes={"num_stages": 1})
    for stride in order:
        launch(kernel, Tensor(), 16, stride)
    warned = any("prune differently" in record.getMessage() for record in caplog.records)
    assert warned == checked
    assert launched(kernel) == ([8, 8] if order == (32, 128) else [128, 8 if checked else 128])


def test_a_single_candidate_is_a_choice(tmp_path: Path) -> None:
    install(mode="pinned", table_path=tmp_path, arch=ARCH)
    kernel = autotuner([three()[1]])
    for size in (16, 32):
        launch(kernel, Tensor(), Tensor(), size)
    (choice,) = choice_log()
    assert (choice.kernel, choice.key, choice.source, '"BLOCK_M": 64' in choice.config) == (NAME, KEY, "single", True)


def test_functions_of_one_name_have_hashes_of_their_source() -> None:
    def relu(x: int) -> int:
        return max(x, 0)

    def gelu(x: int) -> int:
        return x * 2

    same = relu
    gelu.__name__ = "relu"
    kernels = [autotuner() for _ in range(3)]
    for kernel, function in zip(kernels, (relu, gelu, same), strict=True):
        kernel.base_fn = kernel.fn.fn = function
    hashes = [source_hash(kernel) for kernel in kernels]
    assert hashes[0] == hashes[2] != hashes[1]
    assert all(text is not None and len(text) == 64 for text in hashes)
