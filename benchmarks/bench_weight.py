#!/usr/bin/env python3
"""Measure what a large run weighs, and how fast the reports on its timings answer; whole processes in one run.

The fleet is made from the real timings in examples/h200, 485 entries with about 4,700 candidates. Each rank has a factor (0.7 %),
each time has noise, and times are whole steps of the timer in single precision, 6 % of them interpolated, as Triton
reports them. Every rank votes for its fastest candidate. One rank is 5 % slow. Recordings arrive in batches.

Prints megabytes, seconds and peak memory, and a line that sums them up. Exits 1 if `ranks` does not find the slow rank.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import json
import math
import os
import platform
import random
import sqlite3
import struct
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from operator import mul
from pathlib import Path
from typing import Any

from bench_ingest import REGISTRY, empty_postgres, measured, postgres
from make_recordings import REAL, copied_names

from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.model.canonical import config_text
from tuning_registry.model.records import FAILED, Header, Recording, TimedCandidates
from tuning_registry.operations.ingest.attribution import Attribution
from tuning_registry.operations.ingest.options import IngestOptions
from tuning_registry.operations.ingest.transfer import add_to_batch, write_batch

ASKED = {
    "disagreements --cost": ["disagreements", "--cost", "--format", "csv"],
    "ranks": ["ranks", "--format", "csv"],
    "export --policy fastest": ["export", "--arch", "sm90", "--policy", "fastest"],
    "export --policy minimax": ["export", "--arch", "sm90", "--policy", "minimax"],
}
STEP_MS = 32e-6  # of the H200's timer
SLOW_RANK, SLOWDOWN = 7, 1.05
INTERPOLATED = 17  # every so many times lie between two steps
NOISE = 4_099  # factors that are drawn once


@dataclass(frozen=True)
class Slot:
    """An entry, and where its candidates are among all."""

    arch: str
    kernel: str
    key: str
    configs: tuple[str, ...]
    start: int


class Fleet:
    """Recordings made from the timings of one real rank."""

    def __init__(self) -> None:
        real: dict[str, Any] = json.loads((REAL / "timings.rank0.json").read_text())
        self.slots: list[Slot] = []
        self.times = tuple(array("d") for _ in range(3))
        for arch, kernels in real.items():
            for kernel, entries in kernels.items():
                for key, timed in entries.items():
                    rows = sorted((config_text(config), times) for config, times in timed)
                    for name in copied_names(key, 11):
                        self.slots.append(Slot(arch, kernel, name, tuple(text for text, _ in rows), len(self.times[0])))
                        for _, times in rows:
                            for column, figure in zip(self.times, times or FAILED, strict=True):
                                column.append(figure if figure < 1e9 else FAILED[0])
        rng = random.Random(2026)
        self.noise = [rng.gauss(1, 0.004) for _ in range(NOISE + len(self.times[0]))]
        self.spread = [abs(rng.gauss(1, 0.15)) for _ in range(NOISE + len(self.times[0]))]

    def recording(self, rank: int, ranks: int) -> Recording:
        """The recording of one rank."""
        rng = random.Random(rank)
        factor = SLOWDOWN if rank == SLOW_RANK else rng.gauss(1, 0.007)
        median, p20, p80 = self.times
        count = len(median)
        place = rng.randrange(NOISE)
        middle = [m * factor * n for m, n in zip(median, self.noise[place : place + count], strict=True)]
        place, other = rng.randrange(NOISE), rng.randrange(NOISE)
        below = [
            now - (m - p) * s
            for now, m, p, s in zip(middle, median, p20, self.spread[place : place + count], strict=True)
        ]
        above = [
            now + (p - m) * s
            for now, m, p, s in zip(middle, median, p80, self.spread[other : other + count], strict=True)
        ]
        flat = array("d", bytes(24 * count))
        for figure, values in enumerate((middle, below, above)):
            flat[figure::3] = _as_measured(values, rng.randrange(INTERPOLATED))
        packed, best = flat.tobytes(), flat[::3]
        votes: dict[str, Any] = {}
        timings: dict[str, Any] = {}
        for slot in self.slots:
            end = slot.start + len(slot.configs)
            times = best[slot.start : end]
            chosen = min(range(len(times)), key=lambda one: times[one] if times[one] == times[one] else 1e9)
            votes.setdefault(slot.arch, {}).setdefault(slot.kernel, {})[slot.key] = slot.configs[chosen]
            timed = TimedCandidates(slot.configs, packed[24 * slot.start : 24 * end])
            timings.setdefault(slot.arch, {}).setdefault(slot.kernel, {})[slot.key] = timed
        header = Header(
            run="fleet", rank=rank, world_size=ranks, host=f"node{rank // 8}", triton="3.6.0", id=f"{rank:032x}"
        )
        return Recording(f"rec.rank{rank}.json", header, votes, timings=timings)


def _as_measured(values: list[float], odd: int) -> array[float]:
    """Whole steps of the timer in single precision, some of them interpolated in double precision; NaN if it failed."""
    steps = [0 if math.isnan(value) else round(value / STEP_MS) for value in values]
    found = array("d", array("f", map(mul, steps, repeat(STEP_MS))))
    between = [0.8 * now + 0.2 * _single(now + STEP_MS) for now in found[odd::INTERPOLATED]]
    found[odd::INTERPOLATED] = array("d", between)
    for place, value in enumerate(values):
        if math.isnan(value):
            found[place] = value
    return found


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def fill(url: str, ranks: int, batch_size: int) -> None:
    """Ingest the fleet, a batch at a time; prints the seconds that the registry took."""
    fleet, store, spent = Fleet(), Store(parse_url(url)), 0.0
    used = 0.0
    options = IngestOptions()
    for ids in batched(range(ranks), batch_size):
        recordings = [fleet.recording(rank, ranks) for rank in ids]
        start, cpu = time.perf_counter(), time.process_time()
        batch, attribution = Batch(), Attribution(options)
        for recording in recordings:
            add_to_batch(batch, recording, attribution)
        write_batch(store, batch, options)
        spent += time.perf_counter() - start
        used += time.process_time() - cpu
    print(json.dumps({"seconds": spent, "cpu": used, "timings": ranks * len(fleet.times[0])}))


def batched(ranks: range, size: int) -> Iterator[range]:
    return (ranks[start : start + size] for start in range(0, len(ranks), size))


def megabytes(url: str) -> tuple[float, float]:
    """Size of the database, and of the packed timings in it."""
    query = (
        "SELECT sum(length(recordings) + length(configs) + length(medians) + length(percentiles)) FROM packed_timings"
    )
    if url.startswith("sqlite"):
        file = url.removeprefix("sqlite:///")
        connection = sqlite3.connect(file)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (packed,) = connection.execute(query).fetchone()
        connection.close()
        return Path(file).stat().st_size / 1e6, (packed or 0) / 1e6
    import sqlalchemy as sa  # only with --postgres

    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as server:
        size = server.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()
        packed = server.exec_driver_sql(query).scalar_one()
    engine.dispose()
    return size / 1e6, float(packed or 0) / 1e6


def run(command: list[str], output: Path) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak MB of one process."""
    seconds, usage = measured(command, output)
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(url: str, ranks: int, batch_size: int, work: Path) -> bool:
    """Print the figures of one fleet; whether the slow rank was found."""
    _, _, peak = run(
        [sys.executable, __file__, "--fill", url, "--ranks", str(ranks), "--batch", str(batch_size)], work / "out"
    )
    filled = json.loads((work / "out").read_text())
    size, packed = megabytes(url)
    print(f"\n{ranks:,} ranks, {filled['timings']:,} timings, batches of {batch_size:,}\n")
    print("| what | seconds | CPU seconds | peak MB |\n| --- | ---: | ---: | ---: |")
    print(f"| ingest | {filled['seconds']:.1f} | {filled['cpu']:.1f} | {peak:.0f} |", flush=True)
    slowest = most = cpu = 0.0
    found = False
    for name, words in ASKED.items():
        seconds, used, peak = run([*REGISTRY, "--db", url, *words], work / "out")
        slowest, cpu, most = max(slowest, seconds), max(cpu, used), max(most, peak)
        print(f"| {name} | {seconds:.1f} | {used:.1f} | {peak:.0f} |", flush=True)
        if name == "ranks":
            with (work / "out").open(newline="") as rows:
                found = any(row["rank"] == str(SLOW_RANK) and "slow" in row["outlier"] for row in csv.DictReader(rows))
    verdict = "found" if found else "NOT found"
    print(
        f"\n{ranks:,} ranks: {size:.0f} MB in all, {packed:.0f} MB of timings ({packed * 1e6 / filled['timings']:.1f} bytes "
        f"each), the slowest report {slowest:.1f} s ({cpu:.1f} CPU s) and {most:.0f} MB, the rank that is 5 % slow {verdict}"
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1024], help="Numbers of ranks. [default: 1024]")
    parser.add_argument("--batch", type=int, default=512, help="Recordings ingested at a time. [default: 512]")
    parser.add_argument("--postgres", action="store_true", help="Measure on a temporary Postgres server instead.")
    parser.add_argument("--keep", type=Path, help="Keep the SQLite files in this folder.")
    parser.add_argument("--fill", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fill:
        fill(arguments.fill, arguments.ranks[0], arguments.batch)
        return
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, Python {platform.python_version()}, {os.cpu_count()} cores, "
          f"{platform.machine()}")  # fmt: skip
    found = True
    with tempfile.TemporaryDirectory() as folder:
        for ranks in arguments.ranks:
            if arguments.postgres:
                with postgres() as server:
                    empty_postgres(server)
                    found &= measure(server, ranks, arguments.batch, Path(folder))
                continue
            file = (arguments.keep or Path(folder)) / f"{ranks}.db"
            file.unlink(missing_ok=True)
            found &= measure(f"sqlite:///{file}", ranks, arguments.batch, Path(folder))
    sys.exit(0 if found else 1)


if __name__ == "__main__":
    main()
