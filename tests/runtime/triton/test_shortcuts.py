"""Pinned launches of a subclass whose own `run` is skipped, and of those whose is not."""

# ruff: noqa: ANN001 - fakes take what Triton passes

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (
    AutotuneKey,
    CachedAutotuner,
    Config,
    Tensor,
    autotuner,
    launch,
    launched,
    pin,
    stored,
    three,
)
from tuning_registry.runtime import coverage_report, install, uninstall
from tuning_registry.runtime.triton.shortcuts import may_skip

OWN_RUN = vars(CachedAutotuner)["run"]


class Derived(CachedAutotuner):
    """Asks for its own config in a way that counts."""

    asked = 0

    def should_check_fla_cache(self, key: Any) -> bool:
        self.asked += 1
        return super().should_check_fla_cache(key)


@pytest.fixture(autouse=True)
def built() -> Iterator[None]:
    AutotuneKey.built = 0
    yield
    uninstall()
    assert vars(CachedAutotuner)["run"] is OWN_RUN


def test_only_the_first_launch_of_a_key_takes_the_way_of_the_subclass(tmp_path: Path) -> None:
    kernel = autotuner(cls=CachedAutotuner)
    pin(tmp_path, stored(three()[1]), key="*")
    assert [launch(kernel) for _ in range(5)] == ["launched"] * 5
    assert (AutotuneKey.built, launched(kernel), kernel.best_config) == (1, [64] * 5, kernel.configs[1])
    launch(kernel, Tensor(), Tensor(), 32)
    launch(kernel, Tensor(), Tensor(), 32)
    launch(kernel, Tensor(), Tensor(), 16)
    assert (AutotuneKey.built, kernel.timer.calls, launched(kernel)) == (2, 0, [64] * 8)


def test_calls_by_keyword_are_skipped_as_well(tmp_path: Path) -> None:
    kernel = autotuner(cls=CachedAutotuner)
    pin(tmp_path, stored(three()[0]), key="*")
    for _ in range(3):
        kernel[(1,)](x=Tensor(), y=Tensor(), M=16)
    assert (AutotuneKey.built, launched(kernel)) == (1, [128] * 3)


def test_the_table_decides_where_the_subclass_has_a_config_of_its_own(tmp_path: Path) -> None:
    kernel = autotuner(cls=CachedAutotuner)
    kernel.own = kernel.configs[2]
    pin(tmp_path, stored(three()[0]), key="*")
    launch(kernel)
    launch(kernel)
    uninstall()
    launch(kernel)
    assert (launched(kernel), kernel.timer.calls) == ([128, 128, 32], 0)


def test_the_hook_of_the_candidate_runs_once_a_launch(tmp_path: Path) -> None:
    seen: list[Any] = []
    configs = [Config({"BLOCK_M": 64}, pre_hook=lambda named: seen.append(named["M"])), Config({"BLOCK_M": 32})]
    kernel = autotuner(configs, cls=CachedAutotuner)
    pin(tmp_path, stored(configs[0]), key="*")
    for _ in range(3):
        launch(kernel)
    assert (seen, AutotuneKey.built) == ([16] * 3, 1)


def test_a_class_derived_from_it_is_never_skipped(tmp_path: Path) -> None:
    plain, derived = autotuner(cls=CachedAutotuner), autotuner(cls=Derived)
    pin(tmp_path, stored(three()[0]), key="*")
    for _ in range(3):
        launch(plain)
        launch(derived)
    assert (derived.asked, launched(plain), launched(derived)) == (3, [128] * 3, [128] * 3)


def test_a_kernel_that_is_left_to_triton_keeps_its_run(tmp_path: Path) -> None:
    pinned, timed = autotuner(cls=CachedAutotuner), autotuner(name="timed", cls=CachedAutotuner)
    pin(tmp_path, stored(three()[2]), key="*", config_invariant=("pkg.ops.timed",))
    launch(pinned)
    AutotuneKey.built = 0
    for _ in range(3):
        launch(timed)
    assert (AutotuneKey.built, timed.timer.calls, launched(timed)[-2:]) == (3, 3, [128, 128])
    assert coverage_report().faults == {}


def test_a_new_policy_finds_none_of_the_old_pins(tmp_path: Path) -> None:
    kernel = autotuner(cls=CachedAutotuner)
    for index in (0, 1):
        pin(tmp_path, stored(three()[index]), key="*")
        launch(kernel)
        launch(kernel)
    assert (launched(kernel), AutotuneKey.built) == ([128, 128, 64, 64], 2)
    install(mode="auto")
    launch(kernel)
    assert (kernel.timer.calls, AutotuneKey.built) == (3, 3)


def test_replaced_candidates_are_noticed(tmp_path: Path) -> None:
    kernel = autotuner(cls=CachedAutotuner)
    pin(tmp_path, stored(three()[0]), key="*")
    launch(kernel)
    launch(kernel)
    kernel.configs = [three()[0]]
    launch(kernel)
    launch(kernel)
    assert kernel.best_config is kernel.configs[0]
    assert launched(kernel) == [128] * 4


def test_a_patch_that_came_later_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = autotuner(cls=CachedAutotuner)
    pin(tmp_path, stored(three()[0]), key="*")
    launch(kernel)
    ours, calls = vars(CachedAutotuner)["run"], []

    def theirs(self, *args: Any, **kwargs: Any) -> Any:
        calls.append(self)
        return ours(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(CachedAutotuner, "run", theirs)
        launch(kernel)
        uninstall()
        launch(kernel)
        assert (len(calls), kernel.timer.calls) == (2, 3)
        assert "another tool patched" in caplog.text
    setattr(CachedAutotuner, "run", OWN_RUN)  # noqa: B010 - what a method is declared as cannot be assigned


def make(body: str, module: str = "fla.ops.utils.cache", name: str = "CachedAutotuner") -> type:
    scope: dict[str, Any] = {"__name__": module, "Base": CachedAutotuner}
    exec(f"class {name}(Base):\n    def run(self, *args, **kwargs):\n        {body}\n", scope)
    made: type = scope[name]
    return made


def test_a_run_is_skipped_only_in_the_form_that_was_read() -> None:
    passes_on = "return super().run(*args, **kwargs)"
    assert may_skip(CachedAutotuner)
    assert may_skip(make(passes_on))
    assert not may_skip(make(f"self.count += 1; {passes_on}"))
    assert not may_skip(make(f"print(args); {passes_on}"))
    assert not may_skip(make(passes_on, module="elsewhere"))
    assert not may_skip(make(passes_on, name="Other"))
    assert not may_skip(Derived)
    assert not may_skip(
        type("CachedAutotuner", (CachedAutotuner,), {"__module__": "fla.ops.utils.cache", "run": print})
    )


def test_the_run_of_fla_is_in_that_form() -> None:
    cache = pytest.importorskip("fla.ops.utils.cache", reason="fla is not installed")
    assert may_skip(cache.CachedAutotuner)
