"""Deciding which content of a batch is new: by run and rank, by kind of content, by stated versions."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence

from tuning_registry.db import queries
from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.ingestion.pending import Pending
from tuning_registry.db.ingestion.plan import Growth, IngestPlan
from tuning_registry.db.reading import Reading, Row
from tuning_registry.db.schema import NO_RANK
from tuning_registry.errors import ConflictError, RegistryError, printable
from tuning_registry.operations.ingest.processes import (
    Identity,
    Processes,
    State,
    current_recordings,
    held_by,
    states_nothing_else,
)


def plan_ingest(
    transaction: Reading, batch: Batch, *, replace: bool = False, keep_going: bool = False, moves: bool = True
) -> IngestPlan:
    """What to insert, complete and supersede so that the database holds the recordings of a batch.

    Args:
        transaction: Holds the write lock, so that the plan is still right when it is carried out.
        batch: The recordings.
        replace: Whether a recording with other content supersedes the one in the database.
        keep_going: Whether a refused recording is left out rather than raised.
        moves: Whether a recording of a process that the database has under another run or rank takes its place.

    Raises:
        ConflictError: A recording contradicts the database or another file.
    """
    pending = batch.pending
    planner = _Planner(transaction, batch, replace=replace, moves=moves)
    # Votes first: timings of a recording that is refused are refused with it.
    for position in sorted(range(len(pending)), key=lambda place: not pending[place].vote_counts):
        try:
            planner.place(position)
        except ConflictError as error:
            if not keep_going:
                raise
            planner.refuse(position, error)
    return planner.plan()


class _Planner:
    """The plan so far."""

    def __init__(self, transaction: Reading, batch: Batch, *, replace: bool, moves: bool) -> None:
        pending = batch.pending
        names = sorted({record.identity[0] for record in pending})
        runs = transaction.chunked(queries.recordings.runs_by_name, names)
        self._withdrawn_runs = {row["name"] for row in runs if row["withdrawn_at"]}
        self._current = current_recordings(transaction, {record.identity for record in pending})
        self._copies = _Copies(transaction, pending)
        self._processes = Processes(transaction, batch, self._current, moves=moves)
        self._pending = pending
        self._replace = replace
        self._stated: dict[Identity, dict[str, str]] = {}  # what all files of a recording hold together
        for position, record in enumerate(pending):
            if position not in self._processes.earlier:
                self._stated.setdefault(record.identity, {}).update(record.digests)
        self._grows: dict[int, Growth] = {}
        self._targets: dict[Identity, _Target] = {}
        self._supersedes: list[int] = []
        self._refused: dict[int, RegistryError] = {}
        self._refused_recordings: set[Identity] = set()
        self._withdrawn: list[int] = []
        self._nothing_new: Counter[Identity] = Counter()

    def place(self, position: int) -> None:
        """Decide about one file.

        Raises:
            ConflictError: It contradicts the database or another file.
        """
        record = self._pending[position]
        identity = record.identity
        if identity in self._refused_recordings:
            raise ConflictError(f"{_at(record)}the recording that it belongs to was skipped")
        if self._is_withdrawn(identity):
            self._withdrawn.append(position)
            return
        state = self._processes.state_of(position)
        if state is not None:
            self._take_state(record, state)
            return
        target = self._targets.get(identity)
        is_first = target is None
        if target is None:
            target = self._target_of(record, position)
        kinds = target.kinds_lacking(record)
        if kinds:
            self._copies.check(record)
            target.take(record, position, kinds)
        else:
            self._nothing_new[identity] += 1
        if is_first:
            self._targets[identity] = target
            self._supersedes += self._superseded_by(record, target)

    def _is_withdrawn(self, identity: Identity) -> bool:
        """Whether a run or rank is withdrawn; `replace` supersedes a rank's recording, and the new one counts."""
        old = self._current.get(identity)
        return identity[0] in self._withdrawn_runs or (
            old is not None and old["withdrawn_at"] is not None and not self._replace
        )

    def _take_state(self, record: Pending, state: State) -> None:
        """Complete the recording in the database with a later state of it, or leave an earlier one out."""
        if state.growth is None:
            self._nothing_new[record.identity] += 1
            return
        self._copies.check(record)
        self._grows[state.recording_id] = state.growth

    def refuse(self, position: int, error: RegistryError) -> None:
        """Leave a file out, and all later ones of its recording."""
        self._refused[position] = error
        self._refused_recordings.add(self._pending[position].identity)

    def plan(self) -> IngestPlan:
        """The plan for all files."""
        new = sorted((t for t in self._targets.values() if t.recording_id is None), key=lambda t: t.position)
        changed = {identity for identity, target in self._targets.items() if target.adds}
        # Recordings, not files: votes and timings of one rank count once, unless it also has something new.
        already = sum(count if identity in changed else 1 for identity, count in self._nothing_new.items())
        return IngestPlan(
            inserts={target.position: target.adds for target in new},
            completes={t.recording_id: t.adds for t in self._targets.values() if t.recording_id is not None and t.adds},
            grows=self._grows,
            supersedes=[*dict.fromkeys(self._supersedes)],
            refused=self._refused,
            withdrawn=self._withdrawn,
            already=already,
            same_content=self._copies.found,
        )

    def _target_of(self, record: Pending, position: int) -> _Target:
        """Where the first file of a recording goes: to the recording in the database, or to a new one.

        Whether it differs from the old one, and what replacing would lose, depends on all its files together.

        Raises:
            ConflictError: The database holds something else for this run and rank, and must not be replaced.
        """
        old = self._current.get(record.identity)
        if old is None:
            return _Target(record, position)
        held, stated = held_by(old), self._stated[record.identity]
        differing = sorted(kind for kind in held if stated.get(kind, held[kind]) != held[kind])
        if not differing and states_nothing_else(record, old):
            return _Target(record, position, old["id"], held)
        lost = sorted(held.keys() - stated.keys())
        if self._replace and lost:
            raise ConflictError(
                f"{_at(record)}has no {' or '.join(lost)}, but {_whose(record)} in the database has; --replace "
                "supersedes a whole recording, so ingest all of its files together"
            )
        if self._replace:
            return _Target(record, position)
        what = f"other {' and '.join(differing)}" if differing else "other versions or another source"
        raise ConflictError(
            f"{_at(record)}{_whose(record)} is already in the database with {what}; use --replace to supersede it, or "
            "--as-run NAME for another job"
        )

    def _superseded_by(self, record: Pending, target: _Target) -> list[int]:
        """Ids of the recordings whose place this one takes.

        That is the old one of its rank; and a Triton cache of unknown rank with the same timings, which is now
        known to be this rank's: the run holds its measurements once.
        """
        old, unowned = self._current.get(record.identity), self._current.get((record.identity[0], NO_RANK))
        found = [old["id"]] if old is not None and target.recording_id is None else []
        timings = record.digests.get("timings")
        if unowned is not None and record.identity[1] != NO_RANK and timings and timings == unowned["timings_digest"]:
            found.append(unowned["id"])
        return found if target.recording_id is not None else found + self._processes.moved_from(record)


