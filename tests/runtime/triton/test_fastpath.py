"""The pinned launch: which calls are one key, and what a launch does and leaves alone."""


# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (  # fmt: skip
    KEY,
    NAME,
    Config,
    Tensor,
    autotuner,
    launch,
    launched,
    pin,
    stored,
    three,
)
from tuning_registry.runtime import choice_log, coverage_report


def test_the_live_candidate_is_launched_and_its_hook_runs_once_a_launch(tmp_path: Path) -> None:
    zeroed = []
    live = [
        Config({"SPLIT_K": 1}, num_warps=4),
        Config({"SPLIT_K": 4}, num_warps=4, pre_hook=lambda a: zeroed.append(a["x"])),
    ]
    kernel = autotuner(live)
    pin(tmp_path, stored(live[1]))
    x = Tensor()
    for _ in range(3):
        launch(kernel, x, Tensor(), 16)
        assert kernel.best_config is live[1]
    assert [id(z) for z in zeroed] == [id(x)] * 3
    assert [kwargs["SPLIT_K"] for kwargs in kernel.fn.launches] == [4, 4, 4]
    assert kernel.timer.calls == 0


def test_the_hook_sees_all_arguments_and_launch_options(tmp_path: Path) -> None:
    seen = []
    live = [Config({"B": 1}), Config({"B": 2}, num_warps=8, pre_hook=lambda a: seen.append(dict(a)))]
    kernel = autotuner(live)
    pin(tmp_path, stored(live[1]))
    x, y = Tensor(), Tensor()
    for _ in range(2):
        launch(kernel, M=16, y=y, x=x)
    assert len(seen) == 2
    for arguments in seen:
        assert arguments["x"] is x
        assert arguments["y"] is y
        assert (arguments["M"], arguments["B"], arguments["num_warps"]) == (16, 2, 8)
        assert arguments["grid"] == (1,)


def test_a_launch_that_fails_leaves_the_kernel_usable(tmp_path: Path) -> None:
    fail = [True]

    def behave(*args: Any, **kwargs: Any) -> None:
        if fail:
            fail.pop()
            raise KeyError("from the kernel")

    kernel = autotuner(behave=behave)
    pin(tmp_path, stored(three()[0]))
    with pytest.raises(KeyError, match="from the kernel"):
        launch(kernel)
    launch(kernel)
    assert launched(kernel) == [128, 128]
    assert kernel.timer.calls == 0


def test_equal_spellings_and_call_styles_are_one_key(tmp_path: Path) -> None:
    """True, 1 and 1.0 are one key for Triton, "1" and None are not; dtypes count in signature order."""
    kernel = autotuner()
    tables = {NAME: {"M=1|torch.bfloat16|torch.float32": stored(three()[0]),
                     r"M=\1|torch.bfloat16|torch.float32": stored(three()[1]),
                     "M=None|torch.bfloat16|torch.float32": stored(three()[2])}}  # fmt: skip
    pin(tmp_path, None, kernels=tables)
    x, y = Tensor("torch.bfloat16"), Tensor("torch.float32")
    for _ in range(2):
        for value in (True, 1, 1.0, "1", None):
            launch(kernel, x, y, value)
            launch(kernel, M=value, y=y, x=x)
    assert launched(kernel) == [128, 128, 128, 128, 128, 128, 64, 64, 32, 32] * 2
    assert coverage_report().misses == ()
    assert len(choice_log()) == 3


def test_a_tensor_as_key_value_is_never_turned_into_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kernel = autotuner(key=("M", "x"))
    pin(tmp_path, stored(three()[0]), key="*")
    for _ in range(3):
        launch(kernel)
    assert launched(kernel) == [32, 32, 32]
    assert coverage_report().miss_counts == {"unsupported key": 1}
    assert len([r for r in caplog.records if "key argument at x" in r.getMessage()]) == 1


