"""The panel "Without a database": a table from recordings, its form, its kernels compiled early, and known formats."""

from __future__ import annotations

from typing import Annotated

import typer

from tuning_registry.cli.commands import command
from tuning_registry.cli.console import is_stdout, print_data, print_message
from tuning_registry.cli.options import FormatOption, Paths, StatedTriton
from tuning_registry.cli.progress import show_progress
from tuning_registry.cli.tables import write_export
from tuning_registry.errors import printable
from tuning_registry.formats.plugins import Plugins
from tuning_registry.formats.stores import place_of
from tuning_registry.formats.table_problems import validate_table
from tuning_registry.model.selection import Selection
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.sources import render_formats
from tuning_registry.rendering.validation import render_problems
from tuning_registry.rendering.warming import render_warmed
from tuning_registry.wording import count_of


@command(examples=("registry merge 'recordings/rec.rank*.json' -o sm90.json --triton 3.6.0",))
def merge(
    paths: Paths,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="Output file or URL, or - for stdout.")],
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
    paths: Annotated[list[str], typer.Argument(metavar="TABLE", help="Table files, or their URLs in a store.")],
    style: FormatOption = Format.table,
) -> None:
    """Check that table files are valid, entry by entry. Lists the problems, and exits 1 if there are any.

    Needs no database. To compare a table with the votes that it comes from, use registry check.
    """
    tables = [validate_table(place_of(path)) for path in paths]
    problems = [problem for table in tables for problem in table.problems]
    print_data(render_problems(problems, style))
    for table in tables:
        number = len(table.problems)
        outcome = count_of(number, "problem") if number else f"OK: {count_of(table.entries, 'entry')}"
        print_message(f"{printable(table.file)}: {outcome}")
    if problems:
        raise typer.Exit(1)


@command(examples=("registry warm tables/sm90.json", "registry warm tables --target sm90 --target sm100 --jobs 8"))
def warm(
    path: Annotated[str, typer.Argument(metavar="TABLE", help="Table file or folder of tables, or its URL.")],
    archs: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="ARCH",
            help="Only the table of this architecture. May be repeated. Defaults to all tables in TABLE.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "-j", "--jobs", metavar="N", help="Kernels to compile at the same time. Defaults to one per core."
        ),
    ] = None,
    style: FormatOption = Format.table,
) -> None:
    """Compile a table's kernels into Triton's cache, for example when an image is built. Needs no GPU.

    Reads the .compile file that export writes next to the table, and imports the kernels' modules.
    Needs the Triton version of the recordings. Lists the kernels, and exits 1 if one fails.
    """
    from tuning_registry.operations.tables.warming import warm_tables

    with show_progress("importing modules") as work:
        found = warm_tables(
            place_of(path), archs or (), jobs, lambda done, total: work.step(done, total, "compiling kernels")
        )
    print_data(render_warmed(found.kernels, style))
    others = sum(not one.is_expected for one in found.kernels)
    if others:
        print_message(
            f"note: {count_of(others, 'kernel')} got a different cache key than in the recording: code, packages, "
            "assembler or Triton's settings differ, or a module looks for a GPU when it is imported"
        )
    if found.without_launcher:
        print_message(
            f"note: the first launch of {count_of(found.without_launcher, 'kernel')} still builds a small C module, which "
            f"needs the GPU driver's library: {printable(found.why_no_launcher)}"
        )
    if any("ModuleNotFoundError" in one.reason for one in found.kernels):
        print_message("note: set PYTHONPATH to the folders from which the job imports its modules")
    where = f" in {printable(found.cache)}" if found.cache else ""
    print_message(
        f"{count_of(len(found.kernels), 'kernel')}{where}: {found.count('compiled'):,} compiled, "
        f"{found.count('cached'):,} cached already, {found.count('failed'):,} failed"
    )
    if not found.is_complete:
        raise typer.Exit(1)