class _Target:
    """The recording that the files of one run and rank go to.

    Attributes:
        position: Position of the first file in `Batch.pending`.
        recording_id: Id of the recording in the database; None for a new one.
        adds: Which file gives it which kind of content.
    """

    def __init__(
        self, first: Pending, position: int, recording_id: int | None = None, held: Mapping[str, str] | None = None
    ) -> None:
        self.position = position
        self.recording_id = recording_id
        self.adds: dict[str, int] = {}
        self._first = first
        self._held = dict(held or {})

    def kinds_lacking(self, record: Pending) -> set[str]:
        """The parts of a file's content that the recording lacks.

        Raises:
            ConflictError: The file contradicts the first one.
        """
        first = self._first
        differing = [kind for kind, digest in record.digests.items() if self._held.get(kind, digest) != digest]
        if differing or (record.environment, record.header.source) != (first.environment, first.header.source):
            raise ConflictError(
                f"{_at(record)}{_whose(record)} is also in {first.file} with other "
                f"{' and '.join(differing) or 'versions'}; if two jobs used this name, ingest one with --as-run NAME"
            )
        return record.digests.keys() - self._held.keys()

    def take(self, record: Pending, position: int, kinds: set[str]) -> None:
        """Let a file give the recording these kinds of content."""
        self._held.update(record.digests)
        self.adds.update(dict.fromkeys(kinds, position))


class _Copies:
    """Recordings of other runs with the same content: votes of the same rank, or any timings.

    Attributes:
        found: How many recordings of the batch are copies that count, by the other run's name.
    """

    def __init__(self, transaction: Reading, pending: Sequence[Pending]) -> None:
        self.found: Counter[str] = Counter()
        self._known: dict[tuple[str, str, int | None], list[Row]] = {}
        self._noted: set[tuple[Identity, str]] = set()  # two files of one recording are one copy
        for kind in ("votes", "timings"):
            contents = list(dict.fromkeys(one[1:] for record in pending for one in _contents(record) if one[0] == kind))
            for row in transaction.chunked(functools.partial(queries.recordings.same_content, kind), contents, 2):
                rank = row["rank"] if kind == "votes" else None
                self._known.setdefault((kind, row["digest"], rank), []).append(row)

    def check(self, record: Pending) -> None:
        """Refuse the content of an unnamed run in another unnamed run: most likely a copied folder.

        If one of the two runs was named on purpose, both count, and the report mentions it.

        Raises:
            ConflictError: Names the other recording.
        """
        run, rank = record.identity
        for content in _contents(record):
            others = self._known.setdefault(content, [])
            for other in others:
                if other["run"] == run or (record.identity, other["run"]) in self._noted:
                    continue
                if not record.is_named and not other["is_named"]:
                    raise ConflictError(
                        f"{_at(record)}{_whom(other['run'], other['rank'])} holds the same votes or timings: "
                        "it is probably a copied folder; if it is a different run, name it with --run"
                    )
                self._noted.add((record.identity, other["run"]))
                self.found[other["run"]] += 1
            others.append({"run": run, "rank": rank, "is_named": record.is_named})


def _contents(record: Pending) -> list[tuple[str, str, int | None]]:
    """The key by which copies are recognised: kind, digest, and for votes the rank."""
    votes = [("votes", record.digests["votes"], record.identity[1])] if record.vote_counts else []
    return [*votes, *([("timings", record.digests["timings"], None)] if record.timing_count else [])]


def _at(record: Pending) -> str:
    return f"{record.file}: " if record.file else ""  # the recording of a running job comes from no file


def _whose(record: Pending) -> str:
    return _whom(*record.identity)


def _whom(run: str, rank: int) -> str:
    who = "a recording of unknown rank" if rank == NO_RANK else f"rank {rank}"
    return f"{who} of run {printable(run)!r}"
