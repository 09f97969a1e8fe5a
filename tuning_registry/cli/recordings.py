"""The panel "Recordings": what jobs recorded, and what they should record next."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tuning_registry.cli.commands import Target, command, database_of, nothing_matches
from tuning_registry.cli.console import print_data, print_message
from tuning_registry.cli.hand_ins import print_fold
from tuning_registry.cli.options import Db, ExitCode, FormatOption, StatedPackages, StatedTriton
from tuning_registry.cli.progress import show_progress
from tuning_registry.errors import UsageError, printable
from tuning_registry.formats.matching import AMBIGUOUS, WHY_AMBIGUOUS
from tuning_registry.model.names import rank_ranges, ranks_text
from tuning_registry.model.selection import parse_packages, parse_ranks
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.misses import render_misses
from tuning_registry.rendering.runs import render_runs
from tuning_registry.rendering.votes import spelling_note
from tuning_registry.wording import count_of, list_some

if TYPE_CHECKING:
    from tuning_registry.operations.ingest.ingest import IngestReport
    from tuning_registry.operations.retention import RunContents

RunRanks = Annotated[
    list[str] | None,
    typer.Option("--rank", metavar="RANKS", help="Only these ranks of the run, such as 3 or 0-7. May be repeated."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")]
OfCurated = Annotated[
    bool,
    typer.Option("--curated", help="RUN names a source of curated choices, as listed by registry status."),
]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="Name of the run, as shown by registry runs.")]


@command(
    examples=(
        "registry ingest recordings --run july --triton 3.6.0",
        "registry ingest 'recordings/rec.rank*.json' --as-run july-retry",
        "registry ingest triton-cache --run adopted --rank 0",
    )
)
def ingest(
    target: Target,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Recordings, timings, Triton caches (TRITON_CACHE_DIR) and files of other tools (registry formats): "
            "files, folders or quoted globs.",
        ),
    ],
    run: Annotated[
        str | None, typer.Option(metavar="NAME", help="Run name for recordings that do not state one.")
    ] = None,
    as_run: Annotated[
        str | None,
        typer.Option("--as-run", metavar="NAME", help="Override the stated run name, e.g. when two jobs shared one."),
    ] = None,
    rank: Annotated[
        int | None, typer.Option(metavar="N", help="Rank, for a single file that does not state one.")
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            "--arch", metavar="ARCH", help="Architecture, for a Triton cache or a file of another tool without one."
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="DEVICE", help="Device, for a file of another tool that does not state one."),
    ] = None,
    from_format: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FORMAT",
            help="Format of all files, as listed by registry formats. Defaults to detecting each from its content.",
        ),
    ] = None,
    triton: StatedTriton = None,
    package: StatedPackages = None,
    source: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Free text about where the recordings come from.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Supersede a different recording of the same run and rank.")
    ] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Skip recordings that cannot be ingested, list them, and exit 1.")
    ] = False,
) -> None:
    """Ingest recordings, timings, Triton caches and files of other tools, all or nothing; then fold hand-ins."""
    from tuning_registry.operations.ingest.ingest import IngestOptions
    from tuning_registry.operations.ingest.ingest import ingest as ingest_paths

    options = IngestOptions(
        run=run,
        as_run=as_run,
        rank=rank,
        arch=arch,
        device=device,
        format=from_format,
        triton=triton,
        packages=parse_packages(package or []),
        source=source,
        replace=replace,
        keep_going=keep_going,
    )
    store = target.open(says_pending=False)
    with show_progress("writing to the database") as work:
        report = ingest_paths(store, paths, options, work.track, work.step)
    _print_notes(report)
    print_message(f"ingested {report}")
    if report.folded is not None:
        print_fold(report.folded)
    if report.skipped:
        raise typer.Exit(1)


def _print_notes(report: IngestReport) -> None:
    for error in report.skipped:
        print_message(f"skipped: {error}")
    for broken in report.broken_formats:
        print_message(f"warning: {printable(broken)}")
    for name in report.derived_runs:
        print_message(f"run: {printable(name)} (derived from file names and content; choose a name with --run)")
    if report.created:
        print_message("created a new registry in this database")
    for name, count in report.same_content.items():
        verb = "has" if count == 1 else "have"
        print_message(
            f"note: {count_of(count, 'recording')} {verb} the same votes or timings as run {printable(name)!r}. Both runs "
            f"count; to stop counting one, use registry runs withdraw"
        )
    _print_warnings(report)
    for arch in report.strange_archs:
        print_message(f"note: {printable(arch)!r} is not a known architecture; stored as given")
    if report.unowned_caches:
        print_message(
            "note: winners from a Triton cache are stored as observations and do not vote. If a single rank wrote this "
            "cache, attribute it with --run RUN --rank N"
        )
    if report.timings_beside:
        print_message(
            f"note: skipped {count_of(report.timings_beside, 'timings file')} (timings.rank<N>.json) in the same folder; to ingest "
            "timings as well, name the folder"
        )


def _print_warnings(report: IngestReport) -> None:
    """Print what is wrong with the votes that are in the database now."""
    for name, kernels in report.other_sources.items():
        print_message(
            f"warning: ranks of run {printable(name)!r} ran different code: the source of "
            f"{', '.join(map(printable, kernels))} differs between ranks, so their votes compare different kernels"
        )
    for arch, kernel, number in report.many_keys:
        print_message(
            printable(f"warning: {kernel} has {number:,} keys on {arch}. If a value in the key differs in every step, ")
            + "launches will miss the table; round it, or remove it from the autotuner's key"
        )
    for texts in report.spellings:
        print_message(spelling_note(texts))
    if report.look_alikes:
        print_message(
            "note: names of kernels with characters outside ASCII, which may only look like another kernel's name: "
            + list_some(list(map(ascii, report.look_alikes)))
        )


@command(
    "arch",
    "kernel",
    "run",
    examples=("registry misses --unrecorded", "registry misses --run july --kernel l2norm_fwd_kernel --format json"),
)
def misses(
    target: Target,
    unrecorded: Annotated[bool, typer.Option("--unrecorded", help="Only entries that have no vote yet.")] = False,
    style: FormatOption = Format.table,
    exit_code: ExitCode = False,
) -> None:
    """Show entries that pinned runs did not find in their tables, and that should be recorded next."""
    from tuning_registry.operations.reports.misses import find_misses

    store = target.open()
    found, matched = find_misses(store, target.selection, unrecorded=unrecorded)
    print_data(render_misses(found, style))
    if found:
        entries = {(miss.arch, miss.kernel, miss.key) for miss in found}
        without = {(miss.arch, miss.kernel, miss.key) for miss in found if not miss.recorded}
        print_message(f"{count_of(len(entries), 'missed entry')}, {len(without):,} of them without a vote")
        if any(miss.reason == AMBIGUOUS for miss in found):
            print_message(f"note: {AMBIGUOUS}: {WHY_AMBIGUOUS}. Recording these entries again does not help.")
    elif matched:
        print_message("every missed entry has a vote" if unrecorded else "no misses were recorded")
    else:
        print_message(nothing_matches(store, target.selection.kernel, "recordings"))
    if exit_code and (found or not matched):
        raise typer.Exit(1)


def list_runs(ctx: typer.Context, style: FormatOption = Format.table, db: Db = None) -> None:
    """List the runs, newest first; withdraw, restore, compact or delete one."""
    if ctx.invoked_subcommand is not None:
        ctx.find_root().obj = database_of(ctx, db)
        return
    from tuning_registry.operations.runs import list_runs as find_runs

    found = find_runs(Target(database_of(ctx, db)).open())
    print_data(render_runs(found, style))
    print_message(count_of(len(found), "run"))


@command(
    examples=(
        "registry runs withdraw july",
        "registry runs withdraw july --rank 3",
        "registry runs withdraw 'vllm 0.33.0' --curated",
    )
)
def withdraw(target: Target, run: RunName, rank: RunRanks = None, curated: OfCurated = False) -> None:
    """Stop counting the votes of a run or of some of its ranks. They are kept and can be restored."""
    from tuning_registry.operations.runs import withdraw_run
    from tuning_registry.operations.sources import withdraw_source

    ranks = parse_ranks(rank or ())
    if curated:
        _refuse_ranks(ranks)
        changed = withdraw_source(target.open(), run)
        outcome = "withdrawn; its curated choices no longer count" if changed else "already withdrawn"
        print_message(f"{printable(run)}: {outcome}")
        return
    changed = withdraw_run(target.open(), run, ranks)
    outcome = f"withdrawn; {_whose(ranks)} votes no longer count" if changed else "already withdrawn"
    print_message(f"{_named(run, ranks)}: {outcome}")


@command(examples=("registry runs restore july", "registry runs restore july --rank 3"))
def restore(target: Target, run: RunName, rank: RunRanks = None, curated: OfCurated = False) -> None:
    """Count the votes of a withdrawn run, or of its withdrawn ranks, again."""
    from tuning_registry.operations.runs import list_runs, restore_run
    from tuning_registry.operations.sources import restore_source

    ranks, store = parse_ranks(rank or ()), target.open()
    if curated:
        _refuse_ranks(ranks)
        changed = restore_source(store, run)
        outcome = "restored; its curated choices count again" if changed else "not withdrawn"
        print_message(f"{printable(run)}: {outcome}")
        return
    changed = restore_run(store, run, ranks)
    outcome = f"restored; {_whose(ranks)} votes count again" if changed else "not withdrawn"
    print_message(f"{_named(run, ranks)}: {outcome}")
    left = [] if ranks else [found.withdrawn_ranks for found in list_runs(store) if found.name == run]
    if left and left[0]:
        print_message(
            printable(f"note: {ranks_text(left[0])} of this run stay withdrawn. To count their votes again, use ")
            + f"--rank {rank_ranges(left[0])}"
        )


@command(examples=("registry runs compact july --yes",))
def compact(target: Target, run: RunName, yes: Yes = False) -> None:
    """Drop the percentiles of a large run's timings, except those of 64 ranks. All medians stay exact."""
    from tuning_registry.operations.retention import KEPT, compact_run, describe_run

    store = target.open()
    found = describe_run(store, run)
    if not found.compactable:
        print_message(f"{printable(run)}: nothing to compact; percentiles are kept for up to {KEPT} ranks of a run")
        return
    print_message(f"{printable(run)}: the percentiles of {count_of(found.compactable, 'timing')} would be dropped")
    print_message(
        "approximate from then on: noise percentages, the verdicts that depend on them, and the ranges in "
        f"registry report; they will use only {KEPT} ranks of this run"
    )
    print_message(f"unchanged: votes, medians, slowdowns, tables and checks ({_made_from(found)})")
    _confirm("compact this run?", yes=yes)
    dropped = compact_run(store, run)
    print_message(f"{printable(run)}: dropped the percentiles of {count_of(dropped, 'timing')}")


