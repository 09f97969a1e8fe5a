"""`registry diff` and `check`: what sets tables apart, and whether one is still what the votes say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuning_registry.cli.console import print_data, say
from tuning_registry.cli.opening import open_store, selection_of
from tuning_registry.cli.options import (
    Db,
    FormatOption,
    PackageFilter,
    RunFilter,
    SourceFilter,
    TritonFilter,
)
from tuning_registry.errors import DatabaseError, printable
from tuning_registry.formats.table import TunedTable, read_table
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.differences import render_changes
from tuning_registry.wording import count_of

if TYPE_CHECKING:
    from tuning_registry.db.store import Store
    from tuning_registry.model.selection import Selection
    from tuning_registry.operations.differences import TableComparison
    from tuning_registry.rules.table_diff import EntryChange


def diff(
    ctx: typer.Context,
    old: Annotated[Path, typer.Argument(metavar="A", help="A table file.")],
    new: Annotated[
        Path | None, typer.Argument(metavar="B", help="Another; without it, what the database would export now.")
    ] = None,
    run: RunFilter = None,
    source: SourceFilter = None,
    triton: TritonFilter = None,
    package: PackageFilter = None,
    style: FormatOption = Format.table,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 1 when the tables differ.")] = False,
    db: Db = None,
) -> None:
    """Show what changed between two tables, or between a table and the votes, and the evidence for each change."""
    table = read_table(old)
    selection = selection_of(None, None, run, source, triton, package)
    other = printable(str(new)) if new is not None else "what the votes say now"
    if new is not None:
        found = _between_files(ctx, db, table, read_table(new), selection)
    else:
        from tuning_registry.operations.differences import compare_with_votes

        compared = compare_with_votes(open_store(ctx, db), table, selection)
        say(_how_compared(compared))
        found = compared.changes
    print_data(render_changes(found, style))
    counts = [
        f"{number:,} {what}"
        for what in ("added", "dropped", "changed")
        if (number := sum(one.change == what for one in found))
    ]
    alike = sum(one.is_served_alike for one in found)
    note = f"; {alike:,} of them served alike by wider entries, not shown" if alike and style is Format.table else ""
    say(f"{printable(str(old))} and {other}: {', '.join(counts) or 'the same entries'}{note}")
    if exit_code and found:
        raise typer.Exit(1)


def _between_files(
    ctx: typer.Context, db: str | None, old: TunedTable, new: TunedTable, selection: Selection
) -> list[EntryChange]:
    from tuning_registry.operations.differences import compare_tables

    pairs = {
        "triton": (old.provenance.get("triton") or None, new.provenance.get("triton") or None),
        "packages": (old.packages or None, new.packages or None),
    }
    for name, (before, after) in pairs.items():
        if before != after:
            say(printable(f"note: {name}: {before or 'not stated'} -> {after or 'not stated'}"))
    try:
        return compare_tables(old, new, _evidence(open_store(ctx, db)), selection)
    except DatabaseError as error:  # two files can be compared without it
        say(f"note: no votes and timings beside the changes: {error}")
        return compare_tables(old, new, None, selection)


def _evidence(store: Store) -> Store | None:
    if store.revision() is not None:
        return store
    say("note: there is no registry here: no votes and timings beside the changes")
    return None


def _how_compared(compared: TableComparison) -> str:
    return printable(f"compared with {compared.compared_with()}")


def check(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="TABLE", help="A table file.")],
    run: RunFilter = None,
    source: SourceFilter = None,
    triton: TritonFilter = None,
    package: PackageFilter = None,
    db: Db = None,
) -> None:
    """Check that a table still holds: votes, overrides, staleness, versions, digest; exit 1 and name what does not."""
    from tuning_registry.operations.checking import check_table

    table = read_table(path)
    store = open_store(ctx, db)
    found = check_table(store, table, selection_of(None, None, run, source, triton, package))
    for note in found.notes:
        say(f"note: {note}")
    print_data("".join(f"{problem}\n" for problem in found.problems))
    name = printable(str(path))
    if found.compared is not None:
        say(_how_compared(found.compared))
    if found.problems:
        say(f"{name}: {count_of(len(found.problems), 'problem')}")
        raise typer.Exit(1)
    say(f"{name}: {found}")
