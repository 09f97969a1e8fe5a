"""Ingesting recordings into a database, all or nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.ingestion.plan import IngestPlan
from tuning_registry.db.ingestion.rows import write_plan
from tuning_registry.db.store import Store
from tuning_registry.db.url import IN_MEMORY
from tuning_registry.errors import RegistryError
from tuning_registry.formats.fast_reader import QuickReader
from tuning_registry.formats.triton_cache import TritonCache, read_cache
from tuning_registry.model.names import is_known_arch
from tuning_registry.model.records import Recording
from tuning_registry.model.results import Result
from tuning_registry.operations.ingest.attribution import Attribution
from tuning_registry.operations.ingest.notices import (
    find_look_alikes,
    find_many_keys,
    find_other_sources,
    find_spellings,
)
from tuning_registry.operations.ingest.options import IngestOptions
from tuning_registry.operations.ingest.placement import plan_ingest
from tuning_registry.operations.ingest.sources import Paths, Source, count_unnamed_timings, find_files, sources_of
from tuning_registry.wording import count_of

__all__ = ["IngestOptions", "IngestReport", "add_to_batch", "ingest", "ingest_in_memory", "write_batch"]

_SHOWN = 5  # files named in an error, after the first


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class IngestReport(Result):
    """The outcome of an ingest. Attributes count recordings unless they state otherwise.

    Attributes:
        new: Recordings that were not in the database.
        completed: Recordings that were, and got votes, observations or timings that they lacked.
        already: Recordings that were, with everything that was read.
        replaced: Old recordings that are now superseded.
        withdrawn: Recordings of withdrawn runs and ranks, left unchanged.
        votes: Votes inserted.
        timings: Timings of candidates inserted.
        observations: Observations inserted.
        new_entries: Entries that no recording had before.
        timings_beside: Files of timings in the folders of the recordings that were not named.
        unowned_caches: Triton caches of unknown rank, whose winners do not vote.
        derived_runs: Names of runs that were derived from the files, in order of appearance.
        strange_archs: Architectures with an unknown spelling, stored as given.
        same_content: How many recordings hold the same votes or timings as another run, by that run's name.
        other_sources: Kernels that ranks of one run recorded from functions of different source, by run.
        many_keys: Architecture, name and number of keys of the kernels with more than `MANY_KEYS` of them, if there are
            new entries.
        spellings: Groups of configs that ranks chose for one entry and that Triton cannot tell apart.
        look_alikes: Kernels whose names have characters outside ASCII: other names may look the same.
        created: Whether the ingest created the registry in an empty database.
        skipped: Why recordings were left out.
    """

    new: int = 0
    completed: int = 0
    already: int = 0
    replaced: int = 0
    withdrawn: int = 0
    votes: int = 0
    timings: int = 0
    observations: int = 0
    new_entries: int = 0
    timings_beside: int = 0
    unowned_caches: int = 0
    derived_runs: Sequence[str] = ()
    strange_archs: Sequence[str] = ()
    same_content: Mapping[str, int] = field(default_factory=dict)
    other_sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    many_keys: Sequence[tuple[str, str, int]] = ()
    spellings: Sequence[Sequence[str]] = ()
    look_alikes: Sequence[str] = ()
    created: bool = False
    skipped: Sequence[RegistryError] = ()

    def to_dict(self) -> dict[str, Any]:
        """Every attribute by name; errors as their messages."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {
            "derived_runs": list(self.derived_runs),
            "strange_archs": list(self.strange_archs),
            "same_content": dict(self.same_content),
            "other_sources": {run: list(kernels) for run, kernels in self.other_sources.items()},
            "many_keys": [list(found) for found in self.many_keys],
            "spellings": [list(texts) for texts in self.spellings],
            "look_alikes": list(self.look_alikes),
            "skipped": [str(error) for error in self.skipped],
        }

    def __str__(self) -> str:
        """What was ingested, then what was not."""
        parts = [count_of(self.new, "recording"), count_of(self.votes, "vote")]
        if self.timings:
            parts.append(count_of(self.timings, "timing"))
        parts.append(count_of(self.new_entries, "new entry"))
        if self.observations:
            parts.append(count_of(self.observations, "observation"))
        others = {
            "already ingested": self.already,
            "completed": self.completed,
            "superseded": self.replaced,
            "withdrawn (not changed; to count them again, use registry runs restore)": self.withdrawn,
            "skipped": len(self.skipped),
        }
        return ", ".join([*parts, *(f"{count:,} {what}" for what, count in others.items() if count)])


def ingest(
    store: Store,
    paths: Paths,
    options: IngestOptions | None = None,
    track: Callable[[Sequence[Source]], Iterator[Source]] = iter,
) -> IngestReport:
    """Ingest the recordings in `paths`, in one transaction.

    Files are read before the write lock is taken. Without `keep_going`, one bad recording rejects all, and the
    database does not change.

    Args:
        store: The database.
        paths: A file, folder or glob pattern, or several.
        options: What to add to the recordings, and how strict to be.
        track: Wraps the list of files, to show progress.

    Raises:
        FileError, RecordingError: A file cannot be read, or is not a recording.
        ConflictError: A recording contradicts the options or the database.
        RegistryError: Several files have such errors; names them.
        DatabaseError: The database cannot be written.
    """
    options = options or IngestOptions()
    files = find_files(paths)
    batch, errors, unowned = _read(track(sources_of(files, options)), options)
    if errors and not options.keep_going:
        raise _all_of(errors)
    report = write_batch(store, batch, options)
    return replace(
        report,
        timings_beside=count_unnamed_timings(files),
        unowned_caches=unowned,
        other_sources=find_other_sources(store, batch),
        many_keys=find_many_keys(store) if report.new_entries else [],
        spellings=find_spellings(batch),
        look_alikes=find_look_alikes(batch),
        skipped=[*errors, *report.skipped],
    )


