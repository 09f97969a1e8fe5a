"""Winners, disagreements, runs and the state of the database, as values ready to be shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import Row
from tuning_registry.db.schema import HEAD, NO_RANK, observations, timings
from tuning_registry.db.store import Store
from tuning_registry.db.url import shown_url
from tuning_registry.errors import SelectionError
from tuning_registry.model.canonical import check_text
from tuning_registry.model.names import bare_name
from tuning_registry.model.selection import MISSING, Selection
from tuning_registry.operations.election.election import elect_entries
from tuning_registry.operations.election.staleness import find_stale
from tuning_registry.operations.election.tally import Entry, check_packages, split_entries
from tuning_registry.rules.evidence import MAJORITY
from tuning_registry.rules.near_keys import similar_names

_SHOWN = 5  # runs named in a message


def find_winners(store: Store, selection: Selection, policy: str = MAJORITY) -> list[Entry]:
    """The config that each entry gets, per version group, sorted by arch, kernel and key.

    Bans and pins count (`operations.overrides`); the elected config is the first of an entry's choices.

    Raises:
        SelectionError: A package filter names a distribution that owns no recorded kernel.
        DatabaseError: The database cannot be read.
    """
    with store.reading() as reading:
        check_packages(reading, selection)
        entries = elect_entries(reading, selection, policy).entries
        stale = find_stale(reading, selection)
    return [replace(entry, stale=stale[entry.shape]) if entry.shape in stale else entry for entry in entries]


def find_disagreements(store: Store, selection: Selection) -> tuple[list[Entry], int]:
    """Entries for which ranks of one version group chose more than one config, with who chose what.

    A rank that never ran a key has no vote on it: absence is no disagreement.

    Returns:
        The entries, and the number of all entries that have votes: what they are out of.

    Raises:
        SelectionError, DatabaseError: As for `find_winners`.
    """
    with store.reading() as reading:
        return split_entries(reading, selection)


def what_there_is(store: Store, kernel: str | None = None) -> str:
    """One line for a query that matched nothing: what could have been asked for, among it kernels with such a name."""
    with store.reading() as reading:
        archs = sorted({row["arch"] for row in reading.rows(queries.recordings.archs_recorded(Selection()))})
        facts = reading.rows(queries.recordings.facts(Selection()))
        withdrawn = {row["run"] for row in reading.rows(queries.recordings.of_all_runs()) if row["withdrawn_at"]}
        kernels = (
            sorted({name for arch in archs for name in reading.scalars(queries.entries.kernels(arch))})
            if kernel
            else []
        )
    similar = similar_names(kernel, kernels) if kernel else []
    runs = list(dict.fromkeys(row["run"] for row in reversed(facts)))
    parts = {
        "archs": archs,
        "triton": sorted({row["triton"] or MISSING for row in facts}),
        "runs": [*runs[:_SHOWN], *(["..."] if len(runs) > _SHOWN else [])],
    }
    if similar and not any(kernel in {name, bare_name(name)} for name in kernels):
        parts["similar kernels"] = similar
    there = "; ".join(f"{name}: {', '.join(found) or 'none'}" for name, found in parts.items())
    return there + (f" (withdrawn: {len(withdrawn)})" if withdrawn else "")


@dataclass(frozen=True, slots=True)
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


def set_withdrawn(store: Store, run: str, withdrawn_at: str | None) -> bool:
    """Withdraw a run (its votes count no more), or restore it with None.

    Returns:
        Whether this changed anything.

    Raises:
        SelectionError: There is no such run.
        DatabaseError: The database cannot be written.
    """
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


def describe_status(store: Store) -> dict[str, Any]:
    """Database, revision, row counts, archs and versions; nothing but the first two when there is no registry."""
    status: dict[str, Any] = {"database": shown_url(store.url), "revision": store.revision(), "head": HEAD}
    if status["revision"] is None:
        return status
    with store.reading() as reading:
        counts = reading.row_counts("recordings", "entries", "configs")
        current = {
            table.name: reading.scalars(queries.tables.counting_rows(table))[0] for table in (timings, observations)
        }
        status["engine"] = reading.engine_name()
    runs = list_runs(store)
    counting = [run for run in runs if not run.withdrawn_at]
    status |= {
        "runs": len(runs),
        "withdrawn": len(runs) - len(counting),
        "recordings": sum(run.recordings for run in runs),
        "superseded": counts["recordings"] - sum(run.recordings for run in runs),
        "entries": counts["entries"],
        "configs": counts["configs"],
        "votes": sum(run.votes for run in counting),
        **current,
    }
    for name in ("archs", "triton", "packages", "devices"):
        status[name] = sorted({value for run in counting for value in getattr(run, name)})
    return status
