"""Pinned launches through Triton's real Autotuner: what is launched, how often, and what is left alone."""

# ruff: noqa: ANN001 - fakes take what Triton passes

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import itertools
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (
    ARCH,
    HAS_DISK_CACHE,
    KEEPS_DEVICE_CACHES,
    KEY,
    Autotuner,
    Config,
    Tensor,
    autotuner,
    launch,
    launched,
    nothing,
    stored,
    three,
    triton,
    write_table,
)  # fmt: skip
from tuning_registry.errors import LaunchError
from tuning_registry.runtime import AutotunePolicy, choice_log, coverage_report, install, uninstall
from tuning_registry.runtime.triton.coverage import was_launched

NAME = "pkg.ops.kernel"


def pin(tmp_path: Path, config: Any, *, name: Any = NAME, key: Any = KEY, kernels: Any = None, **fields: Any) -> Any:
    path = write_table(tmp_path / "tables", kernels or {name: {key: config}})
    return install(AutotunePolicy(mode="pinned", table_path=path, arch=ARCH, **fields))


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
    for _ in range(2):
        launch(kernel, M=16, y=(y := Tensor()), x=(x := Tensor()))
    assert len(seen) == 2
    for arguments in seen:
        assert arguments["x"] is x
        assert arguments["y"] is y
        assert (arguments["M"], arguments["B"], arguments["num_warps"]) == (16, 2, 8)
        assert arguments["grid"] == (1,)


def test_kwargs_order_does_not_matter_for_the_match(tmp_path: Path) -> None:
    live = [Config({"A": 1, "B": 2}), Config({"BLOCK_M": 128, "BLOCK_K": 32})]
    kernel = autotuner(live)
    pin(tmp_path, {"kwargs": {"BLOCK_K": 32, "BLOCK_M": 128}, "num_warps": 4, "num_stages": live[1].num_stages})
    launch(kernel)
    assert kernel.best_config is live[1]


@pytest.mark.parametrize(("maxnreg", "index"), [(256, 2), (None, 0)])
def test_candidates_that_differ_in_one_launch_option_are_told_apart(tmp_path: Path, maxnreg: Any, index: Any) -> None:
    live = [Config({"B": 64}, num_warps=4, num_stages=3, maxnreg=r) for r in (None, 128, 256)]
    kernel = autotuner(live)
    config = {"kwargs": {"B": 64}, "num_warps": 4, "num_stages": 3} | ({"maxnreg": maxnreg} if maxnreg else {})
    pin(tmp_path, config)
    launch(kernel)
    assert kernel.best_config is live[index]


def test_nothing_is_timed_and_tritons_cache_stays_empty(tmp_path: Path) -> None:
    kernel = autotuner()
    pin(tmp_path, stored(three()[0]))
    assert [launch(kernel) for _ in range(3)] == ["launched"] * 3
    assert kernel.timer.calls == 0
    assert kernel.cache == {}
    assert launched(kernel) == [128, 128, 128]
    assert coverage_report().misses == ()


@pytest.mark.skipif(not HAS_DISK_CACHE, reason="this Triton has no result cache on disk")
def test_tritons_disk_cache_is_neither_read_nor_written_for_a_pinned_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = autotuner(cache_results=True)
    monkeypatch.setattr(kernel, "check_disk_cache", lambda *a: pytest.fail("the disk cache was consulted"))
    assert kernel.cache_results
    pin(tmp_path, stored(three()[2]))
    launch(kernel)
    assert launched(kernel) == [32]


def test_a_table_without_the_key_falls_to_block_sizes_then_to_the_cheapest(tmp_path: Path) -> None:
    kernel = autotuner()
    pin(tmp_path, stored(three()[0]), key="M=99|torch.float32|torch.float32", block_sizes={"BLOCK_M": 64})
    launch(kernel)
    assert launched(kernel) == [64]
    pin(tmp_path, stored(three()[0]), key="M=99|torch.float32|torch.float32")
    launch(kernel)
    assert launched(kernel) == [64, 32]
    (miss,) = coverage_report().misses
    assert (miss.kernel, miss.key, miss.reason, miss.source) == (NAME, KEY, "no key", "min_cost")