def ingest_in_memory(
    paths: Sequence[str | Path],
    options: IngestOptions | None = None,
    track: Callable[[Sequence[Source]], Iterator[Source]] = iter,
) -> Store:
    """A database in memory that holds the recordings in `paths`; it ends with the process.

    Raises:
        RegistryError: As for `ingest`.
    """
    store = Store(IN_MEMORY)
    ingest(store, paths, replace(options or IngestOptions(), number_files=True), track)
    return store


def _read(sources: Iterable[Source], options: IngestOptions) -> tuple[Batch, list[RegistryError], int]:
    """All that can be read, the errors of the rest, and the number of Triton caches of unknown rank."""
    batch, attribution, reader = Batch(), Attribution(options), QuickReader()
    errors: list[RegistryError] = []
    late: list[Path] = []  # files of timings whose recording comes after them; read again rather than kept
    unowned = 0
    for source in sources:
        try:
            if isinstance(source, TritonCache):
                unowned += _read_cache(batch, source, attribution, options, errors)
                continue
            recording = reader.read(source)
            attribution.note(recording)
            if attribution.comes_before_its_owner(recording):
                late.append(source)
            else:
                add_to_batch(batch, recording, attribution)
        except RegistryError as error:
            errors.append(error)
    for file in late:
        try:
            add_to_batch(batch, reader.read(file), attribution)
        except RegistryError as error:
            errors.append(error)
    return batch, errors, unowned


def _read_cache(
    batch: Batch, cache: TritonCache, attribution: Attribution, options: IngestOptions, errors: list[RegistryError]
) -> bool:
    """Add a Triton cache to the batch; whether its rank is unknown."""
    is_owned = options.rank is not None
    skip = errors.append if options.keep_going else None
    recording = read_cache(cache, arch=options.arch, triton=options.triton, votes=is_owned, skip=skip)
    add_to_batch(batch, recording, attribution, needs_rank=False)
    return not is_owned


def _all_of(errors: Sequence[RegistryError]) -> RegistryError:
    """One error for several: the first, with the number and the files of the others."""
    first, *rest = errors
    if not rest:
        return first
    others = [getattr(error, "file", "") or str(error).partition(": ")[0] for error in rest]
    shown = ", ".join(map(str, others[:_SHOWN])) + (", ..." if len(others) > _SHOWN else "")
    several = RegistryError(f"{first} (and {len(others)} more: {shown})")
    several.__cause__ = first
    return several


def add_to_batch(batch: Batch, recording: Recording, attribution: Attribution, *, needs_rank: bool = True) -> None:
    """Complete a recording's header from options and file name, and add it to the batch.

    Raises:
        ConflictError: An option contradicts the recording.
        RecordingError: The recording is not accepted.
    """
    header, is_named = attribution.header_of(recording, needs_rank=needs_rank)
    batch.add(recording, header, is_named=is_named)


def write_batch(store: Store, batch: Batch, options: IngestOptions) -> IngestReport:
    """Insert the new content of a batch, in one transaction."""
    if not batch.pending:
        return IngestReport()
    now = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
    with store.writing() as transaction:
        plan = plan_ingest(transaction, batch, replace=options.replace, keep_going=options.keep_going,
                           moves=options.as_run is None)  # fmt: skip
        new_entries = write_plan(transaction, batch, plan, now)
        created = transaction.created
    return _report(batch, plan, new_entries=new_entries, created=created)


def _report(batch: Batch, plan: IngestPlan, *, new_entries: int, created: bool) -> IngestReport:
    pending = batch.pending
    grown = plan.grows.values()
    timings = sum(pending[position].timing_count for position in plan.files_of("timings"))
    observations = sum(pending[position].observation_count for position in plan.files_of("observations"))
    votes = sum(sum(pending[position].vote_counts.values()) for position in plan.files_of("votes"))
    return IngestReport(
        new=len(plan.inserts),
        completed=len(plan.completes) + len(plan.grows),
        already=plan.already,
        replaced=len(plan.supersedes),
        withdrawn=plan.withdrawn,
        votes=votes + sum(one.new_votes for one in grown),
        timings=timings + sum(one.new_timings for one in grown),
        observations=observations + sum(one.new_observations for one in grown),
        new_entries=new_entries,
        derived_runs=list(dict.fromkeys(record.identity[0] for record in pending if not record.is_named)),
        strange_archs=list(dict.fromkeys(arch for arch, _, _ in batch.entries if not is_known_arch(arch))),
        same_content=plan.same_content,
        created=created,
        skipped=plan.refused,
    )
