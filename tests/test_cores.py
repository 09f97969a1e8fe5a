"""How many cores a process may use: affinity, and the quota of either version of control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuning_registry.cores import core_quota, idle_cores, usable_cores


@pytest.mark.parametrize(
    ("content", "quota"),
    [
        ("max 100000\n", None),
        ("150000 100000\n", 1.5),
        ("1600000 100000\n", 16),
        ("", None),
        ("x y\n", None),
        ("0 1", None),
    ],
)
def test_the_quota_of_control_groups_version_2(content: str, quota: float | None, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text(content)
    assert core_quota(tmp_path) == quota


@pytest.mark.parametrize(("content", "quota"), [("-1\n", None), ("400000\n", 4)])
def test_the_quota_of_version_1(content: str, quota: float | None, tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(content)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert core_quota(tmp_path) == quota


def test_without_control_groups_there_is_no_quota(tmp_path: Path) -> None:
    assert core_quota(tmp_path) is None


@pytest.mark.parametrize(("quota", "cores"), [(None, 8), (3.9, 3), (0.5, 1), (64.0, 8)])
def test_cores_are_those_of_affinity_and_quota(
    quota: float | None, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert usable_cores(quota) == cores


def test_idle_time_counts_on_the_cores_of_this_process_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Core 0 is idle for half of the first moment and a quarter of the second, core 1 waits for a disk, core 2 is another's."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    moments = iter(
        f"cpu 1 1 1 1 1 1 1 1 0 0\ncpu0 {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu1 0 0 0 0 {disk} 0 0 0 0 0\ncpu2 9 0 0 9 0 0 0 0 0 0\n"
        for busy, idle, disk in ((10, 10, 10), (15, 15, 20), (30, 20, 30))
    )
    file = tmp_path / "stat"
    monkeypatch.setattr(Path, "read_text", lambda self, *_: next(moments) if self == file else "")
    assert idle_cores(samples=2, each_s=0, statistics=file) == 1.5


def test_where_the_kernel_says_nothing_all_cores_are_idle(tmp_path: Path) -> None:
    assert idle_cores(samples=1, each_s=0, statistics=tmp_path / "none") == usable_cores()
