#!/usr/bin/env python3
"""Kill ingest, export, migration, recording and hand-ins at random moments: nothing may be lost, doubled or torn.

Every round starts a process on a fresh copy of a database, kills it with SIGKILL after a random part of the time that it
usually takes, and checks the result:

- The database is intact and holds all of a batch or none of it, and a repetition completes it.
- An exported file is the old or the new one.
- A recording is readable and holds what was recorded a few seconds before.
- Ranks hand in while two services fold and an older run is compacted, and ranks, services, the compaction and the
  server are killed: each vote and timing that a rank was told to be handed in is there once, and the older run has all
  of its medians (`hand_in_faults.py`).

Prints counts by kind. Exits 1 at the first loss and names the round.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench_ingest import HERE, REGISTRY, postgres_server
from hand_in_faults import Server, hand_in_rounds
from make_recordings import make_recordings

from tuning_registry.db.check import find_problems
from tuning_registry.db.migrate import upgrade_database
from tuning_registry.db.schema import HEAD, REVISIONS
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.formats.files import read_bytes
from tuning_registry.formats.recordings import read_recording
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
from tuning_registry.wording import count_of

DUMPS = HERE.parent / "tests" / "data"
RANKS, COPIES = 64, 4
# A rank that votes every 5 ms and prints the time of each vote.
RECORDER = """
import sys, time
from tuning_registry.model.canonical import config_text
from tuning_registry.runtime.recording.recorder import Recorder
made = Recorder(sys.argv[1], "job", None)
config = config_text({"kwargs": {"B": 64}, "num_warps": 4, "num_stages": 3})
for number in range(100_000):
    made.vote(("sm90", "pkg.k", f"M={number}"), config, [], [config])
    print(number, time.time(), flush=True)
    time.sleep(0.005)
"""
PROMISED_S = 5.0  # a killed rank loses seconds at most; the machine is busy with more than this


class Databases:
    """Fresh copies of prepared databases, of SQLite or on a Postgres server."""

    def __init__(self, work: Path, server: str | None) -> None:
        self._work, self._server, self._made = work, server, 0

    def new(self) -> str:
        """URL of an empty database."""
        self._made += 1
        if self._server is None:
            return f"sqlite:///{self._work}/db{self._made}.db"
        name = f"campaign_{self._made}"
        self._admin(f"CREATE DATABASE {name}")
        return self._server.replace("/postgres?", f"/{name}?")

    def copy(self, url: str) -> str:
        """URL of a copy of a database that nobody uses."""
        if self._server is None:
            copy = self.new()
            shutil.copy(str(parse_url(url).database), str(parse_url(copy).database))
            return copy
        self._made += 1
        name = f"campaign_{self._made}"
        self._admin(f"CREATE DATABASE {name} TEMPLATE {parse_url(url).database}")
        return self._server.replace("/postgres?", f"/{name}?")

    def drop(self, url: str) -> None:
        """Remove a copy."""
        if self._server is not None:
            self._admin(f"DROP DATABASE {parse_url(url).database} WITH (FORCE)")
            return
        for tail in ("", "-wal", "-shm"):
            Path(f"{parse_url(url).database}{tail}").unlink(missing_ok=True)

    def _admin(self, statement: str) -> None:
        import psycopg  # only with --postgres

        assert self._server is not None
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(statement.encode())


def kill_after(command: list[str], seconds: float) -> bool:
    """Run a command and kill it after some time; return whether it was still running."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
    return False


