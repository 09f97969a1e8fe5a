#!/usr/bin/env python3
"""Let a fleet hand in within a minute: every rank's votes must arrive exactly once, and none may fall back to a file.

Each rank hands in 485 votes at a random moment of the minute, with the code of a training job, over a connection of its
own. Payloads are packed before. A service (`registry fold --every`) folds meanwhile. The time of a hand-in counts from
the moment at which the rank wants to hand in. For comparison, as many bare inserts with a connection each are done as
fast as possible. Prints one line for each number of ranks. Exits 1 unless every vote is there exactly once and no rank
falls back to a file.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import multiprocessing
import os
import pickle
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench_ingest import REGISTRY, empty_postgres, postgres
from make_recordings import make_recordings

from tuning_registry.db.migrate import upgrade_database
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.formats.hand_ins import pack_hand_in
from tuning_registry.formats.recording_writer import recording_chunks
from tuning_registry.formats.recordings import read_recording
from tuning_registry.model.records import Header
from tuning_registry.operations.ingest.hand_ins import count_hand_ins
from tuning_registry.operations.runs import list_runs
from tuning_registry.runtime.recording.hand_in import HandIn
from tuning_registry.wording import count_of

ENTRIES, DISTINCT = 485, 64
PROCESSES, THREADS = 4, 64  # more at once than the server has connections
LONGEST_FOLD_S = 600.0
Outcome = tuple[float, bool]  # seconds, and whether the database has it


def make_payloads(ranks: int, folder: Path) -> list[bytes]:
    """A hand-in of each rank; there are 64 distinct sets of votes."""
    make_recordings(DISTINCT, 11, folder)
    texts = []
    for number in range(DISTINCT):
        votes = read_recording(folder / f"rec.rank{number}.json").votes
        texts.append({arch: {kernel: {key: text.encode() for key, text in keys.items()} for kernel, keys in kernels.items()}
                      for arch, kernels in votes.items()})  # fmt: skip
    return [
        pack_hand_in(
            recording_chunks(
                Header(run="fleet", rank=rank, world_size=ranks, host=f"node{rank // 8}", triton="3.6.0",
                       id=f"{rank:032x}", attempt=0),
                {"votes": texts[rank % DISTINCT]},
            )
        )
        for rank in range(ranks)
    ]  # fmt: skip


def take_part(url: str, file: Path, share: int, moments: Sequence[float], bare: bool, pipe: Any) -> None:
    """Be every fourth rank of the fleet; receives the time of the start, and sends one outcome per rank."""
    payloads: list[bytes] = pickle.loads(file.read_bytes())[share::PROCESSES]
    call = bare_append(url) if bare else hand_in(url)
    pipe.send("ready")
    start: float = pipe.recv()

    def play(payload: bytes, moment: float) -> Outcome:
        done = call(payload)
        return time.time() - start - moment, done

    with ThreadPoolExecutor(THREADS) as pool:
        running = []
        for moment, payload in sorted(zip(moments[share::PROCESSES], payloads, strict=True)):
            time.sleep(max(0.0, start + moment - time.time()))
            running.append(pool.submit(play, payload, moment))
        pipe.send([one.result() for one in running])


def hand_in(url: str) -> Callable[[bytes], bool]:
    import psycopg  # noqa: F401  # a real rank has loaded the driver during the run

    import tuning_registry.db.appending  # noqa: F401  # likewise

    return lambda payload: HandIn(url, lambda: payload, lambda: False).finish()


def bare_append(url: str) -> Callable[[bytes], bool]:
    """A plain insert with a connection each, tried again until there is one."""
    if url.startswith("sqlite"):
        import sqlite3

        def insert(payload: bytes) -> bool:
            with (
                contextlib.closing(sqlite3.connect(str(parse_url(url).database), timeout=60)) as connection,
                connection,
            ):
                connection.execute("INSERT INTO bare (payload) VALUES (?)", (payload,))
            return True

        return insert
    import psycopg

    def append(payload: bytes) -> bool:
        while True:
            try:
                with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
                    connection.execute("INSERT INTO bare (payload) VALUES (%s)", (payload,))
                return True
            except psycopg.OperationalError:
                time.sleep(random.uniform(0, 0.1))

    return append


def play_fleet(url: str, file: Path, moments: Sequence[float], *, bare: bool = False) -> tuple[float, list[Outcome]]:
    """When the first rank began (Unix time), and the outcome of every rank."""
    context = multiprocessing.get_context("spawn")
    pipes = []
    for share in range(PROCESSES):
        mine, theirs = context.Pipe()
        context.Process(target=take_part, args=(url, file, share, moments, bare, theirs), daemon=True).start()
        pipes.append(mine)
    for pipe in pipes:
        assert pipe.recv() == "ready"
    start = time.time() + 0.5
    for pipe in pipes:
        pipe.send(start)
    return start, [outcome for pipe in pipes for outcome in pipe.recv()]


@contextlib.contextmanager
def folding(url: str, every_s: int) -> Iterator[subprocess.Popen[str]]:
    """Run the service; it must end cleanly."""
    service = subprocess.Popen(
        [*REGISTRY, "--db", url, "fold", "--every", f"{every_s}s"], stderr=subprocess.PIPE, text=True
    )
    try:
        yield service
    finally:
        service.send_signal(signal.SIGTERM)
        _, said = service.communicate(timeout=120)
    if service.returncode != 0:
        raise SystemExit(f"FAILED: the service ended with status {service.returncode}: {said}")


def peak_megabytes(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def await_folded(store: Store, last: float) -> float:
    """Seconds from the last hand-in until nothing is pending."""
    while count_hand_ins(store).pending:
        if time.time() - last > LONGEST_FOLD_S:
            raise SystemExit(f"FAILED: {count_hand_ins(store)} after {LONGEST_FOLD_S:g} s")
        time.sleep(0.25)
    return time.time() - last


def problems_of(store: Store, ranks: int, in_files: int) -> list[str]:
    """What is not as it must be."""
    with store.reading() as reading:
        rows = reading.row_counts("recordings", "votes", "entries", "hand_ins")
    expected = {"recordings": ranks, "votes": ranks * ENTRIES, "entries": ENTRIES, "hand_ins": 0}
    found = [
        f"{name}: {rows[name]:,} instead of {number:,}" for name, number in expected.items() if rows[name] != number
    ]
    runs = list_runs(store)
    if [(run.name, run.ranks) for run in runs] != [("fleet", tuple(range(ranks)))]:
        found.append("not every rank is there once")
    return [*found, *([f"{in_files:,} in files"] if in_files else [])]


def measure(kind: str, url: str, ranks: int, seconds: float, work: Path) -> bool:
    """Play one fleet; whether all is well."""
    store = Store(parse_url(url))
    upgrade_database(store)
    with store.writing() as transaction:
        kind_of_payload = "BLOB" if kind == "SQLite" else "BYTEA"
        transaction.connection.exec_driver_sql(f"CREATE TABLE bare (payload {kind_of_payload})")
    file = work / f"payloads{ranks}"
    payloads = make_payloads(ranks, work / "recordings")
    file.write_bytes(pickle.dumps(payloads))
    start, bare = play_fleet(url, file, [0.0] * ranks, bare=True)
    limit_s = max(took for took, _ in bare)
    chance = random.Random(1)
    moments = [chance.uniform(0, seconds) for _ in range(ranks)]
    with folding(url, 5) as service:
        start, outcomes = play_fleet(url, file, moments)
        last = time.time()
        rest_s = await_folded(store, last)
        peak = peak_megabytes(service.pid)
    took = sorted(seconds for seconds, _ in outcomes)
    in_files = sum(not done for _, done in outcomes)
    problems = problems_of(store, ranks, in_files)
    with store.reading() as reading:
        lost = ranks - in_files - reading.row_counts("recordings")["recordings"]
    print(f"{kind}, {count_of(ranks, 'rank')} in {last - start:.0f} s, {len(payloads[0]) / 1000:.1f} kB each: {lost:,} lost, "
          f"{in_files:,} in files; hand-in p50 {statistics.median(took):.2f} s, p99 {took[int(0.99 * (len(took) - 1))]:.2f} s, "
          f"slowest {took[-1]:.2f} s; all folded {rest_s:.1f} s after the last, with {peak:.0f} MB; bare inserts at once: "
          f"{limit_s:.1f} s" + (f"; WRONG: {'; '.join(problems)}" if problems else "; every vote is there exactly once"),
          flush=True)  # fmt: skip
    return not problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1024], help="Numbers of ranks. [default: 1024]")
    parser.add_argument("--seconds", type=float, default=60.0, help="How long the ranks take to come. [default: 60]")
    parser.add_argument("--postgres", action="store_true", help="Use a temporary Postgres server with 100 connections.")
    arguments = parser.parse_args()
    os.environ.pop("TUNING_REGISTRY_DB", None)
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, Python {platform.python_version()}, {os.cpu_count()} cores", flush=True)
    is_well = True
    with tempfile.TemporaryDirectory() as folder:
        for ranks in arguments.ranks:
            if arguments.postgres:
                with postgres() as server:
                    empty_postgres(server)
                    is_well &= measure("Postgres", server, ranks, arguments.seconds, Path(folder))
            else:
                is_well &= measure(
                    "SQLite", f"sqlite:///{folder}/fleet{ranks}.db", ranks, arguments.seconds, Path(folder)
                )
    sys.exit(not is_well)


if __name__ == "__main__":
    main()
