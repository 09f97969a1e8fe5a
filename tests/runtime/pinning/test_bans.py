"""A config that the table bans is launched on no road."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (  # fmt: skip
    ARCH,
    KEY,
    NAME,
    Config,
    Tensor,
    autotuner,
    launch,
    launched,
    stored,
    three,
    write_table,
)
from tuning_registry.errors import LaunchError
from tuning_registry.runtime import coverage_report, install

OTHER = "M=99|torch.float32|torch.float32"


def ban(config: Any, key: str = "*", kernel: str = NAME, action: str = "ban") -> dict[str, Any]:
    return {"action": action, "kernel": kernel, "key": key, "config": stored(config), "reason": "wrong results"}


def pin(tmp_path: Path, *overrides: dict[str, Any], kernels: Any = None, **fields: Any) -> None:
    path = write_table(tmp_path / "tables", kernels or {}, extra={"overrides": list(overrides)})
    install(mode="pinned", table_path=path, arch=ARCH, **fields)


def small() -> Any:
    return three()[2]  # the cheapest of the three, with BLOCK_M=32


@pytest.mark.parametrize(
    ("road", "kernels", "fields"),
    [
        ("an unseen key", {NAME: {OTHER: small()}}, {}),
        ("the entry of the key", {NAME: {KEY: small()}}, {}),
        ("the entry of every key", {NAME: {"*": small()}}, {}),
        ("a bare entry", {"kernel": {KEY: small()}}, {}),
        ("no table entry at all", {}, {}),
        ("block sizes", {}, {"block_sizes": {"BLOCK_M": 32}}),
    ],
)
@pytest.mark.parametrize("place", [("*", NAME), (KEY, NAME), ("*", "kernel"), (KEY, "kernel")])
def test_a_ban_holds_on_every_road(tmp_path: Path, road: str, kernels: Any, fields: Any, place: Any) -> None:
    kernels = {name: {key: stored(config) for key, config in keys.items()} for name, keys in kernels.items()}
    pin(tmp_path, ban(small(), *place), kernels=kernels, **fields)
    kernel = autotuner()
    for _ in range(2):
        launch(kernel)
    launch(kernel, M=16, y=Tensor(), x=Tensor())
    assert launched(kernel) == [64] * 3, road


@pytest.mark.parametrize(
    "kernels", [{NAME: {KEY: small()}}, {NAME: {OTHER: small()}}, {}], ids=["entry", "near", "none"]
)
@pytest.mark.parametrize("fields", [{"kwargs": {"BLOCK_M": 32}}, {"kwargs": {"BLOCK_M": 32.0}, "num_ctas": 1}])
def test_a_ban_of_a_class_holds_for_every_config_in_it(tmp_path: Path, kernels: Any, fields: Any) -> None:
    kernels = {name: {key: stored(config) for key, config in keys.items()} for name, keys in kernels.items()}
    pin(tmp_path, {**ban(small()), "config": fields}, kernels=kernels)
    kernel = autotuner()
    launch(kernel)
    assert launched(kernel) == [64]


def test_a_ban_of_a_class_that_has_every_candidate_is_an_error(tmp_path: Path) -> None:
    pin(tmp_path, {**ban(small()), "config": {"num_ctas": 1}})
    kernel = autotuner()
    with pytest.raises(LaunchError, match=f"the table bans every candidate of {NAME}"):
        launch(kernel)
    assert launched(kernel) == []


def test_a_banned_entry_is_a_miss_that_names_the_ban(tmp_path: Path) -> None:
    pin(tmp_path, ban(small()), kernels={NAME: {KEY: stored(small())}})
    launch(autotuner())
    assert coverage_report().miss_counts == {"banned": 1}


def test_a_banned_entry_is_refused_where_a_miss_is(tmp_path: Path) -> None:
    pin(tmp_path, ban(small()), kernels={NAME: {KEY: stored(small())}}, on_miss="error")
    kernel = autotuner()
    with pytest.raises(LaunchError, match="banned"):
        launch(kernel)
    assert kernel.fn.launches == []


def test_a_ban_of_one_key_holds_for_no_other(tmp_path: Path) -> None:
    pin(tmp_path, ban(small(), KEY))
    kernel = autotuner()
    launch(kernel)
    launch(kernel, Tensor(), Tensor(), 99)
    assert launched(kernel) == [64, 32]


@pytest.mark.parametrize(
    ("pinned", "banned", "expected"),
    [(KEY, "*", [32, 64]), ("*", "*", [64, 64]), (KEY, KEY, [64, 32]), ("*", KEY, [64, 32])],
)
def test_a_pin_of_the_key_lifts_a_ban_of_every_key(tmp_path: Path, pinned: str, banned: str, expected: Any) -> None:
    overrides = [ban(small(), banned), ban(small(), pinned, action="pin")]
    pin(tmp_path, *overrides, kernels={NAME: {pinned: stored(small())}})
    kernel = autotuner()
    launch(kernel)
    launch(kernel, Tensor(), Tensor(), 99)
    assert launched(kernel) == expected


@pytest.mark.parametrize("spelling", [True, 1, 1.0])
def test_a_ban_holds_for_spellings_that_triton_cannot_tell_apart(tmp_path: Path, spelling: Any) -> None:
    pin(tmp_path, ban(Config({"BLOCK_M": 32, "EVEN": True})))
    kernel = autotuner([Config({"BLOCK_M": 32, "EVEN": spelling}), Config({"BLOCK_M": 64, "EVEN": False})])
    launch(kernel)
    assert launched(kernel) == [64]


@pytest.mark.parametrize("fields", [{}, {"on_miss": "error"}, {"chaos": True}, {"config_invariant": ("kernel",)}])
@pytest.mark.parametrize("count", [1, 3])
def test_if_every_candidate_is_banned_nothing_is_launched(tmp_path: Path, fields: Any, count: int) -> None:
    candidates = three()[:count]
    pin(tmp_path, *map(ban, three()), **fields)
    kernel = autotuner(candidates)
    for _ in range(2):
        with pytest.raises(
            LaunchError, match=r"bans every candidate of pkg\.ops\.kernel for key M=16.*BLOCK_M=128"
        ) as caught:
            launch(kernel)
    assert "BLOCK_M=32" in str(caught.value)
    assert (kernel.fn.launches, kernel.timer.calls) == ([], 0)


def test_a_single_candidate_that_is_banned_for_one_key_is_launched_for_others(tmp_path: Path) -> None:
    pin(tmp_path, ban(small(), OTHER))
    kernel = autotuner([small()])
    for _ in range(2):
        launch(kernel)
        with pytest.raises(LaunchError, match="M=99"):
            launch(kernel, Tensor(), Tensor(), 99)
    assert launched(kernel) == [32, 32]


def test_chaos_draws_from_what_the_bans_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = set()
    for rank in range(6):
        monkeypatch.setenv("RANK", str(rank))
        pin(tmp_path, ban(small()), chaos=True)
        launch(kernel := autotuner())
        drawn |= set(launched(kernel))
    assert drawn == {64, 128}


def test_a_kernel_that_is_timed_does_not_time_what_is_banned(tmp_path: Path) -> None:
    pin(tmp_path, ban(small()), config_invariant=("kernel",))
    kernel = autotuner()
    for _ in range(2):
        launch(kernel)
    assert kernel.timer.calls == 2
    assert 32 not in launched(kernel)


def test_a_banned_winner_of_before_install_is_not_launched(tmp_path: Path) -> None:
    kernel = autotuner()
    kernel.timer.medians = iter([3.0, 2.0, 1.0, 2.0, 1.0])
    launch(kernel)
    assert launched(kernel)[-1] == 32
    kernel.fn.launches.clear()
    pin(tmp_path, ban(small()), config_invariant=("kernel",))
    for _ in range(2):
        launch(kernel)
    assert launched(kernel)
    assert 32 not in launched(kernel)


def test_bans_hold_after_a_fault_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(tmp_path, ban(small(), KEY))
    monkeypatch.setattr("tuning_registry.runtime.pinning.launches.decide", lambda *a, **options: 1 / 0)
    launch(kernel := autotuner())
    assert launched(kernel) == [64]
    pin(tmp_path, *map(ban, three()))
    with pytest.raises(LaunchError, match="bans every candidate"):
        launch(kernel)
    assert launched(kernel) == [64]


def test_what_pruning_and_bans_leave_together_is_launched(tmp_path: Path) -> None:
    prune = {"early_config_prune": lambda configs, named, **kwargs: [c for c in configs if c.kwargs["BLOCK_M"] < 100]}
    pin(tmp_path, ban(small()))
    launch(kernel := autotuner(prune_configs_by=prune))
    assert launched(kernel) == [64]
    pin(tmp_path, ban(small()), ban(three()[1]))
    with pytest.raises(LaunchError, match="bans every candidate"):
        launch(kernel)


def test_a_ban_of_a_config_that_no_candidate_can_have_is_ignored(tmp_path: Path) -> None:
    impossible = ban(small())
    impossible["config"] = {**impossible["config"], "num_warps": -4}
    pin(tmp_path, impossible)
    launch(kernel := autotuner())
    assert launched(kernel) == [32]


@pytest.mark.parametrize("spelling", ["M=16|torch.float32|torch.bfloat16", "?=16|torch.float32|torch.bfloat16"])
@pytest.mark.parametrize("road", ["cheapest", "entry", "sizes", "chaos", "invariant", "single"])
def test_a_ban_in_another_tools_spelling_of_the_key_holds_too(tmp_path: Path, spelling: str, road: str) -> None:
    """Megatron lists dtypes in the order of the call; Triton's cache files have no names."""
    in_order = spelling if spelling.startswith("M=") else "?=16|torch.bfloat16|torch.float32"
    fields: dict[str, dict[str, Any]] = {
        "sizes": {"block_sizes": {"BLOCK_M": 32}}, "chaos": {"chaos": True}, "invariant": {"config_invariant": [NAME]},
    }  # fmt: skip
    kernels = {NAME: {in_order: stored(small())}} if road == "entry" else {}
    pin(tmp_path, ban(small(), in_order), kernels=kernels, **fields.get(road, {}))
    kernel = autotuner([small()] if road == "single" else None)
    call = {"y": Tensor("torch.float32"), "x": Tensor("torch.bfloat16"), "M": 16}  # not in signature order
    if road == "single":
        with pytest.raises(LaunchError, match="bans every candidate"):
            kernel[(1,)](**call)
        return
    for _ in range(2):
        kernel[(1,)](**call)
    assert 32 not in launched(kernel)