def test_on_miss_error_raises_before_anything_is_launched(tmp_path: Path) -> None:
    kernel = autotuner()
    pin(tmp_path, stored(three()[0]), key="M=99", on_miss="error")
    with pytest.raises(LaunchError, match=r"pkg\.ops\.kernel, key M=16\|torch\.float32.*no key") as caught:
        launch(kernel)
    asked = f"{tmp_path / 'tables' / 'sm90.json'}: 1 entry, unknown Triton; this is Triton {triton.__version__}"
    assert asked in str(caught.value)
    assert kernel.fn.launches == []
    assert getattr(kernel, "nargs", None) is None


@pytest.mark.parametrize(
    ("kernels", "reason"),
    [
        ({"other.kernel_b": {"*": None}}, "no kernel"),
        ({NAME: {"M=1": None}}, "no key"),
        ({NAME: {"*": {"kwargs": {"BLOCK_M": 256}, "num_warps": 8, "num_stages": 4}}}, "not a candidate"),
    ],
)
def test_every_miss_has_a_reason_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kernels: Any, reason: Any
) -> None:
    kernels = {k: {key: c or stored(three()[0]) for key, c in v.items()} for k, v in kernels.items()}
    kernel = autotuner()
    path = write_table(tmp_path, kernels, triton="3.0.1")
    install(AutotunePolicy(mode="pinned", table_path=path, arch=ARCH))
    for _ in range(3):
        launch(kernel)
    launch(kernel, M=16, x=Tensor(), y=Tensor())
    assert coverage_report().miss_counts == {reason: 1}
    messages = [r.getMessage() for r in caplog.records if "miss for " in r.getMessage()]
    assert len(messages) == 1
    assert all(part in messages[0] for part in (reason, NAME, KEY))
    (asked,) = [r.getMessage() for r in caplog.records if "these misses are relative to" in r.getMessage()]
    assert all(part in asked for part in (str(path), "3.0.1", triton.__version__))


def test_a_flood_of_misses_is_counted_and_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kernel = autotuner()
    install(AutotunePolicy(mode="pinned", table_path=tmp_path, arch=ARCH))
    for size in range(1, 101):
        launch(kernel, M=size)
    assert sum(coverage_report().miss_counts.values()) == 100
    messages = [
        r.getMessage()
        for r in caplog.records
        if re.match("tuning_registry: (miss|these misses|further)", r.getMessage())
    ]
    assert len(messages) == 22  # twenty with their keys, which table, and that there are more
    assert "further misses are counted but not logged" in messages[-1]


def test_no_table_at_all_is_its_own_reason() -> None:
    install(AutotunePolicy(mode="pinned", arch="sm999"))
    launch(autotuner())
    assert coverage_report().miss_counts == {"no table": 1}


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


def test_an_entry_that_cannot_tell_two_candidates_apart_is_a_miss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live = [Config({"BLOCK_M": b}, pre_hook=hook) for b, hook in ((2, None), (2, launch), (1, None))]
    kernel = autotuner(live)
    pin(tmp_path, stored(live[1]))
    launch(kernel)
    assert kernel.best_config is live[2]
    assert coverage_report().miss_counts == {"ambiguous config": 1}
    assert "on sm90: ambiguous config;" in caplog.text


def test_a_pruner_that_rebuilds_configs_still_matches_by_fields(tmp_path: Path) -> None:
    rebuilt = three()
    kernel = autotuner(prune_configs_by={"early_config_prune": lambda c, n, **k: rebuilt})
    pin(tmp_path, stored(three()[1]))
    launch(kernel)
    assert kernel.best_config is rebuilt[1]


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


