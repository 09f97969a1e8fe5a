"""The changes between two tables, or between a table and the votes, with the evidence for each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tuning_registry.db import queries
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError, TableError, printable
from tuning_registry.formats.stores import place_of
from tuning_registry.formats.table import TunedTable, read_table
from tuning_registry.formats.table_header import EXTRA
from tuning_registry.model.results import Result
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.same_bits import SameBits
from tuning_registry.operations.election.winners import elect_entries
from tuning_registry.operations.runs import list_runs
from tuning_registry.operations.tables.change_evidence import with_evidence
from tuning_registry.operations.tables.export import ExportOptions, export_table
from tuning_registry.operations.tables.export_log import exports_of
from tuning_registry.operations.tables.exported import Export
from tuning_registry.operations.tables.how_made import how_made, table_held_to
from tuning_registry.rules.table_diff import EntryChange, diff_tables, other_changes
from tuning_registry.wording import count_of, list_some

NEVER: Final = "0001-01-01"  # a day on which no override has expired: a comparison writes no table


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableComparison(Result):
    """A table compared with the one that the votes give now.

    Attributes:
        changes: The changes that an export would make.
        other_changes: What else would change launches: bans and evidence, one line each.
        entries: Entries of the table that would be exported.
        selection: The votes that were compared with.
        logged_at: When the table was exported with these filters, by the log; None if the log does not know it.
        new: The table that would be exported.
    """

    changes: list[EntryChange]
    other_changes: list[str]
    entries: int
    selection: Selection
    logged_at: str | None
    new: TunedTable

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON holds it."""
        return {
            "changes": [change.to_dict() for change in self.changes],
            "other_changes": self.other_changes,
            "entries": self.entries,
            "logged_at": self.logged_at,
            "new_digest": self.new.digest,
            "new_selection_digest": self.new.selection_digest,
        }

    def __str__(self) -> str:
        """One readable line."""
        return printable(f"{count_of(len(self.changes), 'change')} against {self.compared_with()}")

    def compared_with(self) -> str:
        """The votes that were compared with, in words."""
        chosen = self.selection
        filters = {
            "run": ", ".join(chosen.runs),
            "source": chosen.source,
            "triton": chosen.triton,
            "package": ", ".join(f"{name}={version}" for name, version in chosen.packages.items()),
            "device": chosen.device,
        }
        shown = "; ".join(f"{name} {value}" for name, value in filters.items() if value)
        if not self.logged_at:
            return shown or "all votes"
        return f"{shown or 'all votes'}, like the export of {self.logged_at[:10]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Votes:
    """The votes that a table is compared with, and the thresholds of its export."""

    selection: Selection
    min_votes: int = 1
    min_agreement: float = 0.0
    logged_at: str | None = None


def compare_tables(old: TunedTable, new: TunedTable, store: Store | None, selection: Selection) -> list[EntryChange]:
    """The changes between two tables; with a database, with its votes and timings for each.

    Args:
        old: The earlier table.
        new: The later table.
        store: The database that has the evidence; None to compare without.
        selection: Which votes are evidence.

    Raises:
        TableError: The tables are for two architectures.
        DatabaseError: The database cannot be read.
    """
    if old.arch != new.arch:
        raise TableError(f"the tables are for different architectures: {old.arch} and {new.arch}")
    changes = diff_tables(old, new)
    if store is None or not changes:
        return changes
    with store.reading() as reading:
        election = elect_entries(reading, replace(selection, arch=old.arch), every_choice=True)
        return with_evidence(changes, election, old.arch, new.provenance.get("triton"))


# See docs/decisions.md, D36.
def compare_with_votes(
    store: Store,
    table: TunedTable,
    selection: Selection,
    *,
    as_logged: bool = True,
    same_bits_as: TunedTable | None = None,
) -> TableComparison:
    """The changes that a new export would make to a table.

    The table itself states its policy, its rule for ties, and whether it has evidence and generated `*` entries. Votes
    and thresholds are those of `selection` if it has a filter, else those in the log of exports for the table's digest,
    else all votes. If these votes are of several versions, only those of the versions that the table states. Expired
    overrides apply.

    Args:
        store: The database.
        table: The table.
        selection: Which votes to compare with.
        as_logged: Whether the log of exports may name the votes; otherwise `selection` does, even without a filter.
        same_bits_as: The table whose bits this one was held to. Without it, configs that give the bits of this table
            are allowed.

    Raises:
        TableError: The table's provenance holds what no export writes, or it was not held to the bits of
            `same_bits_as`.
        SelectionError: Nothing can be exported, or only after choosing a version.
        DatabaseError: The database cannot be read.
    """
    how = how_made(table)
    held_to = table_held_to(table, same_bits_as) if how.same_bits or same_bits_as is not None else None
    given = _Votes(selection=replace(selection, arch=table.arch))
    votes = _votes_behind(store, table, selection) if as_logged else given
    options = ExportOptions(
        min_votes=votes.min_votes,
        min_agreement=votes.min_agreement,
        policy=how.policy,
        ties=how.ties,
        evidence=how.evidence,
        generalize_percent=how.generalize_percent,
        same_bits_as=held_to,
        today=NEVER,
    )
    made = export_table(store, votes.selection, options)
    new = _table_of(made)
    changes = diff_tables(table, new)
    if changes:
        with store.reading() as reading:
            election = elect_entries(
                reading,
                votes.selection,
                how.policy,
                how.ties,
                every_choice=True,
                same_bits=None if held_to is None else SameBits(held_to),
            )
            changes = with_evidence(changes, election, table.arch)
    return TableComparison(
        changes=changes,
        other_changes=other_changes(table, new),
        entries=made.entries,
        selection=votes.selection,
        logged_at=votes.logged_at,
        new=new,
    )


