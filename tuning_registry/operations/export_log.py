"""The log of exported tables: from the digest in a training log back to the votes."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.store import Store
from tuning_registry.errors import UsageError
from tuning_registry.model.canonical import dump_json
from tuning_registry.model.names import normal_arch
from tuning_registry.model.selection import Selection, check_option
from tuning_registry.operations.export import Export, ExportOptions

WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class ExportRecord:
    """One table that was written.

    Attributes:
        digest: The table's digest, as it stands in the file and in training logs.
        arch: Architecture.
        policy: Policy.
        filters: What it was asked for, where not the default: the selection and the options.
        runs: The runs whose votes it is made of.
        entries: Entries in it.
        recordings: Recordings whose votes it is made of.
        output: Where to, as it was given.
        exported_by: Who.
        exported_at: UTC, ISO 8601.
    """

    digest: str
    arch: str
    policy: str
    filters: Mapping[str, Any]
    runs: tuple[str, ...]
    entries: int
    recordings: int
    output: str
    exported_by: str
    exported_at: str


def remember_export(store: Store, made: Export, selection: Selection, options: ExportOptions, *, output: str,
                    exported_by: str, now: dt.datetime) -> None:  # fmt: skip
    """Note in the database that a table was written; does not wait long for another writer to end.

    Raises:
        DatabaseError: The database cannot be written; the table stands all the same.
    """
    ours = made.payload["tuning_registry"]
    with Store(store.url, WAIT_S).writing() as transaction:
        transaction.insert_export(
            {
                "table_digest": ours["digest"],
                "arch": made.payload["arch"],
                "policy": ours["policy"],
                "filters": dump_json(_filters(selection, options)),
                "runs": dump_json(ours["runs"]),
                "entry_count": made.entries,
                "recording_count": ours["recordings"],
                "output": output,
                "exported_by": exported_by,
                "exported_at": now.astimezone(dt.UTC).isoformat(timespec="microseconds"),
            }
        )


def list_exports(store: Store, digest: str | None = None, arch: str | None = None) -> list[ExportRecord]:
    """Tables that were written, newest first.

    Args:
        store: The database.
        digest: Only tables with this digest, or whose digest begins so.
        arch: Only of this architecture.

    Raises:
        UsageError: An empty digest or architecture, or text that no database can hold.
        DatabaseError: The database cannot be read.
    """
    for name, text in (("digest", digest), ("arch", arch)):
        if text is not None and not check_option(name, text).strip():
            raise UsageError(f"--{name} is empty")
    with store.reading() as reading:
        rows = reading.rows(queries.exports.made(digest and digest.strip().lower(), arch and normal_arch(arch)))
    return [
        ExportRecord(
            row["table_digest"], row["arch"], row["policy"], json.loads(row["filters"]), tuple(json.loads(row["runs"])),
            row["entry_count"], row["recording_count"], row["output"], row["exported_by"], row["exported_at"],
        )
        for row in rows
    ]  # fmt: skip


def _filters(selection: Selection, options: ExportOptions) -> dict[str, Any]:
    """What narrows or changes a table, by the names of the command's options; defaults left out."""
    said = {
        "run": list(selection.runs),
        "source": selection.source,
        "triton": selection.triton,
        "package": dict(selection.packages),
        "min_votes": options.min_votes if options.min_votes != 1 else None,
        "min_agreement": options.min_agreement or None,
        "generalize": options.generalize_percent,
        "max_regression": options.max_regression_percent,
    }
    return {name: value for name, value in said.items() if value not in (None, [], {})}
