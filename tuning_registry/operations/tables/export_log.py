"""The log of exported tables, which leads from a digest in a training log back to the votes."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from tuning_registry.db import queries
from tuning_registry.db.store import Store
from tuning_registry.errors import UsageError, printable
from tuning_registry.model.canonical import dump_json
from tuning_registry.model.names import normal_arch
from tuning_registry.model.results import Result
from tuning_registry.model.selection import Selection, check_option
from tuning_registry.operations.tables.export import ExportOptions
from tuning_registry.operations.tables.exported import Export
from tuning_registry.rules.evidence import Ties
from tuning_registry.wording import count_of

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
WAIT_S = 2.0  # the table is written already, so the log is not worth a longer wait


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExportRecord(Result):
    """One table that was written.

    Attributes:
        digest: The table's digest, as in the file.
        selection_digest: Its selection digest, as in training logs and checkpoints. It also covers bans and evidence.
            None if the table was exported by an earlier version, which did not log it.
        arch: Architecture.
        policy: Policy.
        filters: The filters and options of the export that differ from the default.
        runs: The runs whose votes it was made from.
        entries: Entries in it.
        recordings: Number of recordings whose votes it was made from.
        output: The output file, as it was given.
        exported_by: Who exported it.
        exported_at: UTC, ISO 8601.
    """

    digest: str
    selection_digest: str | None = None
    arch: str
    policy: str
    filters: Mapping[str, Any]
    runs: tuple[str, ...]
    entries: int
    recordings: int
    output: str
    exported_by: str
    exported_at: str

    def is_stated_by(self, header: Mapping[str, Any]) -> bool:
        """Whether the `tuning_registry` object of a table states the policy, runs and recordings of this export."""
        stated = (header.get("policy"), header.get("runs"), header.get("recordings"))
        return stated == (self.policy, list(self.runs), self.recordings)

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON holds it."""
        return {**asdict(self), "runs": list(self.runs)}

    def __str__(self) -> str:
        """One readable line."""
        return printable(
            f"{(self.selection_digest or self.digest)[:16]} {self.arch} ({count_of(self.entries, 'entry')}) to {self.output}, "
            f"{self.exported_at[:19]} by {self.exported_by}"
        )


def remember_export(store: Store, made: Export, selection: Selection, options: ExportOptions, *, output: str,
                    exported_by: str, now: dt.datetime) -> None:  # fmt: skip
    """Record in the database that a table was written; waits only briefly for another writer.

    Raises:
        DatabaseError: The database cannot be written.
    """
    ours = made.payload["tuning_registry"]
    with Store(store.url, WAIT_S).writing() as transaction:
        transaction.insert_export(
            {
                "table_digest": made.digest,
                "selection_digest": made.selection_digest,
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
        digest: Only tables whose digest or selection digest is, or begins with, this.
        arch: Only tables of this architecture.

    Raises:
        UsageError: The digest or architecture is empty, or text that no database can hold.
        DatabaseError: The database cannot be read.
    """
    for name, text in (("digest", digest), ("arch", arch)):
        if text is not None and not check_option(name, text).strip():
            raise UsageError(f"--{name} is empty")
    with store.reading() as reading:
        rows = reading.rows(queries.exports.made(digest and digest.strip().lower(), arch and normal_arch(arch)))
    return [
        ExportRecord(
            digest=row["table_digest"],
            selection_digest=row["selection_digest"],
            arch=row["arch"],
            policy=row["policy"],
            filters=json.loads(row["filters"]),
            runs=tuple(json.loads(row["runs"])),
            entries=row["entry_count"],
            recordings=row["recording_count"],
            output=row["output"],
            exported_by=row["exported_by"],
            exported_at=row["exported_at"],
        )
        for row in rows
    ]


# See docs/decisions.md, D77.
def exports_of(store: Store, arch: str, digests: Iterable[str]) -> list[ExportRecord]:
    """The exports of a table, newest first, by the first of its digests that the log has.

    Args:
        store: The database.
        arch: Architecture.
        digests: The selection digest first, then that of the entries, which older logs have. Not whole ones are ignored.
    """
    for digest in digests:
        # The log also accepts the beginning of a digest, but a table states a whole one or none that is known.
        found = list_exports(store, digest, arch) if _DIGEST.fullmatch(digest) else []
        if found:
            return found
    return []


def _filters(selection: Selection, options: ExportOptions) -> dict[str, Any]:
    """The filters and options that shape a table, by the names of the command's options; defaults left out."""
    given = {
        "run": list(selection.runs),
        "source": selection.source,
        "triton": selection.triton,
        "package": dict(selection.packages),
        "device": selection.device,
        "curated": True if selection.curated else None,
        "min_votes": options.min_votes if options.min_votes != 1 else None,
        "min_agreement": options.min_agreement or None,
        "ties": str(options.ties) if options.ties != Ties.TEXT else None,
        "no_evidence": None if options.evidence else True,
        "generalize": options.generalize_percent,
        "max_regression": options.max_regression_percent,
        "same_bits_as": None if options.same_bits_as is None else options.same_bits_as.digest,
    }
    return {name: value for name, value in given.items() if value not in (None, [], {})}