def test_two_kernels_of_one_function_name_keep_apart(tmp_path: Path) -> None:
    mamba, fla = autotuner(module="mamba_ssm.norm"), autotuner(module="fla.modules")
    pin(
        tmp_path,
        None,
        kernels={"mamba_ssm.norm.kernel": {"*": stored(three()[0])}, "fla.modules.kernel": {"*": stored(three()[1])}},
    )
    launch(mamba)
    launch(fla)
    assert launched(mamba) + launched(fla) == [128, 64]
    assert coverage_report().misses == ()


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


class Counting(Autotuner):
    """As flash-linear-attention's: own `run` that calls the base class."""

    n = 0

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self.n += 1
        return super().run(*args, **kwargs)


class Bypassing(Autotuner):
    """Never calls the base class."""

    def run(self, *args: Any, grid: Any, warmup: Any, **kwargs: Any) -> Any:
        return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs, **self.configs[0].all_kwargs())


@pytest.mark.usefixtures("alone")
def test_autotuners_from_before_and_after_and_of_subclasses_are_pinned(tmp_path: Path) -> None:
    original = Autotuner.__dict__["run"]
    before, derived, escaping = (
        autotuner(name="a"),
        autotuner(name="c", cls=Counting),
        autotuner(name="d", cls=Bypassing),
    )
    table = {f"pkg.ops.{n}": {"*": stored(three()[0])} for n in "abcd"}
    for _ in range(2):
        pin(tmp_path, None, kernels=table)
    after = autotuner(name="b")
    for kernel in (before, after, derived, escaping):
        launch(kernel)
        launch(kernel)
    assert [launched(k) for k in (before, after, derived, escaping)] == [[128, 128]] * 4
    assert derived.n == 2
    report = coverage_report()
    assert report.reached == {f"pkg.ops.{n}": "pinned" for n in "abc"}
    assert [kernel for kernel, _ in report.not_covered] == ["pkg.ops.d"]
    assert "NOT COVERED  pkg.ops.d" in str(report)
    uninstall()
    assert Autotuner.__dict__["run"] is original
    assert not [name for name in vars(before) if "tuning_registry" in name]
    launch(before)
    assert before.timer.calls == 3


def test_a_patch_of_another_tool_survives_uninstall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = Autotuner.__dict__["run"]
    pin(tmp_path, stored(three()[0]))
    ours = Autotuner.__dict__["run"]

    def theirs(self, *args: Any, **kwargs: Any) -> Any:
        return ours(self, *args, **kwargs)

    monkeypatch.setattr(Autotuner, "run", theirs)
    uninstall()
    assert Autotuner.__dict__["run"] is theirs
    kernel = autotuner()
    launch(kernel)
    assert kernel.timer.calls == 3
    assert "patched by another tool" in caplog.text
    monkeypatch.undo()
    Autotuner.run = original


def test_kernels_under_and_over_heuristics_are_pinned(tmp_path: Path) -> None:
    over = triton.heuristics({"EVEN": lambda a: a["M"] % 2 == 0})(kernel := autotuner())
    pin(tmp_path, stored(three()[0]))
    launch(over)
    assert kernel.fn.launches[0]["EVEN"] is True
    inner = autotuner(name="under")
    inner.fn = triton.heuristics({"EVEN": lambda a: a["M"] % 2 == 0})(inner.fn)
    pin(tmp_path, stored(three()[1]), name="pkg.ops.under")
    launch(inner)
    assert inner.fn.fn.launches == [{**three()[1].all_kwargs(), "EVEN": True}]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("mode", ["auto", "pinned"])
def test_a_bypassing_autotuner_is_a_gap_once_it_was_launched_and_not_before(mode: str) -> None:
    kernel, idle, calling = autotuner(cls=Bypassing), autotuner(name="idle", cls=Bypassing), autotuner(cls=Counting)
    install(AutotunePolicy(mode=mode, arch=ARCH))
    assert coverage_report().not_covered == ()
    for called in (kernel, calling):
        launch(called)
    ((name, why),) = coverage_report().not_covered
    assert (name, "it was launched, its class overrides run" in why) == (NAME, True)
    uninstall()
    launch(idle)
    install(AutotunePolicy(mode=mode, arch=ARCH))
    assert "pkg.ops.idle" in dict(coverage_report().not_covered)


