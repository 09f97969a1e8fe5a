"""How many processor cores this process may use, and how many of them are idle."""

from __future__ import annotations

import math
import os
import re
import time
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_STATISTICS: Final = Path("/proc/stat")


def usable_cores(quota: float | None = None) -> int:
    """The number of cores, at least 1.

    Args:
        quota: From `core_quota`; None for no limit.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, allowed if quota is None else min(allowed, math.floor(quota)))


def idle_cores(samples: int = 3, each_s: float = 0.1, statistics: Path = _STATISTICS) -> float:
    """The time that the cores of this process were idle, in cores, in the quietest of some moments.

    Takes `samples * each_s` seconds. Where the kernel does not say, all are taken to be idle.

    Args:
        samples: Number of moments.
        each_s: Length of a moment in seconds.
        statistics: The kernel's counters.
    """
    quietest = 0.0
    before = _idle_counts(statistics)
    for _ in range(samples):
        time.sleep(each_s)
        after = _idle_counts(statistics)
        passed = [
            (idle - before[core][0], total - before[core][1]) for core, (idle, total) in after.items() if core in before
        ]
        if not passed:
            return float(usable_cores())
        quietest = max(quietest, sum(idle / total if total else 1.0 for idle, total in passed))
        before = after
    return quietest


def _idle_counts(statistics: Path) -> dict[int, tuple[int, int]]:
    """Idle and total time of each core of this process, in the kernel's ticks. See proc(5)."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    found: dict[int, tuple[int, int]] = {}
    try:
        lines = statistics.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        name, *counts = line.split()
        if re.fullmatch(r"cpu[0-9]+", name) and int(name[3:]) in allowed:
            ticks = [int(count) for count in counts]
            found[int(name[3:])] = (ticks[3] + ticks[4], sum(ticks[:8]))  # idle, and waiting for input or output
    return found


def core_quota(groups: Path = _GROUPS) -> float | None:
    """How many cores' time the container may use; None if there is no limit.

    Args:
        groups: Where the control groups are mounted; inside a container, the root is its own group.
    """
    return _quota(groups / "cpu.max") or _quota(groups / "cpu/cpu.cfs_quota_us", groups / "cpu/cpu.cfs_period_us")


def _quota(*files: Path) -> float | None:
    """Cores that these files grant (`QUOTA PERIOD` in microseconds); None if there is no limit."""
    try:
        quota, period = (int(word) for file in files for word in file.read_text().split())
    except (OSError, ValueError):  # of another version, or "max"
        return None
    return quota / period if quota > 0 and period > 0 else None
