"""Measure what importing the runtime adds to the start of a process that has imported Triton (and torch, if installed).

Starts new processes one after the other and prints medians. To compare two versions, give the folders of both
checkouts: their processes alternate, so that a busy machine slows both down equally.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

STATEMENTS = {
    "import": "import tuning_registry.runtime",
    "import, install pinned": "from tuning_registry.runtime import install; install({'mode': 'pinned'})",
    "import, install record": "from tuning_registry.runtime import install; install({'record_path': '/nonexistent/r'})",
}
PROCESS = """
import importlib.util, sys, time
if importlib.util.find_spec("torch"):
    import torch
import triton.runtime.autotuner
sys.pycache_prefix = {prefix!r}
begin = time.perf_counter()
{statement}
print(1000 * (time.perf_counter() - begin))
"""


def measure_ms(checkout: str, statement: str, *, bytecode: bool) -> float:
    code = PROCESS.format(prefix=None if bytecode else "/nonexistent", statement=statement)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = checkout
    command = [sys.executable, "-P", "-c", code]  # -P: the current folder may also be a checkout
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkouts", nargs="*", default=[str(Path(__file__).parents[1])])
    parser.add_argument("--processes", type=int, default=15)
    options = parser.parse_args()
    for bytecode in (True, False):
        for name, statement in STATEMENTS.items():
            found: dict[str, list[float]] = {checkout: [] for checkout in options.checkouts}
            for _ in range(1 + options.processes):
                for checkout, times in found.items():
                    times.append(measure_ms(checkout, statement, bytecode=bytecode))
            medians = "  ".join(f"{statistics.median(times[1:]):6.1f} ms" for times in found.values())
            print(f"{'bytecode' if bytecode else 'source':<8}  {name:<22}  {medians}", flush=True)


if __name__ == "__main__":
    main()
