"""Folds that are killed, and the service: stopped, doubled, and without its server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import pytest
from typer.testing import CliRunner

from tests.conftest import ROOT, config, version_2
from tests.faults.test_processes import Command, counts, die_at_statement
from tests.helpers import on_both
from tuning_registry.cli.app import app
from tuning_registry.db.appending import append_hand_in
from tuning_registry.db.migrate import upgrade_database
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.errors import DatabaseError
from tuning_registry.formats.hand_ins import pack_hand_in

WAIT_S = 60.0


def hand_in(database: str, rank: int, entries: int = 3) -> None:
    votes = {"sm90": {"k": {f"M={m}": config(B=16) for m in range(entries)}}}
    payload = pack_hand_in([json.dumps(version_2(votes, rank, rank=rank)).encode()])
    append_hand_in(database, f"{rank}-{entries}", payload, 10)


def everything(store: Store) -> tuple[int, ...]:
    return counts(store, "recordings", "votes", "entries", "hand_ins")


@on_both
def test_killed_before_any_statement_a_hand_in_is_either_pending_or_counted(
    store: Store, database: str, tmp_path: Path
) -> None:
    upgrade_database(store)
    hand_in(database, 0)
    kept = []
    for at in range(1, 80):
        status, _ = Command(tmp_path / "log", database, "fold", deadly=die_at_statement, at=at).result()
        if status == 0:
            break
        assert status == -signal.SIGKILL
        kept.append(everything(store))
    assert at > 8  # it died at each of its statements before it came through
    assert set(kept) <= {(0, 0, 0, 1), (1, 3, 3, 0)}
    assert kept == sorted(kept)  # counted from the commit on
    assert everything(store) == (1, 3, 3, 0)


@on_both
def test_killed_while_it_completes_a_recording_nothing_is_torn(store: Store, database: str, tmp_path: Path) -> None:
    upgrade_database(store)
    hand_in(database, 0)
    assert Command(tmp_path / "log", database, "fold").result()[0] == 0
    hand_in(database, 0, entries=5)
    kept = set()
    for at in range(4, 120, 5):
        status, _ = Command(tmp_path / "log", database, "fold", deadly=die_at_statement, at=at).result()
        if status == 0:
            break
        kept.add(everything(store))
    assert (1, 3, 3, 1) in kept
    assert kept <= {(1, 3, 3, 1), (1, 5, 5, 0)}
    assert everything(store) == (1, 5, 5, 0)


class Service:
    """`registry fold --every 1s` in a process."""

    def __init__(self, database: str, log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tuning_registry", "--db", database, "fold", "--every", "1s"],
                stderr=out, cwd=ROOT,
            )  # fmt: skip
        wait_for(lambda: "folding every 1 s" in log.read_text())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self, number: int = signal.SIGTERM) -> str:
        """Its log; it must end by itself, with status 0."""
        self.process.send_signal(number)
        assert self.process.wait(WAIT_S) == 0, self.log.read_text()
        return self.log.read_text()


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            if condition():
                return
        except DatabaseError:
            pass  # the server is away
        if time.monotonic() > deadline:
            pytest.fail("did not happen in time")
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@on_both
def test_two_services_count_every_hand_in_once_and_stop_when_told_to(
    store: Store, database: str, tmp_path: Path, number: int
) -> None:
    upgrade_database(store)
    with Service(database, tmp_path / "a.log") as one, Service(database, tmp_path / "b.log") as other:
        for entries in (1, 3):
            for rank in range(10):
                hand_in(database, rank, entries)
            wait_for(lambda: counts(store, "hand_ins") == (0,))
        logs = [service.stop(number) for service in (one, other)]
    assert everything(store) == (10, 30, 3, 0)
    assert all(log.endswith("stopped\n") for log in logs)
    assert "warning" not in "".join(logs)


def test_a_service_survives_the_loss_of_its_server(own_server: Any, tmp_path: Path) -> None:
    url = own_server.get_uri()
    store = Store(parse_url(url))
    upgrade_database(store)
    hand_in(url, 0)
    with Service(url, tmp_path / "log") as service:
        wait_for(lambda: counts(store, "hand_ins") == (0,))
        own_server.stop()
        wait_for(lambda: "retrying until it works" in service.log.read_text())
        own_server.start()
        hand_in(url, 1)
        wait_for(lambda: counts(store, "hand_ins") == (0,))
        log = service.stop()
    assert everything(store) == (2, 6, 3, 0)
    assert (log.count("retrying until it works"), log.count("folding again")) == (1, 1)


@on_both
def test_a_service_without_a_registry_ends_and_says_why(database: str, tmp_path: Path) -> None:
    status, said = Command(tmp_path / "log", database, "fold", "--every", "1s").result()
    assert (status, "there is no registry here yet" in said) == (1, True)


@pytest.mark.parametrize("text", ["", "30", "0s", "-5s", "1d", "1e9s", "30 s;", "100h"])
def test_an_interval_that_makes_no_sense_is_a_usage_error(text: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["--db", f"{tmp_path}/r.db", "fold", f"--every={text}"])
    assert (done.exit_code, "such as 30s or 5m" in done.stderr) == (2, True)