class Marked(Config):
    """As a backend's: it passes a launch field that no table has."""

    def all_kwargs(self) -> Any:
        return {**super().all_kwargs(), "multibuffer": True}


@pytest.mark.parametrize(
    "banned", [{"num_warps": 8}, {"kwargs": {"BLOCK_M": 1}}, {"kwargs": {"BLOCK_M": True}, "num_warps": 8}]
)
@pytest.mark.parametrize("fault", [False, True])
@pytest.mark.parametrize(
    "odd", [Config({"BLOCK_M": 1, "T": object()}, num_warps=8), Marked({"BLOCK_M": 1}, num_warps=8)]
)
def test_a_class_of_configs_includes_candidates_that_no_table_can_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, banned: Any, fault: bool, odd: Any
) -> None:
    override = {"action": "ban", "kernel": NAME, "key": "*", "config": banned, "reason": "r"}
    pin(tmp_path, override)
    if fault:
        monkeypatch.setattr("tuning_registry.runtime.pinning.launches.decide", lambda *args, **kwargs: 1 / 0)
    kernel = autotuner([odd, three()[1]])  # the odd one is the cheaper one
    launch(kernel)
    assert launched(kernel) == [64]
    with pytest.raises(LaunchError, match="bans every candidate"):
        launch(autotuner([odd, odd]))
