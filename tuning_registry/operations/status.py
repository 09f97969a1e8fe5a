"""What a database holds."""

from __future__ import annotations

from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.schema import HEAD, observations, timings
from tuning_registry.db.store import Store
from tuning_registry.db.url import shown_url
from tuning_registry.model.globs import matches_kernel
from tuning_registry.model.selection import MISSING, Selection
from tuning_registry.operations.runs import list_runs
from tuning_registry.rules.similar_names import similar_names
from tuning_registry.wording import list_some


def what_there_is(store: Store, kernel: str | None = None) -> str:
    """One line for a query that matched nothing: what the filters could name, and kernels with a similar name."""
    with store.reading() as reading:
        archs = sorted({row["arch"] for row in reading.rows(queries.recordings.archs_recorded(Selection()))})
        facts = reading.rows(queries.recordings.facts(Selection()))
        withdrawn = {row["run"] for row in reading.rows(queries.recordings.of_all_runs()) if row["withdrawn_at"]}
        kernels = sorted({name for arch in archs for name in reading.scalars(queries.entries.kernels(arch))})
    parts = {
        "archs": archs,
        "triton": sorted({row["triton"] or MISSING for row in facts}),
        "runs": list(dict.fromkeys(row["run"] for row in reversed(facts))),
    }
    similar = similar_names(kernel, kernels) if kernel else []
    if similar and not any(matches_kernel(str(kernel), name) for name in kernels):
        parts["similar kernels"] = similar
    there = "; ".join(f"{name}: {list_some(found)}" for name, found in parts.items())
    return there + (f" (withdrawn: {len(withdrawn)})" if withdrawn else "")


def describe_status(store: Store) -> dict[str, Any]:
    """Database, revisions, row counts, architectures and versions; only the revisions if there is no registry."""
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