def table_or_run(store: Store, name: str, arch: str | None = None) -> TunedTable:
    """The table in a file; or, if there is no such file, the table that the votes of one run would give.

    Args:
        store: The database that has the run. Not read if there is a file.
        name: Path or URL of a table, or name of a run.
        arch: Architecture of the run's table; None if the run recorded only one.

    Raises:
        FileError: The file cannot be read.
        TableError: The file is not a table.
        SelectionError: There is neither a file nor a run of this name, or the run recorded several architectures.
        DatabaseError: The database cannot be read.
    """
    if os.path.exists(name):  # noqa: PTH110  # false where Path.exists raises
        return read_table(Path(name))
    if "/" in name or name.endswith(".json") or store.revision() is None:
        return read_table(place_of(name))  # names the file that is missing
    archs = {one for run in list_runs(store) if run.name == name for one in run.archs}
    if not archs:
        raise SelectionError(f"{name}: no table file or run has this name; registry runs lists the runs")
    if arch is None and len(archs) > 1:
        raise SelectionError(f"run {name} has votes on {list_some(sorted(archs))}; choose an architecture with --arch")
    selection = Selection(arch=arch or archs.pop(), runs=(name,))
    made = export_table(store, selection, ExportOptions(today=NEVER))
    return _table_of(made)


def _table_of(made: Export) -> TunedTable:
    """An exported table as it would be read back."""
    provenance = {name: value for name, value in made.payload.items() if name not in {"arch", "kernels"}}
    return TunedTable(made.payload["arch"], made.payload["kernels"], provenance)


def stated_digest(table: TunedTable, name: str = "digest") -> str | None:
    """The digest, or the `selection_digest`, in a table's provenance; None if it states none."""
    ours = table.provenance.get(EXTRA)
    digest = ours.get(name) if isinstance(ours, dict) else None
    return digest if isinstance(digest, str) else None


def _votes_behind(store: Store, table: TunedTable, asked: Selection) -> _Votes:
    given = replace(asked, arch=table.arch)
    if given != Selection(arch=table.arch):
        return _Votes(selection=given)
    stated = [(stated_digest(table, name) or "").strip() for name in ("selection_digest", "digest")]
    logged = exports_of(store, table.arch, stated if any(stated) else [table.selection_digest, table.digest])
    if not logged:
        return _Votes(selection=_of_stated_versions(store, table, given))
    header: Mapping[str, Any] = table.provenance.get(EXTRA) or {}
    export = next((one for one in logged if one.is_stated_by(header)), logged[0])
    filters = export.filters
    selection = Selection(
        arch=table.arch,
        runs=tuple(filters.get("run", ())),
        source=filters.get("source"),
        triton=filters.get("triton"),
        packages=filters.get("package", {}),
        device=filters.get("device"),
        curated=filters.get("curated", False),
    )
    return _Votes(
        selection=_of_stated_versions(store, table, selection),
        min_votes=filters.get("min_votes", 1),
        min_agreement=filters.get("min_agreement", 0.0),
        logged_at=export.exported_at,
    )


def _of_stated_versions(store: Store, table: TunedTable, selection: Selection) -> Selection:
    """The selection, without the votes of other versions than the table states if it has votes of several.

    A table holds for one version of Triton and of each package, so votes of other versions say nothing about it.
    """
    with store.reading() as reading:
        counting = set(reading.environments_that_count(selection))
        rows = list(reading.bulk(queries.environments.version_groups()))
    triton = {version for environment, version, *_ in rows if environment in counting}
    owners: dict[str, set[str]] = {}
    for environment, _, _, package, version in rows:
        if environment in counting and package is not None:
            owners.setdefault(package, set()).add(version)
    stated = table.provenance.get("triton")
    packages = {
        name: version
        for name, version in table.packages.items()
        if version in owners.get(name, ()) and len(owners[name]) > 1
    }
    return replace(
        selection,
        triton=stated if selection.triton is None and stated in triton and len(triton) > 1 else selection.triton,
        packages={**packages, **selection.packages},
    )
