"""Our functions inside Triton's Autotuner, and the way back."""

# ruff: noqa: ANN001 - fakes take what Triton passes

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import (  # fmt: skip
    HAS_DISK_CACHE,
    Autotuner,
    Bypassing,
    Counting,
    autotuner,
    launch,
    launched,
    pin,
    stored,
    three,
    triton,
)
from tuning_registry.runtime import AutotunePolicy, coverage_report, install, uninstall


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
    assert "another tool patched Autotuner" in caplog.text
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


def test_a_new_policy_takes_over_at_once(tmp_path: Path) -> None:
    kernel = autotuner()
    for index in (0, 1):
        pin(tmp_path, stored(three()[index]))
        launch(kernel)
    install(AutotunePolicy(mode="auto"))
    launch(kernel)
    assert launched(kernel)[:2] == [128, 64]
    assert kernel.timer.calls == 3