def usual_time(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def rows(url: str) -> dict[str, int]:
    with Store(parse_url(url)).reading() as reading:
        return reading.row_counts()


def expect(truth: object, what: str) -> None:
    if not truth:
        raise AssertionError(what)


class Campaign:
    """One kind of database; each method prepares once and returns a function that runs a round."""

    def __init__(self, databases: Databases, work: Path, chance: random.Random) -> None:
        self.databases, self.work, self.chance = databases, work, chance
        self.batch = work / "batch"
        if not self.batch.exists():
            make_recordings(RANKS, COPIES, self.batch, timings=True)

    def filled(self) -> str:
        """URL of a database that holds one run."""
        url = self.databases.new()
        ingest(Store(parse_url(url)), HERE.parent / "examples" / "h200", IngestOptions(run="before"))
        return url

    def ingest(self) -> Callable[[], bool]:
        """A batch: all of it is stored or none, and a repetition completes it."""
        base = self.filled()
        command = ["ingest", str(self.batch), "--run", "batch"]
        whole = self.databases.copy(base)
        usual = usual_time([*REGISTRY, "--db", whole, *command])
        before, after = rows(base), rows(whole)

        def play() -> bool:
            url = self.databases.copy(base)
            killed = kill_after([*REGISTRY, "--db", url, *command], self.chance.uniform(0, 1.1 * usual))
            expect(find_problems(Store(parse_url(url))) == [], "the database has problems")
            expect(rows(url) in (before, after), f"the database holds part of a batch: {rows(url)}")
            subprocess.run([*REGISTRY, "--db", url, *command], check=True, capture_output=True)
            expect(rows(url) == after, f"a repetition did not complete the batch: {rows(url)}")
            self.databases.drop(url)
            return killed

        return play

    def export(self) -> Callable[[], bool]:
        """A table that replaces an older one: the file is the old or the new one."""
        base, file = self.filled(), self.work / "sm90.json"
        old, new = (
            ["export", "--arch", "sm90", "-o", str(file), "--policy", policy] for policy in ("majority", "fastest")
        )
        subprocess.run([*REGISTRY, "--db", base, *old], check=True, capture_output=True)
        before = read_bytes(file)
        usual = usual_time([*REGISTRY, "--db", base, *new])
        after = read_bytes(file)

        def play() -> bool:
            file.write_bytes(before)
            killed = kill_after([*REGISTRY, "--db", base, *new], self.chance.uniform(0.3, 1.1) * usual)
            expect(read_bytes(file) in (before, after), "the table is torn")
            expect(find_problems(Store(parse_url(base))) == [], "the database has problems")
            return killed

        return play

    def migrate(self) -> Callable[[], bool]:
        """A migration from the first revision to the newest: the database is at one of the two, with all rows."""
        base = self.databases.new()
        kind = "sqlite" if base.startswith("sqlite") else "postgres"
        load_dump(base, (DUMPS / f"{REVISIONS[0]}-{kind}.sql").read_text())
        whole = self.databases.copy(base)
        usual = usual_time([*REGISTRY, "--db", whole, "db", "upgrade"])
        after = rows(whole)

        def play() -> bool:
            url = self.databases.copy(base)
            killed = kill_after([*REGISTRY, "--db", url, "db", "upgrade"], self.chance.uniform(0.3, 1.1) * usual)
            store = Store(parse_url(url))
            expect(store.revision() in {REVISIONS[0], HEAD}, f"the schema is between two revisions: {store.revision()}")
            upgrade_database(store)
            expect(find_problems(store) == [], "the database has problems")
            expect(rows(url) == after, f"rows were lost: {rows(url)}")
            self.databases.drop(url)
            return killed

        return play

    def record(self) -> Callable[[], bool]:
        """A recording rank: its file is valid and lacks at most the last seconds."""
        folder = self.work / "recordings"

        def play() -> bool:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            log = self.work / "votes.log"
            with log.open("wb") as out:
                process = subprocess.Popen([sys.executable, "-c", RECORDER, str(folder / "rec")], stdout=out,
                                           stderr=subprocess.DEVNULL)  # fmt: skip
                time.sleep(self.chance.uniform(0.3, 6.0))
                process.send_signal(signal.SIGKILL)
                process.wait()
            end = time.time()
            cast = [line.split() for line in log.read_text().splitlines() if line.count(" ") == 1]
            due = [f"M={number}" for number, when in cast if float(when) < end - PROMISED_S]
            files = list(folder.glob("*.json"))
            kept = read_recording(files[0]).votes["sm90"]["pkg.k"] if files else {}
            expect(len(files) <= 1, "several files")
            expect(set(due) <= kept.keys(), f"{len(set(due) - kept.keys())} votes older than {PROMISED_S} s are lost")
            return True

        return play


def load_dump(url: str, text: str) -> None:
    if url.startswith("sqlite"):
        import sqlite3

        connection = sqlite3.connect(str(parse_url(url).database))
        connection.executescript(text)
        connection.close()
        return
    import psycopg

    with psycopg.connect(url) as server:
        server.execute(text.encode())


def fight(rounds: int, chance: random.Random, work: Path, postgres: Any, only: Sequence[str]) -> None:
    server = None if postgres is None else postgres.get_uri()
    campaign = Campaign(Databases(work, server), work, chance)
    kinds = {"ingest": campaign.ingest, "export": campaign.export, "migration": campaign.migrate}
    if server is None:
        kinds["recording"] = campaign.record
    victims = Counter[str]()
    kinds["hand-in"] = lambda: hand_in_rounds(campaign.databases, work, chance, postgres and Server(postgres), victims)
    kinds = {kind: prepare for kind, prepare in kinds.items() if kind in (only or kinds)}
    played, killed = Counter[str](), Counter[str]()
    prepared = {kind: prepare() for kind, prepare in kinds.items()}
    start = time.perf_counter()
    for number in range(rounds):
        kind = list(kinds)[number % len(kinds)]
        try:
            killed[kind] += prepared[kind]()
        except AssertionError as loss:
            raise SystemExit(f"LOSS in round {number} ({kind}): {loss}") from None
        played[kind] += 1
        if number % 20 == 19:
            print(f"{number + 1} of {count_of(rounds, 'round')}: no loss", file=sys.stderr, flush=True)
    name = "SQLite" if server is None else "Postgres"
    print(f"{name}: {count_of(rounds, 'round')} in {time.perf_counter() - start:.0f} s, losses: 0")
    for kind, count in played.items():
        print(
            f"  {kind}: {count_of(count, 'round')}, {killed[kind]} killed, {count - killed[kind]} ended before the kill"
        )
    if victims:
        print(f"  killed in hand-in rounds: {', '.join(f'{name} {count}' for name, count in sorted(victims.items()))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="Number of rounds. [default: 200]")
    parser.add_argument("--seed", type=int, default=1, help="Seed of the random moments. [default: 1]")
    parser.add_argument(
        "--postgres", action="store_true", help="Run as many rounds on a temporary Postgres server as well."
    )
    parser.add_argument("--kind", action="append", help="Only rounds of this kind. May be repeated.")
    arguments = parser.parse_args()
    os.environ.pop("TUNING_REGISTRY_DB", None)
    with tempfile.TemporaryDirectory() as folder:
        fight(arguments.rounds, random.Random(arguments.seed), Path(folder), None, arguments.kind or ())
        if arguments.postgres:
            with postgres_server() as server:
                fight(arguments.rounds, random.Random(arguments.seed), Path(folder), server, arguments.kind or ())


if __name__ == "__main__":
    main()
