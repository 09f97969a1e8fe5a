"""Folding hand-ins into votes, in batches; each batch is one transaction, so every hand-in counts exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tuning_registry.db import queries
from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.store import Store
from tuning_registry.db.writing import Writing
from tuning_registry.errors import DatabaseError, RecordingError, RegistryError, RejectedError
from tuning_registry.formats.fast_reader import QuickReader
from tuning_registry.formats.hand_ins import MAX_BYTES, MAX_PARSED_BYTES, VERSION, parsed_bytes, unpack_hand_in
from tuning_registry.model.records import Recording
from tuning_registry.operations.ingest.attribution import Attribution
from tuning_registry.operations.ingest.hand_ins import count_hand_ins, hand_in_name
from tuning_registry.operations.ingest.options import IngestOptions
from tuning_registry.operations.ingest.processes import current_recordings
from tuning_registry.operations.ingest.report import FoldReport
from tuning_registry.operations.ingest.transfer import add_to_batch, place_batch

BATCH: Final = 512  # hand-ins of a transaction: a bound on memory, and on the time for which the lock is held
_FETCHED: Final = 32  # payloads fetched at a time
_FETCHED_BYTES: Final = 8 << 20  # of several payloads fetched at a time
_BATCH_BYTES: Final = 64 << 20  # of the unpacked recordings of a transaction
_OPTIONS: Final = IngestOptions(keep_going=True)


def fold(store: Store, *, should_stop: Callable[[], bool] = bool, batch_size: int = BATCH) -> FoldReport:
    """Turn every pending hand-in into votes, or refuse it.

    The recording that it holds is placed like one from a file: the same one again changes nothing, a later state
    completes the earlier one, and anything else is refused and kept with the reason. Several processes may fold at the
    same time.

    Args:
        store: The database.
        should_stop: Asked before each batch; true ends the folding early.
        batch_size: How many hand-ins a transaction takes at most.

    Raises:
        SchemaError: There is no registry, or it is of another revision.
        ForbiddenError: The user may not fold.
        BusyError, UnreachableError: The database cannot be written now.
        DatabaseError: It cannot be written.
    """
    total, reader, size = FoldReport(), QuickReader(), batch_size
    if not count_hand_ins(store).pending:
        return total
    while not should_stop():
        fold_batch = _Fold(store, reader, size)
        try:
            report = fold_batch.run()
        except Exception as error:  # whatever it is, one of them must not block the others
            if isinstance(error, DatabaseError) and not isinstance(error, RejectedError):
                raise
            if size > 1:  # find the bad one
                size = 1
                continue
            report = fold_batch.refuse_all(error if str(error) else RegistryError(type(error).__name__))
        if report is None:
            break
        total += report
    return total


@dataclass(frozen=True, slots=True)
class _Offer:
    """A hand-in that can be read."""

    id: str
    recording: Recording
    separate_run: str | None


@dataclass(slots=True)
class _Fold:
    """One transaction of a fold.

    Args:
        store: The database.
        reader: Remembers config texts of earlier batches.
        size: How many hand-ins to take at most.
    """

    store: Store
    reader: QuickReader
    size: int
    claimed: Sequence[str] = ()
    folded: list[str] = field(default_factory=list)  # ids by position in the batch
    errors: dict[str, str] = field(default_factory=dict)  # texts: the traceback of an error keeps what was read
    processes: dict[tuple[str | None, int | None], str] = field(default_factory=dict)  # by run and rank
    places: dict[str, tuple[str | None, int | None]] = field(default_factory=dict)  # the inverse

    def run(self) -> FoldReport | None:
        """Fold one batch; None if there is nothing to fold."""
        with self.store.folding() as transaction:
            sizes = {row["id"]: row["size"] for row in transaction.rows(queries.hand_ins.claim(VERSION, self.size))}
            self.claimed = [*sizes]
            if not sizes:
                return None
            batch, attribution = Batch(), Attribution(_OPTIONS)
            guessed = []
            for offer in self._offers(transaction, sizes):
                if offer.separate_run is None:
                    self._add(batch, attribution, offer)
                else:
                    guessed.append(offer)
            transaction.lock()
            for offer in _with_free_places(transaction, guessed):
                self._add(batch, attribution, offer)
            return self._write(transaction, batch)

    def refuse_all(self, error: Exception) -> FoldReport:
        """Refuse the claimed hand-ins, in a new transaction."""
        reasons = dict.fromkeys(self.claimed, str(error))
        with self.store.writing() as transaction:
            transaction.refuse_hand_ins(reasons)
        return FoldReport(refused=tuple(reasons.values()))

    def _offers(self, transaction: Writing, sizes: dict[str, int]) -> Iterator[_Offer]:
        """Unpack and read the claimed hand-ins until a batch is full; those that remain are claimed again."""
        total = 0
        for ids in _portions({one: size for one, size in sizes.items() if self._is_small(one, size)}):
            payloads = {row["id"]: bytes(row["payload"]) for row in transaction.rows(queries.hand_ins.payloads(ids))}
            for identity in ids:
                if total > _BATCH_BYTES:
                    return
                try:
                    recording, separate_run = unpack_hand_in(payloads.pop(identity))
                    # Those of guessed ranks are kept until the lock is held, all others are added to the batch now.
                    total += len(recording) if separate_run is None else parsed_bytes(recording)
                    yield _Offer(identity, self._read(identity, recording), separate_run)
                except RegistryError as error:
                    self.errors[identity] = str(error)

    def _is_small(self, identity: str, size: int) -> bool:
        if size > MAX_BYTES:
            self.errors[identity] = f"the payload is larger than {MAX_BYTES >> 20} MiB"
        return size <= MAX_BYTES

    def _read(self, identity: str, data: bytes) -> Recording:
        name = hand_in_name(identity)
        if parsed_bytes(data) > MAX_PARSED_BYTES:
            raise RecordingError(name, f"reading it could take more than {MAX_PARSED_BYTES >> 20} MiB of memory; "
                                 "to ingest it anyway, run registry hand-ins --save FOLDER")  # fmt: skip
        recording = self.reader.read_bytes(data, name)
        if recording.header.run is None or recording.header.rank is None:
            raise RecordingError(name, "the recording does not state its run or its rank")
        return recording

    def _add(self, batch: Batch, attribution: Attribution, offer: _Offer) -> None:
        """Add a hand-in to the batch, unless another process has the same run and rank there: it waits for the next."""
        header = offer.recording.header
        process = header.id or offer.id
        place = (header.run, header.rank)
        if self.processes.setdefault(place, process) != process or self.places.setdefault(process, place) != place:
            return
        try:
            add_to_batch(batch, offer.recording, attribution)
        except RegistryError as error:
            self.errors[offer.id] = str(error)
        else:
            self.folded.append(offer.id)

    def _write(self, transaction: Writing, batch: Batch) -> FoldReport:
        report, plan = place_batch(transaction, batch, _OPTIONS)
        for position, error in plan.refused.items():
            self.errors[self.folded[position]] = str(error)
        for position in plan.withdrawn:
            run, rank = batch.pending[position].identity
            self.errors[self.folded[position]] = (
                f"rank {rank} of run {run!r} is withdrawn; to count it, run registry runs restore and "
                "registry fold --retry"
            )
        done = [identity for identity in self.folded if identity not in self.errors]
        transaction.delete_hand_ins(done)
        transaction.refuse_hand_ins(self.errors)
        return FoldReport(
            hand_ins=len(done),
            recordings=report.new,
            completed=report.completed,
            votes=report.votes,
            timings=report.timings,
            refused=tuple(self.errors.values()),
        )


def _portions(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Ids of payloads to fetch together: many small ones, or one that is large."""
    ids: list[str] = []
    total = 0
    for identity, size in sizes.items():
        if ids and (len(ids) == _FETCHED or total + size > _FETCHED_BYTES):
            yield ids
            ids, total = [], 0
        ids.append(identity)
        total += size
    if ids:
        yield ids


def _with_free_places(transaction: Writing, offers: Sequence[_Offer]) -> Iterator[_Offer]:
    """Hand-ins of processes that guessed their rank; those whose guess another process has get their separate run.

    See docs/decisions.md, D38.
    """
    headers = [offer.recording.header for offer in offers]
    identities = {(one.run, one.rank) for one in headers if one.run is not None and one.rank is not None}
    holders: dict[tuple[str | None, int | None], str] = {
        identity: row["process_id"] for identity, row in current_recordings(transaction, identities).items()
    }
    for offer, header in zip(offers, headers, strict=True):
        mine = header.id or offer.id
        if holders.setdefault((header.run, header.rank), mine) != mine:
            recording = replace(offer.recording, header=replace(header, run=offer.separate_run))
            yield replace(offer, recording=recording)
        else:
            yield offer
