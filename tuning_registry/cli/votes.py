"""`registry winners`, `disagreements`, `report` and `status`: what the votes say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tuning_registry.cli.console import print_data, say, track_files
from tuning_registry.cli.opening import nothing_matches, open_store, selection_of
from tuning_registry.cli.options import (
    ArchFilter,
    Db,
    ExitCode,
    FormatOption,
    KernelFilter,
    PackageFilter,
    Paths,
    PolicyOption,
    RunFilter,
    SourceFilter,
    TritonFilter,
)
from tuning_registry.model.selection import Selection
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.costs import render_costs
from tuning_registry.rendering.runs import render_status
from tuning_registry.rendering.votes import render_disagreements, render_winners
from tuning_registry.rules.evidence import Policy
from tuning_registry.rules.overrides import Overrides
from tuning_registry.wording import count_of

if TYPE_CHECKING:
    from tuning_registry.db.store import Store
    from tuning_registry.operations.election.tally import EntryVotes


def winners(
    ctx: typer.Context,
    arch: ArchFilter = None,
    kernel: KernelFilter = None,
    run: RunFilter = None,
    source: SourceFilter = None,
    triton: TritonFilter = None,
    package: PackageFilter = None,
    policy: PolicyOption = Policy.MAJORITY,
    style: FormatOption = Format.table,
    exit_code: ExitCode = False,
    db: Db = None,
) -> None:
    """Show the config that each entry elects, with its votes."""
    from tuning_registry.operations.votes import find_winners

    store = open_store(ctx, db)
    found = find_winners(store, selection_of(arch, kernel, run, source, triton, package), policy)
    print_data(render_winners(found, style))
    say(count_of(len(found), "winner") if found else nothing_matches(store, kernel))
    if exit_code:
        raise typer.Exit(1)


def disagreements(
    ctx: typer.Context,
    arch: ArchFilter = None,
    kernel: KernelFilter = None,
    run: RunFilter = None,
    source: SourceFilter = None,
    triton: TritonFilter = None,
    package: PackageFilter = None,
    cost: Annotated[
        bool, typer.Option("--cost", help="Also show how much slower the elected config is, from the timings.")
    ] = False,
    style: FormatOption = Format.table,
    exit_code: ExitCode = False,
    db: Db = None,
) -> None:
    """Show entries for which ranks chose more than one config, and who chose what."""
    from tuning_registry.operations.costs import CONFLICT, NOT_TIMED, find_costs
    from tuning_registry.operations.votes import find_disagreements

    store = open_store(ctx, db)
    selection = selection_of(arch, kernel, run, source, triton, package)
    if cost:
        costed, total = find_costs(store, selection)
        split = [found.entry for found in costed]
        print_data(render_costs(costed, style))
        conflicts = sum(found.verdict == CONFLICT for found in costed)
        untimed = sum(found.verdict == NOT_TIMED for found in costed)
        more = f": {count_of(conflicts, 'conflict')} beyond the noise of the timings"
        more += f"; {untimed:,} not timed" if untimed else ""
    else:
        split, total = find_disagreements(store, selection)
        more = ""
        print_data(render_disagreements(split, style))
    say(disagree(len(split), total) + more if total else nothing_matches(store, kernel))
    _say_overrides(store, split)
    if exit_code and (split or not total):
        raise typer.Exit(1)


def _say_overrides(store: Store, split: Sequence[EntryVotes]) -> None:
    """What ranks chose is one thing, what an entry gets another: name the pins and bans on these entries."""
    from tuning_registry.operations.overrides import list_overrides

    overrides = Overrides(list_overrides(store) if split else ())
    touching = {
        override.id: override for entry in split for override in overrides.touching(entry.arch, entry.kernel, entry.key)
    }
    if touching:
        named = ", ".join(f"#{number} {touching[number].action}" for number in sorted(touching))
        say(
            f"note: these are the votes; overrides on some of these entries: {named} (registry winners shows what they get)"
        )


def report(paths: Paths, style: FormatOption = Format.table, exit_code: ExitCode = False) -> None:
    """Report the disagreements among recordings in one go, without a database file."""
    from tuning_registry.operations.ingest.merge import ingest_in_memory
    from tuning_registry.operations.votes import find_disagreements

    store = ingest_in_memory(paths, track=track_files)
    found, total = find_disagreements(store, Selection())
    print_data(render_disagreements(found, style))
    say(disagree(len(found), total) if total else "the files hold no vote")
    if exit_code and (found or not total):
        raise typer.Exit(1)


def status(ctx: typer.Context, style: FormatOption = Format.table, db: Db = None) -> None:
    """Show the database, its revision, and what it holds."""
    from tuning_registry.operations.status import describe_status

    found = describe_status(open_store(ctx, db))
    print_data(render_status(found, style))
    if found["revision"] is None:
        say("there is no registry here yet; `registry ingest` or `registry db upgrade` creates it")


def disagree(split: int, total: int) -> str:
    return f"{split:,} of {count_of(total, 'entry')} {'disagrees' if split == 1 else 'disagree'}"
