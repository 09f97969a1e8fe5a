"""`registry ranks`: which ranks are slow, or dissent."""

from __future__ import annotations

from typing import Annotated

import typer

from tuning_registry.cli.console import print_data, say
from tuning_registry.cli.opening import nothing_matches, open_store, selection_of
from tuning_registry.cli.options import (
    ArchFilter,
    Db,
    FormatOption,
    KernelFilter,
    PackageFilter,
    RunFilter,
    SourceFilter,
    TritonFilter,
)
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.ranks import render_ranks
from tuning_registry.wording import count_of


def ranks(
    ctx: typer.Context,
    arch: ArchFilter = None,
    kernel: KernelFilter = None,
    run: RunFilter = None,
    source: SourceFilter = None,
    triton: TritonFilter = None,
    package: PackageFilter = None,
    outliers: Annotated[bool, typer.Option("--outliers", help="Only ranks that stand out.")] = False,
    style: FormatOption = Format.table,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 1 when a rank stands out, or when nothing matched at all.")
    ] = False,
    db: Db = None,
) -> None:
    """Compare every rank with the fleet: its dissenting votes, its timings, and whether it stands out."""
    from tuning_registry.operations.ranks import compare_ranks

    store = open_store(ctx, db)
    fleet = compare_ranks(store, selection_of(arch, kernel, run, source, triton, package))
    print_data(render_ranks(fleet.outliers if outliers else fleet.ranks, style))
    if not fleet.ranks:
        say(nothing_matches(store, kernel, "vote or timing"))
    elif fleet.time_ratio is None and fleet.dissent is None:
        say(f"{count_of(len(fleet.ranks), 'rank')}: too few to say which of them stands out")
    else:
        number = len(fleet.outliers)
        said = f"{number:,} of {count_of(len(fleet.ranks), 'rank')} {'stands' if number == 1 else 'stand'} out"
        say(said if fleet.time_ratio is not None else said + "; by votes alone: there are too few timings to compare")
    if exit_code and (fleet.outliers or not fleet.ranks):
        raise typer.Exit(1)
