"""The recorded runs, which can be listed, withdrawn and restored."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading, Row
from tuning_registry.db.roles import DECIDE
from tuning_registry.db.schema import NO_RANK, recorded_runs, recordings
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError, printable
from tuning_registry.model.names import check_text, rank_ranges, ranks_text
from tuning_registry.model.results import Result
from tuning_registry.model.selection import MISSING
from tuning_registry.wording import count_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Run(Result):
    """A run with what its current recordings state. Lists are sorted and hold no empty values.

    Attributes:
        name: Name of the run.
        ranks: Ranks that are recorded.
        recordings: Number of recordings; exceeds the number of ranks if a Triton cache belongs to no rank.
        world_size: Number of ranks of the job; None if unknown.
        votes: Number of votes, without those of `withdrawn_ranks`.
        archs, triton, packages, devices, sources, hosts: The distinct values; `triton` includes `none` if some
            recordings state a version and others do not.
        ingested_at: Time of its last ingest, UTC, ISO 8601.
        withdrawn_at: When the whole run was withdrawn; None if it counts.
        withdrawn_ranks: Ranks that were withdrawn alone.
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
    withdrawn_ranks: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON holds it."""
        lists = ("archs", "triton", "packages", "devices", "hosts", "sources")
        return {
            "run": self.name,
            "ranks": list(self.ranks),
            "world_size": self.world_size,
            "recordings": self.recordings,
            "votes": self.votes,
            **{name: list(getattr(self, name)) for name in lists},
            "ingested_at": self.ingested_at,
            "withdrawn_at": self.withdrawn_at,
            "withdrawn_ranks": list(self.withdrawn_ranks),
        }

    def __str__(self) -> str:
        """One readable line."""
        ranks = ranks_text(self.ranks) if self.ranks else "no ranks"
        withdrawn = f", without {ranks_text(self.withdrawn_ranks)}" if self.withdrawn_ranks else ""
        withdrawn = ", withdrawn" if self.withdrawn_at else withdrawn
        return printable(f"{self.name}: {ranks}, {count_of(self.votes, 'vote')}{withdrawn}")


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
    counted = [row for member in members if not member["rank_withdrawn_at"] for row in archs.get(member["id"], [])]
    packages = {f"{package} {version}" for row in members for package, version in json.loads(row["packages"]).items()}
    triton = tuple(sorted({row["triton"] or MISSING for row in members}))
    return Run(
        name=name,
        ranks=tuple(sorted(row["rank"] for row in members if row["rank"] != NO_RANK)),
        recordings=len(members),
        world_size=max((row["world_size"] or 0 for row in members), default=0) or None,
        votes=sum(row["vote_count"] for row in counted),
        archs=_distinct(counted, "arch"),
        triton=() if triton == (MISSING,) else triton,
        packages=tuple(sorted(packages)),
        devices=_distinct(members, "device_name"),
        sources=_distinct(members, "source"),
        hosts=_distinct(members, "host"),
        ingested_at=max(row["ingested_at"] for row in members),
        withdrawn_at=members[0]["withdrawn_at"],
        withdrawn_ranks=tuple(sorted(member["rank"] for member in members if member["rank_withdrawn_at"])),
    )


def _distinct(rows: Sequence[Row], column: str) -> tuple[str, ...]:
    """The values of a column, sorted, without those that are not stated."""
    return tuple(sorted({row[column] for row in rows} - {None, ""}))


def withdraw_run(store: Store, run: str, ranks: Collection[int] = (), now: dt.datetime | None = None) -> bool:
    """Stop counting the votes of a run, or of some of its ranks. They are kept, and `restore_run` counts them again.

    Args:
        store: The database.
        run: Name of the run.
        ranks: Only these ranks; empty for the whole run.
        now: Time of the withdrawal, aware; by default the current time.

    Returns:
        False if all of this was already withdrawn.

    Raises:
        SelectionError: There is no such run, or it has no recording of one of the ranks; nothing is changed.
        DatabaseError: The database cannot be written.
    """
    at = (now or dt.datetime.now(dt.UTC)).astimezone(dt.UTC)
    return _set_withdrawn(store, run, ranks, at.isoformat(timespec="microseconds"))


def restore_run(store: Store, run: str, ranks: Collection[int] = ()) -> bool:
    """Count the votes of a withdrawn run again, or those of ranks that were withdrawn individually.

    The two are independent: restoring a run does not restore a rank that was withdrawn alone.

    Args:
        store: The database.
        run: Name of the run.
        ranks: Only these ranks; empty for the whole run.

    Returns:
        False if nothing of this was withdrawn.

    Raises:
        SelectionError: There is no such run, or it has no recording of one of the ranks; nothing is changed.
        DatabaseError: The database cannot be written.
    """
    return _set_withdrawn(store, run, ranks, None)


def _set_withdrawn(store: Store, run: str, ranks: Collection[int], withdrawn_at: str | None) -> bool:
    check_text(run, ("run",))
    if store.revision() is None:
        raise store.absent()
    with store.writing(DECIDE) as transaction:
        table, rows = recorded_runs, transaction.rows(queries.recordings.runs_by_name([run]))
        if not rows:
            raise SelectionError(f"there is no run {run!r}; registry runs lists the recorded runs")
        if ranks:
            table, rows = recordings, _of_ranks(transaction, run, ranks)
        changed = [row["id"] for row in rows if bool(row["withdrawn_at"]) != bool(withdrawn_at)]
        transaction.set_withdrawn(table, changed, withdrawn_at)
    return bool(changed)


def _of_ranks(reading: Reading, run: str, ranks: Collection[int]) -> list[Row]:
    """The current recordings of these ranks.

    Raises:
        SelectionError: One of them has none.
    """
    rows = {row["rank"]: row for row in reading.rows(queries.recordings.ranks_of(run))}
    missing = sorted(set(ranks) - rows.keys())
    if missing:
        there = rank_ranges(sorted(rows)) or "none"
        raise SelectionError(f"run {run!r} has no recording of {ranks_text(missing)}; recorded ranks: {there}")
    return [rows[rank] for rank in sorted(set(ranks))]
