#!/usr/bin/env python3
"""Let many processes write to one database at once: every vote must arrive exactly once, and readers must get answers.

A round has two waves on a fresh database, while two readers query the winners repeatedly. In the first wave, 64 ranks
hand in 485 votes each at the same moment, together with 8 ingests of 16 separate files each, which also fold. In the
second wave, 8 ingests overlap: each takes a random half of all files. Every rank has loaded its modules before the first
wave, since 64 ranks of a real job have more than two cores. Prints the seconds of both waves, and the median and slowest
answer to a reader. Exits 1 if a process fails, a count is wrong, or a rank falls back to its file.
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
from tuning_registry.operations.ingest.folding import fold
from tuning_registry.wording import count_of

RANKS, FILES, ENTRIES, INGESTS = 64, 128, 485, 8
PAUSE_S = 0.1  # between two queries of a reader
RANK = """
import sys
from pathlib import Path
import tuning_registry.db.appending
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
    """Seconds from the start of the ranks until all processes have ended; each must exit 0."""
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
    """Run two readers; yields the seconds of each answer."""
    took: list[float] = []
    faults: list[Exception] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            start = time.perf_counter()
            try:
                find_winners(store, Selection())
            except Exception as fault:  # noqa: BLE001 - reported below
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
        raise SystemExit(f"FAILED: a reader raised {faults[0]!r}")


def expect(store: Store, recordings: int) -> None:
    with store.reading() as reading:
        counts = reading.row_counts()
    found = (counts["recordings"], counts["votes"], counts["entries"])
    if found != (recordings, recordings * ENTRIES, ENTRIES):
        raise SystemExit(f"FAILED: expected {recordings} recordings; found (recordings, votes, entries) = {found}")


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
        fold(store)
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
    print(f"{kind}, {count_of(rounds, 'round')}: every count is exact; {RANKS} ranks and {INGESTS} ingests "
          f"{statistics.median(first for first, _, _ in results):.1f} s, {INGESTS} overlapping ingests "
          f"{statistics.median(second for _, second, _ in results):.1f} s (medians); {len(answers)} answers to readers, "
          f"median {statistics.median(answers):.2f} s, slowest {max(answers):.2f} s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="Number of rounds. [default: 3]")
    parser.add_argument("--postgres", action="store_true", help="Also run on a temporary Postgres server.")
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
