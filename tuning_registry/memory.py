"""The memory that is still available to this process, on the machine and in its container."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_MACHINE: Final = Path("/proc/meminfo")


def available_memory(groups: Path = _GROUPS, machine: Path = _MACHINE) -> int | None:
    """The number of bytes; None if the kernel does not say.

    Args:
        groups: Where the control groups are mounted; inside a container, the root is its own group.
        machine: The kernel's figures for the machine. See proc(5).
    """
    found = [kilobytes << 10 for kilobytes in _numbers(machine, r"MemAvailable: +([0-9]+) kB")]
    found += _left(groups / "memory.max", groups / "memory.current", groups / "memory.stat")
    first = groups / "memory"  # version 1
    found += _left(first / "memory.limit_in_bytes", first / "memory.usage_in_bytes", first / "memory.stat")
    return min(found, default=None)


def _left(limit: Path, usage: Path, statistics: Path) -> list[int]:
    """The bytes that are left in a control group. Unused cached files count as free, because Linux drops them first."""
    limits, used = _numbers(limit, r"([0-9]+)"), _numbers(usage, r"([0-9]+)")
    droppable = _numbers(statistics, r"(?:total_)?inactive_file ([0-9]+)")
    return [limits[0] - used[0] + max(droppable, default=0)] if limits and used else []


def _numbers(file: Path, pattern: str) -> list[int]:
    """The numbers in the lines that match a pattern; none if the file cannot be read."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return []
    return [int(match[1]) for line in lines if (match := re.fullmatch(pattern, line))]
