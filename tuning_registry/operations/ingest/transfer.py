"""From recordings to rows: the one way in, for files and for hand-ins."""

from __future__ import annotations

import datetime as dt

from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.ingestion.plan import IngestPlan
from tuning_registry.db.ingestion.rows import write_plan
from tuning_registry.db.store import Store
from tuning_registry.db.writing import Writing
from tuning_registry.model.names import is_known_arch
from tuning_registry.model.records import Recording
from tuning_registry.operations.ingest.attribution import Attribution
from tuning_registry.operations.ingest.options import IngestOptions
from tuning_registry.operations.ingest.placement import plan_ingest
from tuning_registry.operations.ingest.report import IngestReport


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
    with store.writing() as transaction:
        report, _ = place_batch(transaction, batch, options)
    return report


def place_batch(transaction: Writing, batch: Batch, options: IngestOptions) -> tuple[IngestReport, IngestPlan]:
    """Insert the new content of a batch in a transaction that holds the write lock; also what was decided."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
    plan = plan_ingest(transaction, batch, replace=options.replace, keep_going=options.keep_going,
                       moves=options.as_run is None)  # fmt: skip
    new_entries = write_plan(transaction, batch, plan, now)
    return _report(batch, plan, new_entries=new_entries, created=transaction.created), plan


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
        withdrawn=len({pending[position].identity for position in plan.withdrawn}),
        votes=votes + sum(one.new_votes for one in grown),
        timings=timings + sum(one.new_timings for one in grown),
        observations=observations + sum(one.new_observations for one in grown),
        new_entries=new_entries,
        derived_runs=list(dict.fromkeys(record.identity[0] for record in pending if not record.is_named)),
        strange_archs=list(dict.fromkeys(arch for arch, _, _ in batch.entries if not is_known_arch(arch))),
        same_content=plan.same_content,
        created=created,
        skipped=[*plan.refused.values()],
    )
