"""The panel "Without a database": a table from recordings in one step, and the form of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuning_registry.cli.commands import command
from tuning_registry.cli.console import is_stdout, print_data, print_message
from tuning_registry.cli.options import FormatOption, Paths, StatedTriton
from tuning_registry.cli.progress import show_progress
from tuning_registry.cli.tables import write_export
from tuning_registry.errors import printable
from tuning_registry.formats.plugins import Plugins
from tuning_registry.formats.table_problems import validate_table
from tuning_registry.model.selection import Selection
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.sources import render_formats
from tuning_registry.rendering.validation import render_problems
from tuning_registry.wording import count_of


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
    from tuning_registry.operations.ingest.ingest import IngestOptions, ingest_in_memory
    from tuning_registry.operations.tables.export import ExportOptions, export_table, only_arch

    with show_progress("counting votes") as work:
        store = ingest_in_memory(paths, IngestOptions(triton=triton), work.track)
    selection = Selection(arch=arch or only_arch(store))
    options = ExportOptions(source=source or None, evidence=False, compile_data=not is_stdout(output))
    write_export(export_table(store, selection, options), output)


@command(examples=("registry formats", "registry formats --format json"))
def formats(style: FormatOption = Format.table) -> None:
    """List the formats of other tools that can be read or written, and the packages that add them."""
    plugins = Plugins()
    rows = plugins.describe()
    print_data(render_formats(rows, style))
    for broken in plugins.broken.values():
        print_message(f"warning: {printable(broken)}")
    print_message(count_of(len(rows), "format"))


@command(examples=("registry validate sm90.json", "registry validate old.json sm90.json --format json"))
def validate(
    paths: Annotated[list[Path], typer.Argument(metavar="TABLE", help="Table files.")],
    style: FormatOption = Format.table,
) -> None:
    """Check that table files are valid, entry by entry. Lists the problems, and exits 1 if there are any.

    Needs no database. To compare a table with the votes that it comes from, use registry check.
    """
    tables = [validate_table(path) for path in paths]
    problems = [problem for table in tables for problem in table.problems]
    print_data(render_problems(problems, style))
    for table in tables:
        number = len(table.problems)
        outcome = count_of(number, "problem") if number else f"OK: {count_of(table.entries, 'entry')}"
        print_message(f"{printable(table.file)}: {outcome}")
    if problems:
        raise typer.Exit(1)
