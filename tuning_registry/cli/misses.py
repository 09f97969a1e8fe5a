"""`registry misses`: what pinned runs looked for in vain."""

from __future__ import annotations

from typing import Annotated

import typer

from tuning_registry.cli.console import count_of, print_data, say
from tuning_registry.cli.opening import nothing_matches, open_store
from tuning_registry.cli.options import ArchFilter, Db, ExitCode, FormatOption, KernelFilter, RunFilter
from tuning_registry.model.selection import Selection
from tuning_registry.rendering.base import Format, render_misses


def misses(
    ctx: typer.Context,
    arch: ArchFilter = None,
    kernel: KernelFilter = None,
    run: RunFilter = None,
    unrecorded: Annotated[bool, typer.Option("--unrecorded", help="Only entries that have no vote yet.")] = False,
    style: FormatOption = Format.table,
    exit_code: ExitCode = False,
    db: Db = None,
) -> None:
    """Show what pinned runs did not find in their tables: what to record next."""
    from tuning_registry.operations.misses import find_misses

    store = open_store(ctx, db)
    found, matched = find_misses(store, Selection(arch=arch, kernel=kernel, runs=tuple(run or ())), unrecorded=unrecorded)
    print_data(render_misses(found, style))
    if found:
        entries = {(miss.arch, miss.kernel, miss.key) for miss in found}
        without = {(miss.arch, miss.kernel, miss.key) for miss in found if not miss.recorded}
        say(f"{count_of(len(entries), 'missed entry')}, {len(without):,} of them without a vote")
    elif matched:
        say("no entry without a vote was missed" if unrecorded else "no miss was recorded")
    else:
        say(nothing_matches(store, kernel, "recording"))
    if exit_code and (found or not matched):
        raise typer.Exit(1)
