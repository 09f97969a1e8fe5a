"""From recordings to rows: the one way in, for files and for hand-ins."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import replace

from tuning_registry.db.ingestion.batch import Batch
from tuning_registry.db.ingestion.curated import CuratedPlan, write_curated
from tuning_registry.db.ingestion.plan import IngestPlan
from tuning_registry.db.ingestion.rows import write_plan
from tuning_registry.db.store import Store
from tuning_registry.db.writing import Writing
from tuning_registry.model.names import is_known_arch
from tuning_registry.model.records import Recording
from tuning_registry.operations.ingest.attribution import Attribution
from tuning_registry.operations.ingest.curated import plan_curated
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


def write_batch(
    store: Store, batch: Batch, options: IngestOptions, report: Callable[[int, int], None] | None = None
) -> IngestReport:
    """Insert the new content of a batch, in one transaction; for `report`, see `ingest`."""
    if not batch.pending and not batch.curated:
        return IngestReport()
    with store.writing() as transaction:
        written, _ = place_batch(transaction, batch, options, report)
    return written


def place_batch(
    transaction: Writing, batch: Batch, options: IngestOptions, report: Callable[[int, int], None] | None = None
) -> tuple[IngestReport, IngestPlan]:
    """Insert the new content of a batch in a transaction that holds the write lock; also what was decided."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
    plan = plan_ingest(transaction, batch, replace=options.replace, keep_going=options.keep_going,
                       moves=options.as_run is None)  # fmt: skip
    curated = plan_curated(transaction, batch, replace=options.replace, keep_going=options.keep_going)
    counts = _counts(batch, plan)
    summing = _summing(report, counts["votes"] + counts["timings"])
    new_entries = write_plan(transaction, batch, plan, now, summing) + write_curated(transaction, batch, curated, now)
    written = _report(batch, plan, counts, new_entries=new_entries, created=transaction.created)
    return _with_curated(written, curated), plan


def _with_curated(report: IngestReport, plan: CuratedPlan) -> IngestReport:
    return replace(
        report,
        files=len(plan.inserts) + len(plan.revives),
        curated=plan.choices,
        already=report.already + plan.already,
        withdrawn=report.withdrawn + plan.withdrawn,
        replaced=report.replaced + len(plan.supersedes),
        skipped=[*report.skipped, *plan.refused],
    )


def _counts(batch: Batch, plan: IngestPlan) -> dict[str, int]:
    """How many votes, timings and observations a plan inserts."""
    pending, grown = batch.pending, plan.grows.values()
    votes = sum(sum(pending[position].vote_counts.values()) for position in plan.files_of("votes"))
    timings = sum(pending[position].timing_count for position in plan.files_of("timings"))
    observations = sum(pending[position].observation_count for position in plan.files_of("observations"))
    return {
        "votes": votes + sum(one.new_votes for one in grown),
        "timings": timings + sum(one.new_timings for one in grown),
        "observations": observations + sum(one.new_observations for one in grown),
    }


def _summing(report: Callable[[int, int], None] | None, total: int) -> Callable[[int], None] | None:
    """What reports the sum of what it is called with, out of a total."""
    done = 0

    def add(number: int) -> None:
        nonlocal done
        done += number
        if report is not None:
            report(done, total)

    add(0)
    return add


def _report(
    batch: Batch, plan: IngestPlan, counts: Mapping[str, int], *, new_entries: int, created: bool
) -> IngestReport:
    pending = batch.pending
    return IngestReport(
        new=len(plan.inserts),
        completed=len(plan.completes) + len(plan.grows),
        already=plan.already,
        replaced=len(plan.supersedes),
        withdrawn=len({pending[position].identity for position in plan.withdrawn}),
        votes=counts["votes"],
        timings=counts["timings"],
        observations=counts["observations"],
        new_entries=new_entries,
        derived_runs=list(dict.fromkeys(record.identity[0] for record in pending if not record.is_named)),
        strange_archs=list(dict.fromkeys(arch for arch, _, _ in batch.entries if not is_known_arch(arch))),
        same_content=plan.same_content,
        created=created,
        skipped=[*plan.refused.values()],
    )
