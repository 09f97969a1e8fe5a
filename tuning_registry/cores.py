"""How many processor cores this process may use: its affinity, and the quota of its container."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")


def usable_cores(quota: float | None = None) -> int:
    """The number of cores, at least 1.

    Args:
        quota: From `core_quota`; None for no limit.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, allowed if quota is None else min(allowed, math.floor(quota)))


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
