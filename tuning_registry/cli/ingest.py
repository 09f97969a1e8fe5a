"""`registry ingest`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tuning_registry.cli.console import say, track_files
from tuning_registry.cli.opening import open_store
from tuning_registry.cli.options import Db, StatedPackages, StatedTriton
from tuning_registry.errors import printable
from tuning_registry.model.selection import parse_packages
from tuning_registry.wording import count_of

if TYPE_CHECKING:
    from tuning_registry.operations.ingest.ingest import IngestReport


def ingest(
    ctx: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Recordings, files of timings, Triton caches (TRITON_CACHE_DIR): files, folders or quoted globs.",
        ),
    ],
    run: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the run, where not stated.")] = None,
    as_run: Annotated[
        str | None,
        typer.Option("--as-run", metavar="NAME", help="Name of the run, also where stated: two jobs had one name."),
    ] = None,
    rank: Annotated[int | None, typer.Option(metavar="N", help="Rank, for one file that does not state it.")] = None,
    arch: Annotated[
        str | None,
        typer.Option("--arch", metavar="ARCH", help="Architecture, for a Triton cache that does not say it."),
    ] = None,
    triton: StatedTriton = None,
    package: StatedPackages = None,
    source: Annotated[str | None, typer.Option(metavar="TEXT", help="Where the recordings come from.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Supersede other content of the same rank.")] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Skip what cannot be taken, name it, and exit 1.")
    ] = False,
    db: Db = None,
) -> None:
    """Take per-rank recordings, timings and Triton caches into the database, all or nothing."""
    from tuning_registry.operations.ingest.ingest import IngestOptions
    from tuning_registry.operations.ingest.ingest import ingest as take_in

    store = open_store(ctx, db)
    options = IngestOptions(
        run, rank, arch, triton, parse_packages(package or []), source, replace, keep_going, as_run=as_run
    )
    report = take_in(store, paths, options, track_files)
    _say_ingested(report)
    if report.skipped:
        raise typer.Exit(1)


def _say_ingested(report: IngestReport) -> None:
    for error in report.skipped:
        say(f"skipped: {error}")
    for name in report.derived_runs:
        say(f"run: {printable(name)} (name it with --run)")
    if report.created:
        say("created the registry: there was none in this database")
    for name, count in report.same_content.items():
        hold = "holds" if count == 1 else "hold"
        say(
            f"note: {count_of(count, 'recording')} {hold} the same votes or timings as run {printable(name)!r}; both runs "
            f"count (registry runs withdraw {printable(name)} stops one)"
        )
    for arch in report.strange_archs:
        say(f"note: {printable(arch)!r} is spelled like no known architecture; stored as given")
    if report.unowned_caches:
        say("note: winners in a Triton cache are observed and do not vote, so no table comes of it; if one rank wrote it, "
            "say whose it is: registry ingest CACHE --run RUN --rank N")  # fmt: skip
    if report.timings_beside:
        say(f"note: {count_of(report.timings_beside, 'file')} of timings beside these recordings (timings.rank<N>.json) not "
            "named; ingest the folder to take the timings, too")  # fmt: skip
    parts = [count_of(report.new, "recording"), count_of(report.votes, "vote")]
    if report.timings:
        parts.append(count_of(report.timings, "timing"))
    parts.append(f"{report.new_entries:,} new {'entry' if report.new_entries == 1 else 'entries'}")
    if report.observations:
        parts.append(count_of(report.observations, "observation"))
    others = {
        "already ingested": report.already,
        "completed": report.completed,
        "superseded": report.replaced,
        "of a withdrawn run (unchanged; registry runs restore brings it back)": report.withdrawn,
        "skipped": len(report.skipped),
    }
    parts += [f"{count:,} {what}" for what, count in others.items() if count]
    say("ingested " + ", ".join(parts))
