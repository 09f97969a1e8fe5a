"""The panel "Reports": a page about a database, or about recordings that are in none."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated

import typer

from tuning_registry.cli.commands import Target, command, nothing_matches
from tuning_registry.cli.console import is_stdout, print_data, print_message, write_stdout
from tuning_registry.cli.options import CHOICES, FormatOption
from tuning_registry.cli.progress import show_progress
from tuning_registry.cli.votes import split_of
from tuning_registry.errors import UsageError, printable
from tuning_registry.formats.files import write_atomically
from tuning_registry.formats.stores import place_of
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.votes import render_disagreements

if TYPE_CHECKING:
    from tuning_registry.db.store import Store
    from tuning_registry.model.selection import Selection
    from tuning_registry.operations.reports.page.report import Report


@command(
    *CHOICES,
    examples=(
        "registry report --html report.html --run july",
        "registry report 'recordings/rec.rank*.json' --html report.html",
        "registry report --html report.html --arch sm90 --against sm90.json",
        "registry report recordings --format csv",
    ),
)
def report(
    target: Target,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH",
            help="Recordings: files, folders, URLs or quoted globs. Without any, the page is about the database.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Output file or URL for the page, or - for stdout."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="TABLE|RUN", help="Show what changed since this table file or run."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="Only entries with this shape key, or a pattern such as 'D=128|*'."),
    ] = None,
    style: FormatOption = Format.table,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 1 if ranks disagree.")] = False,
) -> None:
    """Write one HTML page about votes, timings and ranks: who chose what, what it costs, and what to do.

    The page is one file that loads nothing from the network. Without --html, lists the disagreements among recordings.
    Exits 1 if there are no votes.
    """
    if html is None:
        _list_disagreements(target.selection, paths, {"--against": against, "--key": key}, style, exit_code=exit_code)
        return
    from tuning_registry.db.url import shown_url
    from tuning_registry.operations.reports.page.gather import ReportOptions, gather_report

    store = _read(paths) if paths else target.open()
    source = " ".join(paths) if paths else shown_url(store.url)
    with show_progress("making the page"):
        found = gather_report(store, target.selection, ReportOptions(source=source, key=key, against=against))
    _write_page(found, html)
    if not found.entries:
        print_message(_no_votes(store, target.selection, paths))
    if not found.entries or (exit_code and found.disagreements):
        raise typer.Exit(1)


def _read(paths: list[str]) -> Store:
    from tuning_registry.operations.ingest.ingest import ingest_in_memory

    with show_progress("counting votes") as work:
        return ingest_in_memory(paths, track=work.track)


def _write_page(found: Report, output: str) -> None:
    from tuning_registry.rendering.html.layout import render_page

    data = render_page(found, dt.datetime.now(dt.UTC)).encode()
    if is_stdout(output):
        write_stdout(data)
    else:
        write_atomically(place_of(output), data)
    where = "stdout" if is_stdout(output) else printable(output)
    print_message(f"wrote {where}: {found}; {len(data) / 1000:,.0f} kB")


def _no_votes(store: Store, selection: Selection, paths: list[str] | None) -> str:
    return "the files contain no votes that match" if paths else nothing_matches(store, selection.kernel)


def _list_disagreements(
    selection: Selection, paths: list[str] | None, given: dict[str, str | None], style: Format, *, exit_code: bool
) -> None:
    from tuning_registry.operations.election.tally import find_disagreements

    for option, value in given.items():
        if value is not None:
            raise UsageError(f"{option} works only with --html FILE")
    if not paths:
        raise UsageError(
            "expected recordings or --html FILE. To list the disagreements in the database, use registry disagreements"
        )
    found, total = find_disagreements(_read(paths), selection)
    heading = split_of(len(found), total)
    print_data(render_disagreements(found, style, heading))
    print_message(heading if total else "the files contain no votes")
    if not total or (exit_code and found):
        raise typer.Exit(1)