@pytest.mark.usefixtures("alone")
def test_where_a_kernel_keeps_no_trace_of_launches_a_gap_is_claimed_rather_than_denied() -> None:
    kernel = autotuner(cls=Bypassing, plain=True)
    install(AutotunePolicy(mode="auto", arch=ARCH))
    assert [name for name, _ in coverage_report().not_covered] == [NAME]
    assert was_launched(kernel)


def test_a_launch_is_read_from_what_this_release_of_triton_keeps() -> None:
    kernel = autotuner(cls=Bypassing)
    kernel.fn = triton.jit(nothing)
    assert not was_launched(kernel)
    if KEEPS_DEVICE_CACHES:
        kernel.fn.device_caches[0] = ({"key": "a kernel"}, {}, None, None, None)
    else:
        kernel.fn.cache[0]["key"] = "a kernel"
    assert was_launched(kernel)


@pytest.mark.usefixtures("alone")
def test_only_whole_package_names_are_in_scope(tmp_path: Path) -> None:
    inside, outside = autotuner(module="fla.ops"), autotuner(module="flashy.ops")
    pin(tmp_path, None, kernels={"kernel": {"*": stored(three()[0])}}, modules=("fla",))
    for kernel in (inside, outside):
        launch(kernel)
        launch(kernel)
    assert (inside.timer.calls, outside.timer.calls) == (0, 3)
    assert coverage_report().reached == {"fla.ops.kernel": "pinned", "flashy.ops.kernel": "out of scope"}
    assert coverage_report().not_covered == (("flashy.ops.kernel", "out of scope"),)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("first", [0, 1])
def test_a_bare_name_of_two_live_kernels_is_a_miss_from_the_first_launch_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, first: int
) -> None:
    kernels = autotuner(module="one.ops"), autotuner(module="two.ops", cls=Counting)
    pin(tmp_path, stored(three()[0]), name="kernel", key="*")
    launch(kernels[first])
    (miss,) = coverage_report().misses
    assert (miss.kernel, miss.reason) == (("one.ops.kernel", "two.ops.kernel")[first], "ambiguous name")
    assert "could mean one.ops.kernel or two.ops.kernel" in caplog.text
    launch(kernels[1 - first])
    assert coverage_report().miss_counts == {"ambiguous name": 2}
    assert [launched(kernel) for kernel in kernels] == [[32], [32]]


@pytest.mark.usefixtures("alone")
def test_a_bare_name_serves_the_one_kernel_that_it_can_mean(tmp_path: Path) -> None:
    kernel, twin = autotuner(), autotuner()
    others = [
        autotuner(module="out.of.scope"),
        autotuner([three()[0]], module="pkg.single"),
        autotuner(name="other_name"),
    ]
    pin(tmp_path, stored(three()[0]), name="kernel", key="*", modules=("pkg",))
    for called in (kernel, twin):
        launch(called)
        assert launched(called) == [128]
    assert coverage_report().misses == ()
    assert len(others) == 3


def test_a_table_of_qualified_names_does_not_walk_live_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuning_registry.runtime.tables.live_kernels", lambda: pytest.fail("walked"))
    pin(tmp_path, stored(three()[0]))
    launch(kernel := autotuner())
    assert launched(kernel) == [128]


def test_an_invariant_kernel_without_an_entry_is_left_to_triton(tmp_path: Path) -> None:
    kernel, listed = autotuner(name="free"), autotuner(name="listed")
    pin(tmp_path, stored(three()[2]), name="pkg.ops.listed", config_invariant=("free", "listed"), on_miss="error")
    for _ in range(2):
        launch(kernel)
        launch(listed)
    assert (kernel.timer.calls, listed.timer.calls) == (3, 0)
    assert launched(listed) == [32, 32]
    assert coverage_report().reached == {"pkg.ops.free": "invariant", "pkg.ops.listed": "pinned"}


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


