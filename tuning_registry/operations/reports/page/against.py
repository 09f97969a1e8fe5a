"""What changed since another table or run, and in which environments either was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading, Row
from tuning_registry.db.store import Store
from tuning_registry.formats.table import TunedTable
from tuning_registry.formats.table_header import EXTRA
from tuning_registry.locations import is_url
from tuning_registry.model.globs import matches_kernel
from tuning_registry.model.selection import Selection
from tuning_registry.operations.reports.page.report import Comparison
from tuning_registry.operations.runs import list_runs
from tuning_registry.operations.tables.differences import compare_with_votes, table_or_run
from tuning_registry.rules.near_keys import matching_keys
from tuning_registry.wording import list_some

Environments = dict[str, str]
_HARDWARE = {
    "driver": "driver",
    "cuda": "CUDA",
    "ptxas": "ptxas",
    "sm_clock_mhz": "SM clock (MHz)",
    "memory_clock_mhz": "memory clock (MHz)",
    "power_limit_w": "power limit (W)",
}


def environments_of(reading: Reading, selection: Selection) -> list[tuple[str, str]]:
    """`(what, values)` of the environments that the counting recordings state: what none states is left out."""
    facts = reading.rows(queries.recordings.facts(selection))
    hardware = reading.rows(queries.recordings.hardware_of(selection))
    return [(what, text) for what, text in _environments(facts, hardware).items() if text]


def _environments(facts: Iterable[Row], hardware: Iterable[Row]) -> Environments:
    facts, hardware = list(facts), list(hardware)
    packages = {
        f"{name} {version}" for text in {row["packages"] for row in facts} for name, version in json.loads(text).items()
    }
    return {
        "runs": list_some(list(dict.fromkeys(row["run"] for row in facts))),
        "recordings": f"{len(facts):,}",
        "hosts": _counted(row["host"] for row in facts),
        "devices": _counted(row["device_name"] for row in facts),
        "Triton": _distinct(row["triton"] for row in facts),
        "packages": ", ".join(sorted(packages)),
        "source": _distinct(row["source"] for row in facts),
        **{what: _distinct(row[column] for row in hardware) for column, what in _HARDWARE.items()},
    }


def _distinct(values: Iterable[Any]) -> str:
    found = sorted({str(value) for value in values if value not in (None, "")})
    return list_some(found) if found else ""


def _counted(values: Iterable[str | None]) -> str:
    """Each value with how many recordings state it, the most frequent first."""
    counts: dict[str, int] = {}
    for value in values:
        if value:
            counts[value] = counts.get(value, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return list_some([f"{name} × {number:,}" for name, number in ordered]) if ordered else ""  # noqa: RUF001


def compare_with(store: Store, name: str, selection: Selection, key: str | None = None) -> Comparison:
    """What an export of the selection would change in a table, or in the table of a run.

    Args:
        store: The database.
        name: Table file or its URL, or name of a run.
        selection: Which votes to compare with, and of which kernels.
        key: Only changes of this key, or of keys that match this pattern.

    Raises:
        SelectionError: There is no such table or run, or the votes cannot be compared with it.
        FileError, TableError: The table cannot be read.
        DatabaseError: The database cannot be read.
    """
    table = table_or_run(store, name, selection.arch)
    compared = compare_with_votes(store, table, selection, as_logged=False)
    is_run = not is_url(name) and not Path(name).is_file() and any(run.name == name for run in list_runs(store))
    changes = [one for one in compared.changes if not one.is_served_alike and _is_wanted(one.kernel, selection.kernel)]
    wanted = None if key is None else matching_keys(key, (change.key for change in changes))
    with store.reading() as reading:
        now = dict(environments_of(reading, compared.selection))
        before = dict(environments_of(reading, Selection(runs=(name,)))) if is_run else _stated_by(table)
    shown = [what for what in {**before, **now} if is_run or what in before or what in {"Triton", "packages"}]
    return Comparison(
        name=name if is_run else Path(name).name,
        votes=compared.compared_with(),
        changes=[change for change in changes if wanted is None or change.key in wanted],
        entries=compared.entries,
        environments=[(what, before.get(what, ""), now.get(what, "")) for what in shown],
    )


def _is_wanted(kernel: str, asked: str | None) -> bool:
    return asked is None or matches_kernel(asked, kernel)


def _stated_by(table: TunedTable) -> Environments:
    """What a table states about the recordings that it comes from."""
    ours: Mapping[str, Any] = table.provenance.get(EXTRA) or {}
    runs, recordings = ours.get("runs"), ours.get("recordings")
    stated = {
        "runs": list_some(list(map(str, runs))) if isinstance(runs, list) and runs else "",
        "recordings": f"{recordings:,}" if isinstance(recordings, int) else "",
        "Triton": str(table.provenance.get("triton") or ""),
        "packages": ", ".join(f"{package} {version}" for package, version in sorted(table.packages.items())),
        "source": str(table.provenance.get("source") or ""),
    }
    return {what: text for what, text in stated.items() if text}
