"""How many cores a process may use: affinity, and the quota of either version of control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuning_registry.cores import core_quota, usable_cores


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
