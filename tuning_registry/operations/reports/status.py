"""What a database holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading
from tuning_registry.db.schema import HEAD, observations, timings
from tuning_registry.db.store import Store
from tuning_registry.db.timing_blocks import StoredBlock
from tuning_registry.db.url import shown_url
from tuning_registry.model.globs import matches_kernel
from tuning_registry.model.selection import MISSING, Selection
from tuning_registry.operations.election.shares import Shares
from tuning_registry.operations.election.votes_by_shape import VotesByShape
from tuning_registry.operations.ingest.hand_ins import count_hand_ins
from tuning_registry.operations.mixed_code import find_mixed_code
from tuning_registry.operations.runs import list_runs
from tuning_registry.operations.sources import source_name
from tuning_registry.rules.similar_names import similar_names
from tuning_registry.wording import count_of, list_some


def what_there_is(store: Store, kernel: str | None = None) -> str:
    """One line for a query that matched nothing: kernels with a similar name, or the recorded values of the filters."""
    with store.reading() as reading:
        archs = sorted({row["arch"] for row in reading.rows(queries.recordings.archs_recorded(Selection()))})
        facts = reading.rows(queries.recordings.facts(Selection()))
        similar = _similar_kernels(reading, archs, kernel) if kernel else []
        curated = sum(_curated_sources(reading).values())
        is_split = not archs and bool(reading.scalars(queries.observations.of_shares(Selection())))
    if similar:
        return f"kernels with a similar name: {list_some(similar, shown=2)}"
    parts = {
        "archs": archs,
        "triton": sorted({row["triton"] or MISSING for row in facts}),
        "runs": list(dict.fromkeys(row["run"] for row in reversed(facts))),
    }
    there = "; ".join(f"{name}: {list_some(found)}" for name, found in parts.items())
    withdrawn = sum(run.withdrawn_at is not None for run in list_runs(store))
    there += f" ({withdrawn:,} withdrawn)" if withdrawn else ""
    there += ". Split runs cast no votes: their timings elect with --policy fastest" if is_split else ""
    return there + (f". {count_of(curated, 'curated choice')} do not vote; --curated counts them" if curated else "")


def _similar_kernels(reading: Reading, archs: Sequence[str], kernel: str) -> list[str]:
    """Kernels with a similar name; none if the name is recorded as it is."""
    known = sorted({name for arch in archs for name in reading.scalars(queries.entries.kernels(arch))})
    if any(matches_kernel(kernel, name) for name in known):
        return []
    return similar_names(kernel, known)


def _curated_sources(reading: Reading) -> dict[str, int]:
    """Number of curated choices by project and version."""
    counts: dict[str, int] = {}
    for row in reading.rows(queries.origins.current(Selection())):
        counts[source_name(row)] = counts.get(source_name(row), 0) + row["choice_count"]
    return counts


def _packed_timings(reading: Reading) -> int:
    """How many timings of recordings that count are in blocks?"""
    left_out = set(reading.scalars(queries.tables.not_counting()))
    blocks = map(StoredBlock, reading.bulk(queries.timings.blocks_between(0, max(left_out, default=0))))
    fewer = sum(len(one.configs) * len(left_out.intersection(one.recordings)) for one in blocks)
    return (reading.scalars(queries.timings.packed_number())[0] or 0) - fewer


def describe_status(store: Store) -> dict[str, Any]:
    """Database, revisions, row counts, architectures and versions; only the revisions if there is no registry."""
    status: dict[str, Any] = {"database": shown_url(store.url), "revision": store.revision(), "required_revision": HEAD}
    if status["revision"] is None:
        return status
    with store.reading() as reading:
        counts = reading.row_counts("recordings", "entries", "configs")
        current = {
            table.name: reading.scalars(queries.tables.counting_rows(table))[0] for table in (timings, observations)
        }
        current[timings.name] += _packed_timings(reading)
        status["engine"] = reading.engine_name()
        sources = _curated_sources(reading)
        last_export = reading.scalars(queries.exports.last_time())[0]
        mixed = find_mixed_code(reading, Selection())
        gaps = [entry for entry in Shares(VotesByShape(reading, Selection())).entries() if entry.untimed]
    runs, hand_ins = list_runs(store), count_hand_ins(store)
    counting = [run for run in runs if not run.withdrawn_at]
    status |= {
        "runs": len(runs),
        "withdrawn_runs": len(runs) - len(counting),
        "recordings": sum(run.recordings for run in runs),
        "superseded_recordings": counts["recordings"] - sum(run.recordings for run in runs),
        "entries": counts["entries"],
        "configs": counts["configs"],
        "votes": sum(run.votes for run in counting),
        **current,
        "kernels_with_mixed_code": len(mixed),
        "pending_hand_ins": hand_ins.pending,
        "refused_hand_ins": hand_ins.refused,
        "oldest_pending_hand_in": hand_ins.oldest_pending_at,
        "last_ingest": max((run.ingested_at for run in runs), default=None),
        "last_export": last_export,
    }
    if sources:
        status |= {"curated_choices": sum(sources.values()), "curated_sources": list(sources)}
    if gaps:
        status["untimed"] = list(map(str, gaps))
    for name in ("archs", "triton", "packages", "devices"):
        status[name] = sorted({value for run in counting for value in getattr(run, name)})
    return status
