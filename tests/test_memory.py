"""How much memory a process may still take: on the machine, and in a control group of either version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuning_registry.memory import available_memory

MACHINE = "MemTotal:       1000 kB\nMemAvailable:    500 kB\n"


@pytest.mark.parametrize(
    ("files", "available"),
    [
        ({}, 512_000),
        ({"memory.max": "max\n", "memory.current": "100\n"}, 512_000),
        ({"memory.max": "300000\n", "memory.current": "200000\n", "memory.stat": "anon 7\ninactive_file 50000\n"}, 150_000),
        ({"memory.max": "900000\n", "memory.current": "200000\n"}, 512_000),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.usage_in_bytes": "10\n"}, 512_000),
        ({"memory/memory.limit_in_bytes": "3000\n", "memory/memory.usage_in_bytes": "1000\n",
          "memory/memory.stat": "inactive_file 5\ntotal_inactive_file 10\n"}, 2010),
    ],
)  # fmt: skip
def test_the_least_of_machine_and_container_counts(files: dict[str, str], available: int, tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "meminfo").write_text(MACHINE)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert available_memory(tmp_path, tmp_path / "meminfo") == available


def test_a_kernel_that_does_not_say_is_no_limit(tmp_path: Path) -> None:
    assert available_memory(tmp_path, tmp_path / "meminfo") is None
