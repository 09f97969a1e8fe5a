"""A pinned session through Triton's real Autotuner: tables, scope, misses and faults."""


# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (  # fmt: skip
    ARCH,
    KEY,
    NAME,
    Config,
    Counting,
    Tensor,
    autotuner,
    launch,
    launched,
    pin,
    stored,
    three,
    triton,
    write_table,
)
from tuning_registry.errors import LaunchError
from tuning_registry.runtime import AutotunePolicy, Miss, choice_log, coverage_report, install


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


def test_a_table_without_the_key_falls_to_block_sizes_then_to_the_nearest_key(tmp_path: Path) -> None:
    kernel = autotuner()
    other = "M=99|torch.float32|torch.float32"
    pin(tmp_path, stored(three()[0]), key=other, block_sizes={"BLOCK_M": 64})
    launch(kernel)
    assert launched(kernel) == [64]
    pin(tmp_path, stored(three()[0]), key=other)
    launch(kernel)
    assert launched(kernel) == [64, 128]
    assert coverage_report().misses == (Miss(ARCH, NAME, KEY, "no key", "nearest", other),)
    assert f"no key: {NAME} {KEY} (nearest {other})" in str(coverage_report())
    pin(tmp_path, stored(three()[0]), key=other, on_miss="min_cost")
    launch(kernel)
    assert launched(kernel) == [64, 128, 32]
    assert coverage_report().misses == (Miss(ARCH, NAME, KEY, "no key", "min_cost"),)


def test_on_miss_error_raises_before_anything_is_launched(tmp_path: Path) -> None:
    kernel = autotuner()
    pin(tmp_path, stored(three()[0]), key="M=99", on_miss="error")
    with pytest.raises(LaunchError, match=r"pkg\.ops\.kernel, key M=16\|torch\.float32.*no key") as caught:
        launch(kernel)
    asked = (
        f"{tmp_path / 'tables' / 'sm90.json'}: 1 entry, unknown Triton; this process uses Triton {triton.__version__}"
    )
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
    messages = [r.getMessage() for r in caplog.records if "miss (" in r.getMessage()]
    assert len(messages) == 1
    assert all(part in messages[0] for part in (reason, NAME, KEY))
    (asked,) = [r.getMessage() for r in caplog.records if "the keys were looked up in" in r.getMessage()]
    assert all(part in asked for part in (str(path), "3.0.1", triton.__version__))


def test_a_flood_of_misses_is_counted_and_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kernel = autotuner()
    install(AutotunePolicy(mode="pinned", table_path=tmp_path, arch=ARCH))
    for size in range(1, 101):
        launch(kernel, M=size)
    assert sum(coverage_report().miss_counts.values()) == 100
    messages = [
        r.getMessage() for r in caplog.records if re.match("tuning_registry: (miss|the keys|further)", r.getMessage())
    ]
    assert len(messages) == 22  # twenty with their keys, which table, and that there are more
    assert "further misses are counted but not logged" in messages[-1]


def test_no_table_at_all_is_its_own_reason() -> None:
    install(AutotunePolicy(mode="pinned", arch="sm999"))
    launch(autotuner())
    assert coverage_report().miss_counts == {"no table": 1}


def test_an_entry_that_cannot_tell_two_candidates_apart_is_a_miss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live = [Config({"BLOCK_M": b}, pre_hook=hook) for b, hook in ((2, None), (2, launch), (1, None))]
    kernel = autotuner(live)
    pin(tmp_path, stored(live[1]))
    launch(kernel)
    assert kernel.best_config is live[2]
    assert coverage_report().miss_counts == {"ambiguous config": 1}
    assert "on sm90: several candidates have this config and differ only in their pre_hook" in caplog.text
    pin(tmp_path, stored(live[1]), on_miss="error")
    with pytest.raises(LaunchError, match="differ only in their pre_hook") as caught:
        launch(autotuner(live))
    assert "Record this key" not in str(caught.value)


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


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_bare_name_serves_every_kernel_of_that_name_in_whatever_order_they_are_launched(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, order: tuple[int, ...]
) -> None:
    kernels = [autotuner(module="one.ops"), autotuner(module="two.ops", cls=Counting), autotuner(name="other")]
    pin(tmp_path, stored(three()[0]), name="kernel", key="*")
    for index in order:
        launch(kernels[index])
    assert [launched(kernel) for kernel in kernels] == [[128], [128], [32]]
    warnings = [r.getMessage() for r in caplog.records if "have no module" in r.getMessage()]
    assert len(warnings) == 1
    assert "they serve several kernels: one.ops.kernel and two.ops.kernel" in warnings[0]


def test_a_bare_name_serves_only_kernels_that_have_its_candidate(tmp_path: Path) -> None:
    kernels = autotuner(module="one.ops"), autotuner([Config({"BLOCK_M": 8}), Config({"BLOCK_M": 4})], module="two.ops")
    pin(tmp_path, stored(three()[0]), name="kernel", key="*")
    for kernel in kernels:
        launch(kernel)
    assert [launched(kernel) for kernel in kernels] == [[128], [4]]
    assert coverage_report().miss_counts == {"not a candidate": 1}


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


def test_an_invariant_kernel_without_an_entry_is_left_to_triton(tmp_path: Path) -> None:
    kernel, listed = autotuner(name="free"), autotuner(name="listed")
    pin(tmp_path, stored(three()[2]), name="pkg.ops.listed", config_invariant=("free", "listed"), on_miss="error")
    for _ in range(2):
        launch(kernel)
        launch(listed)
    assert (kernel.timer.calls, listed.timer.calls) == (3, 0)
    assert launched(listed) == [32, 32]
    assert coverage_report().reached == {"pkg.ops.free": "invariant", "pkg.ops.listed": "pinned"}


def test_a_fault_of_ours_pins_the_cheapest_candidate_and_times_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = autotuner()
    pin(tmp_path, stored(three()[0]))
    monkeypatch.setattr("tuning_registry.runtime.pinning.launches.decide", lambda *a, **options: 1 / 0)
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
    monkeypatch.setattr("tuning_registry.runtime.pinning.launches.decide", lambda *a, **options: 1 / 0)
    with pytest.raises(LaunchError, match=r"pkg\.ops\.kernel could not be pinned because of a fault"):
        launch(kernel)
    launch(free)
    assert (kernel.fn.launches, kernel.timer.calls, launched(free), free.timer.calls) == ([], 0, [32], 0)
    assert coverage_report().miss_counts == {"fault": 2}


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
