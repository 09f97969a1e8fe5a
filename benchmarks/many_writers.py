#!/usr/bin/env python3
"""Many writers at once on one database: does every vote arrive, exactly once, and do readers get answers meanwhile?

usage: many_writers.py [--rounds 3] [--postgres]

A round is two waves on a fresh database, while two readers ask for the winners again and again:
64 processes that hand 485 votes each straight to the database at one moment, together with 8 ingests of disjoint files
(16 each); then 8 ingests of overlapping files, half of all each. Every rank has loaded what it needs before that moment,
since 64 ranks have more than two cores. Exits 1 unless every process ended well, the counts are exact, and no rank had to
keep its recording in a file. Prints seconds, and the readers' answers, median and slowest.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench_ingest import REGISTRY, empty_postgres, postgres
from make_recordings import make_recordings

from tuning_registry.db.migrate import upgrade_database
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners

RANKS, FILES, ENTRIES, INGESTS = 64, 128, 485, 8
PAUSE_S = 0.1  # of a reader
RANK = """
import sys
from pathlib import Path
import tuning_registry.operations.ingest.sink
from tuning_registry.formats.recordings import read_recording
from tuning_registry.runtime.recording.recorder import Recorder
made = Recorder(sys.argv[2], "straight", None)
for arch, kernels in read_recording(Path(sys.argv[1])).votes.items():
    for kernel, entries in kernels.items():
        for key, config in entries.items():
            made.vote((arch, kernel, key), config, [], [])
print("ready", flush=True)
sys.stdin.readline()
made.finish()
sys.exit(made.file is not None)
"""


def start_process(words: list[str], **variables: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(words, env={**os.environ, **variables}, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def run_together(ranks: list[subprocess.Popen[str]], commands: list[list[str]]) -> float:
    """Seconds from letting the ranks go until all processes have ended; each must end with status 0."""
    for rank in ranks:
        assert rank.stdout is not None
        rank.stdout.readline()
    start = time.perf_counter()
    running = [start_process(words) for words in commands]
    for rank in ranks:
        assert rank.stdin is not None
        rank.stdin.write("go\n")
        rank.stdin.flush()
    for process in [*ranks, *running]:
        _, said = process.communicate()
        if process.returncode or "locked" in said:
            raise SystemExit(f"FAILED, status {process.returncode}: {said}")
    return time.perf_counter() - start


@contextmanager
def readers(store: Store) -> Iterator[list[float]]:
    """Two readers at work; how long each answer took."""
    took: list[float] = []
    faults: list[Exception] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            start = time.perf_counter()
            try:
                find_winners(store, Selection())
            except Exception as fault:  # noqa: BLE001 - told below
                faults.append(fault)
            took.append(time.perf_counter() - start)
            time.sleep(PAUSE_S)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield took
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if faults:
        raise SystemExit(f"FAILED: a reader got {faults[0]!r}")


def expect(store: Store, recordings: int) -> None:
    with store.reading() as reading:
        counts = reading.row_counts()
    found = (counts["recordings"], counts["votes"], counts["entries"])
    if found != (recordings, recordings * ENTRIES, ENTRIES):
        raise SystemExit(f"FAILED: {recordings} recordings should be there, but (recordings, votes, entries) = {found}")


def fight(url: str, files: list[Path], work: Path, chance: random.Random) -> tuple[float, float, list[float]]:
    store = Store(parse_url(url))
    upgrade_database(store)
    ranks = [
        start_process([sys.executable, "-c", RANK, str(files[rank]), url],
                      RANK=str(rank), WORLD_SIZE=str(RANKS), XDG_DATA_HOME=str(work / "home"))
        for rank in range(RANKS)
    ]  # fmt: skip

    def ingest(some: list[Path]) -> list[str]:
        return [*REGISTRY, "--db", url, "ingest", *map(str, some), "--run", "files"]

    with readers(store) as took:
        first = run_together(ranks, [ingest(files[number::INGESTS]) for number in range(INGESTS)])
        expect(store, RANKS + FILES)
        second = run_together([], [ingest(chance.sample(files, FILES // 2)) for _ in range(INGESTS)])
        expect(store, RANKS + FILES)
    return first, second, took


def measure(kind: str, server: str | None, rounds: int, work: Path) -> None:
    files = sorted((work / "files").glob("*.json"))
    chance = random.Random(1)
    results = []
    for number in range(rounds):
        if server is not None:
            empty_postgres(server)
        results.append(fight(server or f"sqlite:///{work}/round{number}.db", files, work, chance))
    answers = [seconds for _, _, took in results for seconds in took]
    print(f"{kind}, {rounds} rounds: every count exact; {RANKS} ranks and {INGESTS} ingests "
          f"{statistics.median(first for first, _, _ in results):.1f} s, {INGESTS} overlapping ingests "
          f"{statistics.median(second for _, second, _ in results):.1f} s (medians); {len(answers)} answers to readers, "
          f"median {statistics.median(answers):.2f} s, slowest {max(answers):.2f} s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--postgres", action="store_true", help="also run on a temporary Postgres server")
    arguments = parser.parse_args()
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, Python {platform.python_version()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        make_recordings(FILES, 11, Path(folder) / "files")
        measure("SQLite", None, arguments.rounds, Path(folder))
        if arguments.postgres:
            with postgres() as server:
                measure("Postgres", server, arguments.rounds, Path(folder))


if __name__ == "__main__":
    main()
