"""The command `warm` of the panel "Tables": compile a table's kernels before a job runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuning_registry.cli.commands import command
from tuning_registry.cli.console import print_data, print_message
from tuning_registry.cli.options import FormatOption
from tuning_registry.cli.progress import show_progress
from tuning_registry.errors import printable
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.warming import render_warmed
from tuning_registry.wording import count_of


@command(examples=("registry warm tables/sm90.json", "registry warm tables --target sm90 --target sm100 --jobs 8"))
def warm(
    path: Annotated[Path, typer.Argument(metavar="TABLE", help="Table file, or folder of tables.")],
    archs: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="ARCH",
            help="Architecture whose table to use. Can be repeated. Defaults to all in TABLE.",
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

    Imports the kernels' modules and needs Triton in the version of the recordings. Reads the .compile file that export
    writes beside the table. Lists the kernels, and exits 1 if one cannot be compiled.
    """
    from tuning_registry.operations.tables.warming import warm_tables

    with show_progress("importing modules") as work:
        found = warm_tables(path, archs or (), jobs, lambda done, total: work.step(done, total, "compiling kernels"))
    print_data(render_warmed(found.kernels, style))
    others = sum(not one.is_expected for one in found.kernels)
    if others:
        print_message(
            f"note: {count_of(others, 'kernel')} got another cache key than in the recording: code, packages, assembler or "
            "Triton's settings differ, or a module looks for a GPU when it is imported"
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