@command(examples=("registry runs delete july --yes",))
def delete(target: Target, run: RunName, yes: Yes = False, curated: OfCurated = False) -> None:
    """Delete a run with its votes, timings and observations. Unlike a withdrawal, this cannot be undone."""
    from tuning_registry.operations.retention import delete_run, describe_run
    from tuning_registry.operations.sources import delete_source, describe_source

    store = target.open()
    if curated:
        print_message(f"will be deleted: {describe_source(store, run)}")
        _confirm("delete these curated choices?", yes=yes)
        print_message(f"{printable(run)}: deleted {count_of(delete_source(store, run), 'file')}")
        return
    found = describe_run(store, run)
    print_message(f"will be deleted: {found}")
    for line in found.exports:
        print_message(f"made from this run: table {line}")
    if found.exports:
        print_message(
            "after that, nobody can look up the votes behind these tables, and registry check compares the tables "
            "with the remaining votes"
        )
    _confirm("delete this run?", yes=yes)
    print_message(f"{printable(run)}: deleted {count_of(delete_run(store, run), 'recording')}")


def _made_from(found: RunContents) -> str:
    return (
        f"{count_of(len(found.exports), 'exported table')} made from this run"
        if found.exports
        else "no table was made from it"
    )


def _confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal, unless `--yes` was given.

    Raises:
        UsageError: Nobody can be asked, or the answer is no.
    """
    if yes:
        return
    if not (sys.stdin is not None and sys.stdin.isatty()):
        raise UsageError(
            "nothing was changed: there is no terminal to ask for confirmation; to proceed, repeat the command with --yes"
        )
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)


def _refuse_ranks(ranks: Sequence[int]) -> None:
    if ranks:
        raise UsageError("--rank cannot be combined with --curated: curated choices have no rank")


def _whose(ranks: Sequence[int]) -> str:
    return "their" if len(ranks) > 1 else "its"


def _named(run: str, ranks: Sequence[int]) -> str:
    return printable(f"{ranks_text(ranks)} of {run}" if ranks else run)
