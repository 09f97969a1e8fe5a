"""The panel "Without a database": recordings to a table or a report in one step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuning_registry.cli.commands import command
from tuning_registry.cli.console import print_data, print_message, track_files
from tuning_registry.cli.options import ExitCode, FormatOption, Paths, StatedTriton
from tuning_registry.cli.tables import write_export
from tuning_registry.cli.votes import split_of
from tuning_registry.model.selection import Selection
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.votes import render_disagreements


@command(examples=("registry merge 'recordings/rec.rank*.json' -o sm90.json --triton 3.6.0",))
def merge(
    paths: Paths,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Output file, or - for stdout.")],
    arch: Annotated[
        str | None, typer.Option(metavar="ARCH", help="Architecture of the table, if the files hold several.")
    ] = None,
    source: Annotated[str, typer.Option(metavar="TEXT", help="Text for the table's source field.")] = "",
    triton: StatedTriton = None,
) -> None:
    """Merge recordings into a table."""
    from tuning_registry.operations.export import ExportOptions, export_table, only_arch
    from tuning_registry.operations.ingest.ingest import IngestOptions, ingest_in_memory

    store = ingest_in_memory(paths, IngestOptions(triton=triton), track_files)
    selection = Selection(arch=arch or only_arch(store))
    write_export(export_table(store, selection, ExportOptions(source=source or None)), output)


@command(examples=("registry report recordings", "registry report 'recordings/rec.rank*.json' --format csv"))
def report(paths: Paths, style: FormatOption = Format.table, exit_code: ExitCode = False) -> None:
    """Report the disagreements among recordings."""
    from tuning_registry.operations.ingest.ingest import ingest_in_memory
    from tuning_registry.operations.votes import find_disagreements

    store = ingest_in_memory(paths, track=track_files)
    found, total = find_disagreements(store, Selection())
    print_data(render_disagreements(found, style))
    print_message(split_of(len(found), total) if total else "the files contain no votes")
    if exit_code and (found or not total):
        raise typer.Exit(1)
