"""`registry export` and `merge`: the canonical table of an architecture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuning_registry.cli.console import count_of, say, track_files, write_stdout
from tuning_registry.cli.opening import open_store, selection_of
from tuning_registry.cli.options import (
    Db,
    PackageFilter,
    Paths,
    RunFilter,
    SourceFilter,
    StatedTriton,
    TritonFilter,
)
from tuning_registry.errors import printable
from tuning_registry.files import write_atomically
from tuning_registry.selection import Selection

if TYPE_CHECKING:
    from tuning_registry.operations.export import Export


def export(
    ctx: typer.Context,
    arch: Annotated[str, typer.Option("--arch", metavar="ARCH", help="Architecture of the table.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to; - or nothing: stdout.")
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
    """Write the canonical table of one architecture: the majority's config for every entry."""
    from tuning_registry.operations.export import Thresholds, export_table

    store = open_store(ctx, db)
    selection = selection_of(arch, None, run, source, triton, package)
    write_export(export_table(store, selection, Thresholds(min_votes, min_agreement)), output)


def merge(
    paths: Paths,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to; - for stdout.")],
    arch: Annotated[str | None, typer.Option(metavar="ARCH", help="Architecture, if the files hold several.")] = None,
    source: Annotated[str, typer.Option(metavar="TEXT", help="Text for the table's source.")] = "",
    triton: StatedTriton = None,
) -> None:
    """Merge recordings into a table in one go, without a database file."""
    from tuning_registry.operations.export import export_table, only_arch
    from tuning_registry.operations.ingest import IngestOptions
    from tuning_registry.operations.merge import ingest_in_memory

    store = ingest_in_memory(paths, IngestOptions(triton=triton), track_files)
    selection = Selection(arch=arch or only_arch(store))
    write_export(export_table(store, selection, source=source or None), output)


def write_export(made: Export, output: Path | None) -> None:
    from tuning_registry.operations.export import UNKNOWN_DEVICE

    # /dev/stdout may lead to a file (`>> log`), which is to be written to and not replaced.
    if output is None or str(output) in {"-", "/dev/stdout"}:
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
    say(f"from {count_of(made.payload['tuning_registry']['recordings'], 'recording')}{on}; "
         f"digest {made.payload['tuning_registry']['digest'][:16]}")  # fmt: skip