def test_a_new_policy_takes_over_at_once(tmp_path: Path) -> None:
    kernel = autotuner()
    for index in (0, 1):
        pin(tmp_path, stored(three()[index]))
        launch(kernel)
    install(AutotunePolicy(mode="auto"))
    launch(kernel)
    assert launched(kernel)[:2] == [128, 64]
    assert kernel.timer.calls == 3


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


def test_a_fault_of_ours_pins_the_cheapest_candidate_and_times_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = autotuner()
    pin(tmp_path, stored(three()[0]))
    monkeypatch.setattr("tuning_registry.runtime.session.decide", lambda *a: 1 / 0)
    for _ in range(3):
        assert launch(kernel) == "launched"
    assert (kernel.timer.calls, launched(kernel)) == (0, [32, 32, 32])
    report = coverage_report()
    assert report.faults == {"pinning a kernel": 1}
    assert [(miss.key, miss.reason, miss.source) for miss in report.misses] == [(KEY, "fault", "min_cost")]
    assert [choice.source for choice in choice_log()] == ["min_cost"]
    assert caplog.text.count("pinning a kernel failed") == 1


def test_a_fault_of_ours_forbids_the_launch_where_a_miss_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, free = autotuner(), autotuner(name="free")
    pin(tmp_path, stored(three()[0]), on_miss="error", config_invariant=("free",))
    monkeypatch.setattr("tuning_registry.runtime.tables.load", lambda *a, **options: 1 / 0)
    with pytest.raises(LaunchError, match=r"pkg\.ops\.kernel could not be pinned because of a fault"):
        launch(kernel)
    launch(free)
    assert (kernel.fn.launches, kernel.timer.calls, launched(free), free.timer.calls) == ([], 0, [32], 0)
    assert coverage_report().miss_counts == {"fault": 2}


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


@pytest.mark.usefixtures("alone")
def test_what_was_tuned_before_install_is_reported_and_pinned_from_then_on(tmp_path: Path) -> None:
    kernel = autotuner()
    launch(kernel)
    install(AutotunePolicy(mode="auto"))
    launch(kernel)
    assert [name for name, why in coverage_report().not_covered if "before install" in why] == [NAME]
    pin(tmp_path, stored(three()[2]))
    launch(kernel)
    assert launched(kernel)[-1] == 32
    assert coverage_report().not_covered == ()


def test_chaos_gives_neighbouring_ranks_different_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picks = []
    for rank in range(4):
        monkeypatch.setenv("RANK", str(rank))
        kernel = autotuner()
        pin(tmp_path, stored(three()[0]), chaos=True)
        launch(kernel)
        picks += launched(kernel)
        assert choice_log()[0].source == "chaos"
    assert all(a != b for a, b in itertools.pairwise(picks))
    assert picks[0] == picks[3]


def test_the_decision_is_kept_per_architecture_of_the_current_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tuning_registry.runtime import control
    from tuning_registry.runtime.job.devices import Device

    write_table(tmp_path / "t", {NAME: {KEY: stored(three()[0])}}, arch="sm90")
    write_table(tmp_path / "t", {NAME: {KEY: stored(three()[1])}}, arch="sm103")
    install(AutotunePolicy(mode="pinned", table_path=tmp_path / "t"))
    now = [0]
    session = control.active_session()
    assert session is not None
    devices = session.devices
    devices._devices, devices._index = [Device("sm90"), Device("sm103")], lambda: now[0]
    kernel = autotuner()
    for index in (0, 1, 0, 1):
        now[0] = index
        launch(kernel)
    assert launched(kernel) == [128, 64, 128, 64]