def test_an_object_as_key_value_is_selected_for_once(tmp_path: Path) -> None:
    prunings: list[int] = []

    def prune(configs: Any, named: Any, **kwargs: Any) -> Any:
        prunings.append(1)
        return configs

    kernel = autotuner(prune_configs_by={"early_config_prune": prune})
    pin(tmp_path, stored(three()[0]), key="*")
    layout = object()
    for _ in range(3):
        launch(kernel, Tensor(), Tensor(), layout)
    assert launched(kernel) == [32, 32, 32]
    assert len(prunings) == 1
    for _ in range(3):
        launch(kernel, Tensor(), Tensor(), Tensor())
    assert len(prunings) == 4


def test_threads_each_get_the_config_of_their_own_shape(tmp_path: Path) -> None:
    seen: dict[int, set[int]] = {16: set(), 32: set()}
    faults: list[Exception] = []
    configs = three()

    def behave(x: Any, y: Any, M: Any, **kwargs: Any) -> None:  # noqa: N803 - a kernel argument
        time.sleep(0.0005)
        seen[M].add(kwargs["BLOCK_M"])

    hooked = [Config({"BLOCK_M": 128}, pre_hook=lambda a: a["M"]), *configs[1:]]
    kernel = autotuner(hooked, behave=behave)
    table = {NAME: {KEY: stored(hooked[0]), KEY.replace("16", "32"): stored(configs[1])}}
    pin(tmp_path, None, kernels=table)

    def work(shape: Any) -> None:
        try:
            for _ in range(200):
                launch(kernel, Tensor(), Tensor(), shape)
                assert kernel.configs is hooked
        except Exception as error:  # noqa: BLE001 - reported by the assertion below
            faults.append(error)

    threads = [threading.Thread(target=work, args=(shape,)) for shape in (16, 32, 16, 32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert seen == {16: {128}, 32: {64}}
    assert len(kernel.fn.launches) == 800
    assert kernel.timer.calls == 0


def test_a_single_candidate_is_launched_without_lookup_or_timing(tmp_path: Path) -> None:
    kernel = autotuner([Config({"BLOCK_M": 8})])
    pin(tmp_path, stored(three()[0]), on_miss="error")
    launch(kernel)
    launch(kernel, Tensor("torch.int8"), Tensor(), 77)
    assert launched(kernel) == [8, 8]
    assert coverage_report().reached == {}


def test_a_replaced_list_of_candidates_is_looked_up_anew(tmp_path: Path) -> None:
    kernel = autotuner()
    pin(tmp_path, stored(three()[0]))
    launch(kernel)
    kernel.configs = [Config({"BLOCK_M": 7})]
    launch(kernel)
    kernel.configs = three()
    launch(kernel)
    kernel.configs[:] = [kernel.configs[1]]
    launch(kernel)
    assert launched(kernel) == [128, 7, 128, 64]


def test_pinning_acts_like_tritons_cached_call_and_clears_nothing(tmp_path: Path) -> None:
    """Only Triton's tuned first call clears `reset_to_zero`; a cached call, and a pinned one, do not."""

    class Buffer(Tensor):
        cleared = 0

        def zero_(self) -> None:
            self.cleared += 1

    kernel = autotuner(args=("x", "y", "M", "acc"), reset_to_zero=["acc"])
    pin(tmp_path, stored(three()[0]), key="*")
    launch(kernel, Tensor(), Tensor(), 16, buffer := Buffer())
    launch(kernel, Tensor(), Tensor(), 16, None)
    assert buffer.cleared == 0
    assert launched(kernel) == [128, 128]


@pytest.mark.parametrize("error", [KeyError, AttributeError, TypeError])
def test_what_a_kernel_raises_is_raised_once_and_nothing_is_launched_again(
    tmp_path: Path, error: type[Exception]
) -> None:
    def behave(*args: Any, **kwargs: Any) -> None:
        raise error("the kernel's own")

    inside, outside = (
        autotuner(module="fla.ops", behave=behave),
        autotuner([three()[0]], module="other.ops", behave=behave),
    )
    pin(tmp_path, None, kernels={"fla.ops.kernel": {"*": stored(three()[0])}}, modules=("fla",))
    for kernel in (inside, outside):
        for launches in (1, 2, 3):
            with pytest.raises(error, match="the kernel's own"):
                launch(kernel)
            assert len(kernel.fn.launches) == launches
