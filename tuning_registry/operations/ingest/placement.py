"""Deciding what of a batch is new: by (run, rank), by kind of content, by what is stated."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence

from tuning_registry.db import queries
from tuning_registry.db.batch import KINDS, Pending
from tuning_registry.db.reading import Row
from tuning_registry.db.schema import NO_RANK
from tuning_registry.db.writing import Placement, Writing
from tuning_registry.errors import ConflictError, RegistryError, SchemaError, printable
from tuning_registry.operations.ingest.types import IngestOptions, IngestReport


def place_recordings(
    transaction: Writing, pending: Sequence[Pending], options: IngestOptions, report: IngestReport
) -> tuple[dict[int, Placement], list[int]]:
    """What to insert where, by position, and the ids of older recordings that are superseded."""
    run_names = sorted({record.identity[0] for record in pending})
    runs = {row["name"]: row for row in transaction.chunked(queries.recordings.runs_by_name, run_names)}
    current = {(row["run"], row["rank"]): row for row in transaction.chunked(queries.recordings.current, run_names)}
    whole: dict[tuple[str, int], dict[str, str]] = {}  # what the files of one recording hold together
    for record in pending:
        whole.setdefault(record.identity, {}).update(record.digests)
    copies = _Copies(transaction, pending)
    refused: set[tuple[str, int]] = set()
    seen: dict[tuple[str, int], _Seen] = {}
    placements: dict[int, Placement] = {}
    superseded: list[int] = []
    withdrawn: set[tuple[str, int]] = set()
    nothing_new: list[tuple[str, int]] = []
    # Votes first: timings of a recording that is refused are refused with it.
    for position in sorted(range(len(pending)), key=lambda place: not pending[place].vote_counts):
        record = pending[position]
        try:
            if record.identity in refused:
                raise ConflictError(f"{_at(record)}left out with the recording that it belongs to")
            run = runs.get(record.identity[0])
            if run is not None and run["withdrawn_at"]:
                withdrawn.add(record.identity)
                continue
            first, old = seen.get(record.identity), current.get(record.identity)
            place = first.place_beside(record) if first else _place(record, old, whole, replace=options.replace)
            if place.kinds:
                copies.check(record, report)
                placements[position] = place
            else:
                nothing_new.append(record.identity)
            if first is None:
                superseded += _superseded_by(record, place, old, current.get((record.identity[0], NO_RANK)))
                seen[record.identity] = _Seen(position, record, place, old)
        except RegistryError as error:
            if not options.keep_going or isinstance(error, SchemaError):
                raise
            refused.add(record.identity)
            report.skipped.append(error)
    placements = dict(sorted(placements.items()))
    report.replaced = len(superseded)
    report.withdrawn = len(withdrawn)
    # Recordings, not files: votes and timings of one rank count once, unless it has something new besides.
    placed = {pending[position].identity for position in placements}
    report.already = len(set(nothing_new) - placed) + sum(identity in placed for identity in nothing_new)
    return placements, superseded


class _Seen:
    """The first recording of a (run, rank) in a batch, and what others of it have added since."""

    def __init__(self, position: int, record: Pending, place: Placement, old: Row | None) -> None:
        self._position = position if place.recording_id is None else None
        self._record = record
        self._recording_id = place.recording_id
        self._held: dict[str, str] = dict(record.digests)
        if old is not None and place.recording_id is not None:
            self._held |= {kind: old[f"{kind}_digest"] for kind in KINDS if old[f"{kind}_digest"]}

    def place_beside(self, record: Pending) -> Placement:
        """Where a second file of the same (run, rank) goes: to the first one's recording, with what that lacks.

        Raises:
            ConflictError: It says something else than the first one.
        """
        first = self._record
        differing = [
            kind for kind in record.digests if self._held.get(kind, record.digests[kind]) != record.digests[kind]
        ]
        if differing or (record.environment, record.header.source) != (first.environment, first.header.source):
            raise ConflictError(
                f"{_at(record)}{_whose(record)} is also in {first.file}, with other "
                f"{' and '.join(differing) or 'versions'}; of two jobs of one name ingest one with --as-run NAME"
            )
        new = record.digests.keys() - self._held.keys()
        self._held.update(record.digests)
        return Placement(frozenset(new), self._recording_id, self._position)


def _superseded_by(record: Pending, place: Placement, old: Row | None, observed: Row | None) -> list[int]:
    """Recordings whose place a new one takes: the old one of its rank, and a Triton cache of nobody's that is now its own.

    The run holds the latter's measurements once, whoever's they turn out to be.
    """
    found = [old["id"]] if old is not None and place.recording_id is None and place.beside is None else []
    timings = record.digests.get("timings")
    if observed is not None and record.identity[1] != NO_RANK and timings and timings == observed["timings_digest"]:
        found.append(observed["id"])
    return found


def _place(
    record: Pending, old: Row | None, whole: Mapping[tuple[str, int], Mapping[str, str]], *, replace: bool
) -> Placement:
    """Where a recording goes: a new one, what the old one lacks, or nothing when all of it is there.

    Whether it differs from the old one, and what that would lose, is judged by all files of it (`whole`).

    Raises:
        ConflictError: The database holds something else for this (run, rank), and `replace` is not set.
    """
    if old is None:
        return Placement(frozenset(record.digests))
    held = {kind: old[f"{kind}_digest"] for kind in KINDS if old[f"{kind}_digest"]}
    stated = whole[record.identity]
    differing = sorted(kind for kind in held if stated.get(kind, held[kind]) != held[kind])
    if not differing and _says_nothing_else(record, old):
        return Placement(frozenset(record.digests.keys() - held.keys()), old["id"])
    lost = sorted(held.keys() - stated.keys())
    if replace and lost:
        raise ConflictError(
            f"{_at(record)}holds no {' or '.join(lost)}, which {_whose(record)} has; "
            "--replace takes the place of a whole recording"
        )
    if replace:
        return Placement(frozenset(record.digests))
    what = f"other {' and '.join(differing)}" if differing else "the same content under other versions or source"
    raise ConflictError(
        f"{_at(record)}{_whose(record)} is there already, with {what}; --replace supersedes it, --as-run NAME takes this "
        "one for another job's"
    )


def _says_nothing_else(record: Pending, old: Row) -> bool:
    """Whether versions and source are as the database has them; what a recording leaves unsaid is no difference."""
    says, packages, modules = record.header, json.loads(old["packages"]), json.loads(old["modules"])
    return (
        (says.triton is None or says.triton == old["triton"])
        and (says.source is None or says.source == old["source"])
        and all(packages.get(name) == version for name, version in says.packages.items())
        and all(modules.get(name) == owner for name, owner in says.modules.items())
    )


class _Copies:
    """Recordings of other runs that hold the same: votes of the same rank, or timings, which no two ranks share."""

    def __init__(self, transaction: Writing, pending: Sequence[Pending]) -> None:
        self._known: dict[tuple[str, str, int | None], list[Row]] = {}
        self._noted: set[tuple[tuple[str, int], str]] = set()  # two files of one recording are one copy
        for kind in ("votes", "timings"):
            digests = sorted({content[1] for record in pending for content in _contents(record) if content[0] == kind})
            for row in transaction.chunked(functools.partial(queries.recordings.same_content, kind), digests):
                rank = row["rank"] if kind == "votes" else None
                self._known.setdefault((kind, row["digest"], rank), []).append(row)

    def check(self, record: Pending, report: IngestReport) -> None:
        """Refuse the content of another unnamed run in a run without a name: a copied folder, most likely.

        Where one of the two runs was named on purpose, both count, and the report says so.
        """
        run = record.identity[0]
        for content in _contents(record):
            others = self._known.setdefault(content, [])
            for other in others:
                if other["run"] == run or (record.identity, other["run"]) in self._noted:
                    continue
                if not record.is_named and not other["is_named"]:
                    raise ConflictError(
                        f"{_at(record)}{_whom(other['run'], other['rank'])} holds the same votes or timings: "
                        "probably a copy; if it is another run, name it with --run"
                    )
                self._noted.add((record.identity, other["run"]))
                report.same_content[other["run"]] = report.same_content.get(other["run"], 0) + 1
            others.append({"run": run, "rank": record.identity[1], "is_named": record.is_named})


def _contents(record: Pending) -> list[tuple[str, str, int | None]]:
    """By what its copies are known: kind, digest, and for votes the rank."""
    votes = [("votes", record.digests["votes"], record.identity[1])] if record.vote_counts else []
    return [*votes, *([("timings", record.digests["timings"], None)] if record.timing_count else [])]


def _at(record: Pending) -> str:
    return f"{record.file}: " if record.file else ""  # a rank's own comes from no file


def _whose(record: Pending) -> str:
    return _whom(*record.identity)


def _whom(run: str, rank: int) -> str:
    who = "a recording of no rank" if rank == NO_RANK else f"rank {rank}"
    return f"{who} of run {printable(run)!r}"
