"""Runs: listing them, withdrawing one, restoring it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuning_registry.db import queries
from tuning_registry.db.reading import Row
from tuning_registry.db.schema import NO_RANK
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError
from tuning_registry.model.canonical import check_text
from tuning_registry.model.selection import MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run and what its current recordings say; lists are sorted, empty values left out.

    Attributes:
        name: Name of the run.
        ranks: Ranks that are recorded.
        recordings: Number of recordings; more than ranks where a Triton cache is one of nobody's.
        world_size: Ranks of the job; None when unknown.
        votes: Number of votes.
        archs, triton, packages, devices, sources, hosts: What is recorded, each distinct value once; `none`
            in `triton` where some recordings state a version and others do not.
        ingested_at: Time of its last ingest, UTC, ISO 8601.
        withdrawn_at: When it was withdrawn; None when it counts.
    """

    name: str
    ranks: tuple[int, ...]
    recordings: int
    world_size: int | None
    votes: int
    archs: tuple[str, ...]
    triton: tuple[str, ...]
    packages: tuple[str, ...]
    devices: tuple[str, ...]
    sources: tuple[str, ...]
    hosts: tuple[str, ...]
    ingested_at: str
    withdrawn_at: str | None


def list_runs(store: Store) -> list[Run]:
    """Every run, newest first.

    Raises:
        DatabaseError: The database cannot be read.
    """
    with store.reading() as reading:
        rows = reading.rows(queries.recordings.of_all_runs())
        arch_rows = reading.rows(queries.recordings.all_archs())
    archs: dict[int, list[Row]] = {}
    for row in arch_rows:
        archs.setdefault(row["recording_id"], []).append(row)
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["run"], []).append(row)
    return [_run(name, members, archs) for name, members in grouped.items()]


def _run(name: str, members: Sequence[Row], archs: Mapping[int, list[Row]]) -> Run:
    def values(column: str) -> tuple[str, ...]:
        return tuple(sorted({row[column] for row in members} - {None, ""}))

    counted = [row for member in members for row in archs.get(member["id"], [])]
    packages = {f"{package} {version}" for row in members for package, version in json.loads(row["packages"]).items()}
    stated = {row["triton"] or MISSING for row in members}
    return Run(
        name=name,
        ranks=tuple(sorted(row["rank"] for row in members if row["rank"] != NO_RANK)),
        recordings=len(members),
        world_size=max((row["world_size"] for row in members if row["world_size"]), default=None),
        votes=sum(row["vote_count"] for row in counted),
        archs=tuple(sorted({row["arch"] for row in counted})),
        triton=() if stated == {MISSING} else tuple(sorted(stated)),
        packages=tuple(sorted(packages)),
        devices=values("device_name"),
        sources=values("source"),
        hosts=values("host"),
        ingested_at=max(row["ingested_at"] for row in members),
        withdrawn_at=members[0]["withdrawn_at"],
    )


def withdraw_run(store: Store, run: str, now: dt.datetime | None = None) -> bool:
    """Stop counting a run's votes. They are kept, and `restore_run` makes them count again.

    Args:
        store: The database.
        run: Name of the run.
        now: Time of the withdrawal, aware; by default the current time.

    Returns:
        False if the run was already withdrawn.

    Raises:
        SelectionError: There is no such run.
        DatabaseError: The database cannot be written.
    """
    at = (now or dt.datetime.now(dt.UTC)).astimezone(dt.UTC)
    return _set_withdrawn(store, run, at.isoformat(timespec="microseconds"))


def restore_run(store: Store, run: str) -> bool:
    """Count the votes of a withdrawn run again.

    Returns:
        False if the run was not withdrawn.

    Raises:
        SelectionError: There is no such run.
        DatabaseError: The database cannot be written.
    """
    return _set_withdrawn(store, run, None)


def _set_withdrawn(store: Store, run: str, withdrawn_at: str | None) -> bool:
    check_text(run, ("run",))
    if store.revision() is None:
        raise store.absent()
    with store.writing() as transaction:
        found = transaction.rows(queries.recordings.runs_by_name([run]))
        if not found:
            raise SelectionError(f"no run {run!r}; registry runs lists them")
        if bool(found[0]["withdrawn_at"]) == bool(withdrawn_at):
            return False
        transaction.set_withdrawn(run, withdrawn_at)
    return True
