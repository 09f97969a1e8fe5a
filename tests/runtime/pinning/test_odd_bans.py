"""Ways around a ban: other tools, the kernel's own class, its hooks, and files that change while the job runs."""

# ruff: noqa: ARG002 - fakes take what Triton passes

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (
    ARCH,
    HAS_DISK_CACHE,
    Autotuner,
    CachedAutotuner,
    Config,
    Tensor,
    Timer,
    autotuner,
    launch,
    launched,
    three,
    write_table,
)
from tests.runtime.pinning.test_bans import ban, pin, small
from tuning_registry.errors import LaunchError
from tuning_registry.runtime import coverage_report, install

TIMED = [{"on_miss": "tune"}, {"config_invariant": ["kernel"]}, {"config_invariant": ["kernel"], "on_miss": "error"}]
EIGHT_WARPS = {**ban(small()), "config": {"num_warps": 8}}


class OwnPruning(Autotuner):
    def prune_configs(self, kwargs: Any) -> Any:
        return list(self.configs)


class OwnTiming(OwnPruning):
    def _bench(self, *args: Any, config: Any, **meta: Any) -> Any:
        return [1.0] * 3 if config.kwargs["BLOCK_M"] == 32 else [2.0] * 3


class PutsBack(Autotuner):
    def prune_configs(self, kwargs: Any) -> Any:
        left = super().prune_configs(kwargs)
        return [config for config in self.configs if config not in left] + left


