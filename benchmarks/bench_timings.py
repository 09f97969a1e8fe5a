#!/usr/bin/env python3
"""Measure what timings cost: ingest with and without them, and the queries that read them; whole processes in one run.

Every rank has 485 entries and the timings of about 4,700 candidates (make_recordings.py). Prints the median of the
rounds, the ratio to an ingest of the votes alone in the same run, and the peak memory.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import shutil
import statistics
import tempfile
from pathlib import Path

from bench_ingest import REGISTRY, empty_postgres, postgres, run
from make_recordings import make_recordings

from tuning_registry.wording import count_of

ASKED = {
    "disagreements --cost": ["disagreements", "--cost", "--format", "csv"],
    "ranks": ["ranks", "--format", "csv"],
    "export --policy majority": ["export", "--arch", "sm90"],
    "export --policy fastest": ["export", "--arch", "sm90", "--policy", "fastest"],
    "export --policy minimax": ["export", "--arch", "sm90", "--policy", "minimax"],
    "export --generalize 5": ["export", "--arch", "sm90", "--generalize", "5"],
}


def measure(ranks: int, rounds: int, server: str | None, work: Path) -> None:
    timed, votes = work / "timed", work / "votes"
    make_recordings(ranks, 11, timed, timings=True)
    votes.mkdir()
    for file in timed.glob("rec.*"):
        shutil.copy(file, votes)
    seconds: dict[str, list[float]] = {}
    memory: dict[str, float] = {}

    def step(name: str, command: list[str]) -> None:
        took, peak = run(command, work / "out")
        seconds.setdefault(name, []).append(took)
        memory[name] = max(memory.get(name, 0), peak)

    databases = {"SQLite": f"sqlite:///{work}/bench.db"} | ({"Postgres": server} if server else {})
    for _ in range(rounds):
        for kind, url in databases.items():
            for what, folder in (("votes alone", votes), ("votes and timings", timed)):
                for path in work.glob("*.db*"):
                    path.unlink()
                if kind == "Postgres":
                    empty_postgres(url)
                step(f"{kind}: ingest, {what}", [*REGISTRY, "--db", url, "ingest", str(folder), "--run", "bench"])
            for name, words in ASKED.items():
                step(f"{kind}: {name}", [*REGISTRY, "--db", url, *words])
    size = sum(file.stat().st_size for file in timed.iterdir()) / sum(file.stat().st_size for file in votes.iterdir())
    print(
        f"\n{ranks:,} recordings; with timings, the files are {size:.1f} times as large; median of {count_of(rounds, 'round')}\n"
    )
    print("| process | seconds | / ingest of votes | peak MB |\n| --- | ---: | ---: | ---: |")
    for name, times in seconds.items():
        base = statistics.median(seconds[f"{name.partition(':')[0]}: ingest, votes alone"])
        median = statistics.median(times)
        print(f"| {name} | {median:.2f} | {median / base:.1f} | {memory[name]:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1024, help="Number of recordings. [default: 1024]")
    parser.add_argument("--rounds", type=int, default=3, help="Number of rounds. [default: 3]")
    parser.add_argument("--postgres", action="store_true", help="Also measure on a temporary Postgres server.")
    arguments = parser.parse_args()
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, Python {platform.python_version()}, {os.cpu_count()} cores, "
          f"{platform.machine()}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        if arguments.postgres:
            with postgres() as server:
                measure(arguments.ranks, arguments.rounds, server, Path(folder))
        else:
            measure(arguments.ranks, arguments.rounds, None, Path(folder))


if __name__ == "__main__":
    main()
