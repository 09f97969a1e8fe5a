"""`registry export` and `merge`: the canonical table of an architecture."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuning_registry.cli.console import count_of, print_data, say, track_files, write_stdout
from tuning_registry.cli.opening import open_store, selection_of
from tuning_registry.cli.options import (
    ArchFilter,
    Db,
    ExitCode,
    FormatOption,
    PackageFilter,
    Paths,
    Policy,
    PolicyOption,
    RunFilter,
    SourceFilter,
    StatedTriton,
    TritonFilter,
)
from tuning_registry.errors import DatabaseError, UsageError, printable
from tuning_registry.formats.files import write_atomically
from tuning_registry.formats.table import TunedTable, read_table
from tuning_registry.model.selection import Selection
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.overrides import render_exports

if TYPE_CHECKING:
    from tuning_registry.db.store import Store
    from tuning_registry.operations.export import Export, ExportOptions


def export(
    ctx: typer.Context,
    arch: Annotated[str, typer.Option("--arch", metavar="ARCH", help="Architecture of the table.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to; - or nothing: stdout.")
    ] = None,
    policy: PolicyOption = Policy.majority,
    generalize: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", help="One * entry per kernel, accepting this slowdown; others keep their own."),
    ] = None,
    max_regression: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", help="Refuse to slow down an entry of the table in FILE by more than this."),
    ] = None,
    run: RunFilter = None,
    source: SourceFilter = None,
    triton: TritonFilter = None,
    package: PackageFilter = None,
    min_votes: Annotated[int, typer.Option(metavar="N", help="Leave out entries with fewer votes.")] = 1,
    min_agreement: Annotated[
        float, typer.Option(metavar="SHARE", help="Leave out entries whose winner has a smaller share, 0 to 1.")
    ] = 0.0,
    db: Db = None,
) -> None:
    """Write the canonical table of one architecture: the config that each entry gets."""
    from tuning_registry.operations.export import ExportOptions, export_table

    store = open_store(ctx, db)
    selection = selection_of(arch, None, run, source, triton, package)
    options = ExportOptions(
        min_votes,
        min_agreement,
        policy.value,
        generalize,
        max_regression,
        _replaced_table(output) if max_regression is not None else None,
    )
    made = export_table(store, selection, options)
    write_export(made, output)
    if not _is_stdout(output):
        _remember(store, made, selection, options, str(output))


def _is_stdout(output: Path | None) -> bool:
    # /dev/stdout may lead to a file (`>> log`), which is to be written to and not replaced.
    return output is None or str(output) in {"-", "/dev/stdout"}


def _replaced_table(output: Path | None) -> TunedTable | None:
    """The table in the file that is about to be replaced; None where there is no file yet."""
    if output is None or _is_stdout(output):
        raise UsageError("--max-regression compares with the table in -o FILE; name that file")
    there = os.path.exists(output)  # noqa: PTH110  # false where Path.exists raises; writing then says why
    return read_table(output) if there else None


def _remember(store: Store, made: Export, selection: Selection, options: ExportOptions, output: str) -> None:
    """Note the export in the database; whoever may only read exports all the same."""
    from tuning_registry.operations.authors import current_user
    from tuning_registry.operations.export_log import remember_export

    try:
        remember_export(store, made, selection, options, output=printable(output),
                        exported_by=current_user(), now=dt.datetime.now(dt.UTC))  # fmt: skip
    except DatabaseError as error:
        say(f"note: the table is written, but registry exports will not know of it: {error}")


def merge(
    paths: Paths,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to; - for stdout.")],
    arch: Annotated[str | None, typer.Option(metavar="ARCH", help="Architecture, if the files hold several.")] = None,
    source: Annotated[str, typer.Option(metavar="TEXT", help="Text for the table's source.")] = "",
    triton: StatedTriton = None,
) -> None:
    """Merge recordings into a table in one go, without a database file."""
    from tuning_registry.operations.export import ExportOptions, export_table, only_arch
    from tuning_registry.operations.ingest.ingest import IngestOptions
    from tuning_registry.operations.ingest.merge import ingest_in_memory

    store = ingest_in_memory(paths, IngestOptions(triton=triton), track_files)
    selection = Selection(arch=arch or only_arch(store))
    write_export(export_table(store, selection, ExportOptions(source=source or None)), output)


def exports(
    ctx: typer.Context,
    digest: Annotated[
        str | None, typer.Option("--digest", metavar="HEX", help="Only tables whose digest is, or begins with, this.")
    ] = None,
    arch: ArchFilter = None,
    style: FormatOption = Format.table,
    exit_code: ExitCode = False,
    db: Db = None,
) -> None:
    """List the tables that were written, newest first: from a digest in a log back to the votes."""
    from tuning_registry.operations.export_log import list_exports

    found = list_exports(open_store(ctx, db), digest, arch)
    print_data(render_exports(found, style))
    say(count_of(len(found), "export"))
    if exit_code:
        raise typer.Exit(1)


def write_export(made: Export, output: Path | None) -> None:
    from tuning_registry.operations.export import UNKNOWN_DEVICE

    if output is None or _is_stdout(output):
        where = "stdout"
        write_stdout(made.data)
    else:
        where = printable(str(output))
        write_atomically(output, made.data)
    devices = ", ".join(f"{printable(name)} x {count}" for name, count in made.devices.items())
    on = f" on {devices}" if set(made.devices) != {UNKNOWN_DEVICE} else ""
    say(
        f"wrote {count_of(made.entries, 'entry')} to {where}: {made.disagreements:,} had disagreement "
        f"({made.ties:,} decided by tie-break), {made.dropped:,} dropped by thresholds"
    )
    notes = {
        "decided by a pin (registry overrides)": made.pinned,
        "decided without configs that are banned (registry overrides)": made.with_bans,
        "left out, every config being banned": made.banned_out,
        "without timings that decide: the majority's config": made.undecided,
        "with votes from other candidates than the newest recording had (registry winners marks them stale)": made.stale,
    }
    for what, count in notes.items():
        if count:
            say(f"note: {count_of(count, 'entry')} {what}")
    if made.saving is not None:
        say(f"* entries for {count_of(made.saving.kernels, 'kernel')} saved {count_of(made.saving.saved, 'entry')}; the worst "
            f"slowdown they accept is {made.saving.worst_percent:.2f} %")  # fmt: skip
    say(f"from {count_of(made.payload['tuning_registry']['recordings'], 'recording')}{on}; "
         f"digest {made.payload['tuning_registry']['digest'][:16]}")  # fmt: skip