@pytest.mark.parametrize("fields", TIMED)
@pytest.mark.parametrize("medians", [[0.5, 1.0, 2.0], [None], [float("nan")]], ids=["timed", "failed", "no number"])
@pytest.mark.parametrize("kind", [OwnPruning, OwnTiming, PutsBack])
def test_a_class_that_prunes_itself_is_not_timed_under_a_ban(
    tmp_path: Path, fields: Any, medians: Any, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Triton launches the first candidate, here the banned one, if all of them fail."""
    pin(tmp_path, ban(small()), **fields)
    kernel = autotuner(three()[::-1], cls=kind, timer=Timer(medians))
    for _ in range(2):
        launch(kernel)
    assert (launched(kernel), kernel.timer.calls) == ([64, 64], 0)
    assert "is not timed, because its class overrides prune_configs" in caplog.text


@pytest.mark.parametrize("kind", [OwnPruning, PutsBack])
def test_a_class_that_prunes_itself_is_timed_without_a_ban(tmp_path: Path, kind: Any) -> None:
    pin(tmp_path, on_miss="tune")
    launch(kernel := autotuner(cls=kind))
    assert kernel.timer.calls == 3


@pytest.mark.parametrize("fields", TIMED)
def test_a_banned_config_from_another_tools_folder_is_not_launched(tmp_path: Path, fields: Any) -> None:
    """flash-linear-attention puts what it finds into Triton's cache, before each launch that is not in there."""
    pin(tmp_path, ban(small()), **fields)
    kernel = autotuner(cls=CachedAutotuner)
    kernel.own = kernel.configs[2]
    launch(kernel, Tensor("torch.bfloat16"), Tensor(), 16)
    launch(kernel, M=16, y=Tensor(), x=Tensor("torch.bfloat16"))  # one key of ours, two of Triton's
    kernel.cache.clear()
    launch(kernel, Tensor("torch.bfloat16"), Tensor(), 16)
    assert launched(kernel)
    assert 32 not in launched(kernel)


def test_a_banned_config_that_others_put_into_tritons_cache_is_not_launched(tmp_path: Path) -> None:
    pin(tmp_path, ban(small()), on_miss="tune")
    launch(kernel := autotuner())
    kernel.cache.update(dict.fromkeys(kernel.cache, kernel.configs[2]))
    launch(kernel)
    assert 32 not in launched(kernel)


@pytest.mark.skipif(not HAS_DISK_CACHE, reason="this Triton has no result cache on disk")
def test_a_banned_config_from_tritons_disk_cache_is_not_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hit(self: Any, tuning_key: Any, configs: Any, bench_fn: Any) -> bool:
        self.cache[tuning_key] = small()
        self.configs_timings = {}
        return True

    monkeypatch.setattr(Autotuner, "check_disk_cache", hit)
    pin(tmp_path, ban(small()), on_miss="tune")
    kernel = autotuner()
    kernel.cache_results = True
    launch(kernel)
    assert kernel.timer.calls == 2
    assert 32 not in launched(kernel)


def test_a_candidate_that_has_become_banned_is_not_launched(tmp_path: Path) -> None:
    pin(tmp_path, EIGHT_WARPS)
    launch(kernel := autotuner())
    kernel.configs[2].num_warps = 8
    launch(kernel, M=16, x=Tensor(), y=Tensor())
    assert [(options["BLOCK_M"], options["num_warps"]) for options in kernel.fn.launches] == [(32, 4), (64, 4)]


@pytest.mark.parametrize("by", ["its hook, at once", "its hook, later", "somebody else"])
def test_a_config_with_a_hook_that_has_become_banned_is_refused(tmp_path: Path, by: str) -> None:
    """The config of a hook is read again at each launch, as in Triton."""
    calls = []

    def hook(named: Any) -> None:
        calls.append(named)
        if by == "its hook, at once" or (by == "its hook, later" and len(calls) == 2):
            config.num_warps = 8

    config = Config({"BLOCK_M": 32}, num_warps=4, pre_hook=hook)
    pin(tmp_path, EIGHT_WARPS)
    kernel = autotuner([config, three()[1]])
    if by != "its hook, at once":
        launch(kernel)
    if by == "somebody else":
        config.num_warps = 8
    with pytest.raises(LaunchError, match=r"changed it to BLOCK_M=32 num_warps=8 .* which the table bans"):
        launch(kernel)
    assert [options["num_warps"] for options in kernel.fn.launches] == ([] if by == "its hook, at once" else [4])
    assert coverage_report().faults == {}


def test_a_hook_may_change_its_config_to_one_that_is_not_banned(tmp_path: Path) -> None:
    def hook(named: Any) -> None:
        config.num_warps = 2

    config = Config({"BLOCK_M": 32}, num_warps=4, pre_hook=hook)
    pin(tmp_path, EIGHT_WARPS)
    kernel = autotuner([config, three()[1]])
    for _ in range(2):
        launch(kernel)
    assert [options["num_warps"] for options in kernel.fn.launches] == [2, 2]


@pytest.mark.parametrize("warps", [True, 1.0])
@pytest.mark.parametrize(
    "banned", [ban(Config({"BLOCK_M": 32}, num_warps=1)), {**ban(small()), "config": {"num_warps": 1}}]
)
def test_a_ban_holds_for_launch_options_of_another_type(tmp_path: Path, warps: Any, banned: Any) -> None:
    pin(tmp_path, banned)
    launch(kernel := autotuner([Config({"BLOCK_M": 32}, num_warps=warps), three()[1]]))
    assert launched(kernel) == [64]


def test_a_ban_of_a_config_is_not_one_of_a_config_with_further_parameters(tmp_path: Path) -> None:
    pin(tmp_path, ban(Config({"BLOCK_M": 32}, num_warps=1)))
    odd = Config({"BLOCK_M": 32, "T": object()}, num_warps=True)
    launch(kernel := autotuner([odd, three()[1]]))
    assert launched(kernel) == [32]


@pytest.mark.parametrize("as_folder", [False, True])
def test_a_stated_table_that_is_gone_by_the_first_launch_still_holds(tmp_path: Path, as_folder: bool) -> None:
    """It was read at install; searching on would find another table, without its bans."""
    table = write_table(tmp_path, {}, extra={"overrides": [ban(small())]})
    install(mode="pinned", table_path=tmp_path if as_folder else table, arch=ARCH)
    table.unlink()
    launch(kernel := autotuner())
    assert launched(kernel) == [64]
