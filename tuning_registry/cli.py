"""The `registry` command: parses, calls one operation, prints. The only file that prints or exits."""

from __future__ import annotations

import datetime as dt
import gc
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tuning_registry import __version__
from tuning_registry.cli_options import (
    ArchFilter,
    Db,
    ExitCode,
    FormatOption,
    KernelFilter,
    PackageFilter,
    Paths,
    RunFilter,
    SourceFilter,
    StatedPackages,
    StatedTriton,
    TritonFilter,
)
from tuning_registry.errors import FileError, RegistryError, UsageError, printable
from tuning_registry.files import write_atomically
from tuning_registry.rendering import (
    Format,
    render_disagreements,
    render_runs,
    render_status,
    render_winners,
)
from tuning_registry.selection import Selection, parse_packages

if TYPE_CHECKING:
    from tuning_registry.db.store import Store
    from tuning_registry.operations.export import Export
    from tuning_registry.operations.ingest import IngestReport

# Operations are imported inside the commands: they load SQLAlchemy, which `registry --help` need not wait for.


class _Group(TyperGroup):
    """Turns the package's errors into one or two lines and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except RegistryError as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            _say(f"error: {error}")
            raise typer.Exit(2 if isinstance(error, UsageError) else 1) from None
        except BrokenPipeError:
            # The reader of our output went away (`| head`): what a shell expects of a program ended so.
            _drop_output()
            raise typer.Exit(141) from None
        except OSError as error:
            # The package's own files raise FileError: this is stdout or stderr, on a full disk for one.
            if ctx.params.get("debug"):
                traceback.print_exc()
            _drop_output()
            _say(f"error: the output cannot be written: {error.strerror or error}")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            _say("interrupted")
            raise typer.Exit(130) from None


def _drop_output() -> None:
    """Let the interpreter's last flush of stdout, which has failed once, go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Shared database of Triton autotune results: ingest what ranks chose, see who disagreed, export one table.",
    epilog="Exit status: 0 done, 1 the data or the database says no, 2 wrong usage.",
)
runs_app = typer.Typer(help="List runs; withdraw or restore one.", invoke_without_command=True)
db_app = typer.Typer(help="Create, upgrade, check and find the database.", no_args_is_help=True)
app.add_typer(runs_app, name="runs")
app.add_typer(db_app, name="db")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"tuning-registry {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    ctx: typer.Context,
    db: Db = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback for an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    ctx.obj = db
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a console that cannot show a character shows its escape
            stream.reconfigure(errors="backslashreplace")


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _print(text: str) -> None:
    """Data to stdout; what its encoding cannot show as an escape."""
    _write_stdout(text.encode(getattr(sys.stdout, "encoding", None) or "utf-8", "backslashreplace"))


def _write_stdout(data: bytes) -> None:
    if sys.stdout is None:
        raise FileError("stdout is closed")
    sys.stdout.flush()
    rest = memoryview(data)
    while rest:  # with PYTHONUNBUFFERED a write may take only a part, and print would lose the rest in silence
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()


def _open_store(ctx: typer.Context, db: str | None) -> Store:
    """The store of `--db`, wherever it stood; says which one it is."""
    from tuning_registry.db.dialects import network_file_system
    from tuning_registry.db.store import Store
    from tuning_registry.db.url import is_in_memory, resolve_url, shown_url, sqlite_file

    url = resolve_url(db if db is not None else ctx.find_root().obj)
    if is_in_memory(url):
        raise UsageError("a database in memory ends with this command; registry merge and report need none")
    _say(f"database: {printable(shown_url(url))}")
    file = sqlite_file(url)
    kind = network_file_system(file.parent) if file is not None else ""
    if kind:
        _say(
            f"warning: this SQLite file is on {kind}, where locking is unreliable; let one process write it, "
            "or use Postgres"
        )
    return Store(url)


def _track(files: Sequence[Path]) -> Iterator[Path]:
    """The files, with a progress bar on a terminal and silently elsewhere."""
    if not sys.stderr.isatty():
        yield from files
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(files, "reading", console=Console(stderr=True), transient=True)


def _selection(
    arch: str | None,
    kernel: str | None,
    run: list[str] | None,
    source: str | None,
    triton: str | None,
    package: list[str] | None,
) -> Selection:
    return Selection(arch, kernel, tuple(run or ()), source, triton, parse_packages(package or []))


def _count(number: int, noun: str) -> str:
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def _disagree(split: int, total: int) -> str:
    return f"{split:,} of {_count(total, 'entry')} {'disagrees' if split == 1 else 'disagree'}"


def _nothing_matches(store: Store) -> str:
    from tuning_registry.operations.reports import what_there_is

    return printable(f"no vote matches. {what_there_is(store)}")


@app.command()
def ingest(
    ctx: typer.Context,
    paths: Paths,
    run: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the run, where not stated.")] = None,
    rank: Annotated[int | None, typer.Option(metavar="N", help="Rank, for one file that does not state it.")] = None,
    triton: StatedTriton = None,
    package: StatedPackages = None,
    source: Annotated[str | None, typer.Option(metavar="TEXT", help="Where the recordings come from.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Supersede other content of the same rank.")] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Skip what cannot be taken, name it, and exit 1.")
    ] = False,
    db: Db = None,
) -> None:
    """Take per-rank recordings into the database, all or nothing."""
    from tuning_registry.operations.ingest import IngestOptions
    from tuning_registry.operations.ingest import ingest as take_in

    store = _open_store(ctx, db)
    options = IngestOptions(run, rank, triton, parse_packages(package or []), source, replace, keep_going)
    report = take_in(store, paths, options, _track)
    _say_ingested(report)
    if report.skipped:
        raise typer.Exit(1)


def _say_ingested(report: IngestReport) -> None:
    for error in report.skipped:
        _say(f"skipped: {error}")
    for name in report.derived_runs:
        _say(f"run: {printable(name)} (name it with --run)")
    if report.created:
        _say("created the registry: there was none in this database")
    for name, count in report.same_content.items():
        held = "has" if count == 1 else "have"
        _say(
            f"note: {_count(count, 'recording')} {held} exactly the content of run {printable(name)!r}; both runs count"
        )
    for arch in report.strange_archs:
        _say(f"note: {printable(arch)!r} is spelled like no known architecture; stored as given")
    parts = [_count(report.new, "recording"), _count(report.votes, "vote")]
    parts.append(f"{report.new_entries:,} new {'entry' if report.new_entries == 1 else 'entries'}")
    others = {
        "already ingested": report.already,
        "completed": report.completed,
        "superseded": report.replaced,
        "of a withdrawn run (unchanged; registry runs restore brings it back)": report.withdrawn,
        "skipped": len(report.skipped),
    }
    parts += [f"{count:,} {what}" for what, count in others.items() if count]
    _say("ingested " + ", ".join(parts))


@app.command()
def winners(
    ctx: typer.Context,
    arch: ArchFilter = None,
    kernel: KernelFilter = None,
    run: RunFilter = None,
    source: SourceFilter = None,
    triton: TritonFilter = None,
    package: PackageFilter = None,
    style: FormatOption = Format.table,
    exit_code: ExitCode = False,
    db: Db = None,
) -> None:
    """Show the config that each entry elects, with its votes."""
    from tuning_registry.operations.reports import find_winners

    store = _open_store(ctx, db)
    found = find_winners(store, _selection(arch, kernel, run, source, triton, package))
    _print(render_winners(found, style))
    _say(_count(len(found), "winner") if found else _nothing_matches(store))
    if exit_code:
        raise typer.Exit(1)


@app.command()
def disagreements(
    ctx: typer.Context,
    arch: ArchFilter = None,
    kernel: KernelFilter = None,
    run: RunFilter = None,
    source: SourceFilter = None,
    triton: TritonFilter = None,
    package: PackageFilter = None,
    style: FormatOption = Format.table,
    exit_code: ExitCode = False,
    db: Db = None,
) -> None:
    """Show entries for which ranks chose more than one config, and who chose what."""
    from tuning_registry.operations.reports import find_disagreements

    store = _open_store(ctx, db)
    selection = _selection(arch, kernel, run, source, triton, package)
    found, total = find_disagreements(store, selection)
    _print(render_disagreements(found, style))
    _say(_disagree(len(found), total) if total else _nothing_matches(store))
    if exit_code and (found or not total):
        raise typer.Exit(1)


@app.command()
def export(
    ctx: typer.Context,
    arch: Annotated[str, typer.Option("--arch", metavar="ARCH", help="Architecture of the table.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to; - or nothing: stdout.")
    ] = None,
    run: RunFilter = None,
    source: SourceFilter = None,
    triton: TritonFilter = None,
    package: PackageFilter = None,
    min_votes: Annotated[int, typer.Option(metavar="N", help="Leave out entries with fewer votes.")] = 1,
    min_agreement: Annotated[
        float, typer.Option(metavar="SHARE", help="Leave out entries whose winner has a smaller share, 0 to 1.")
    ] = 0.0,
    db: Db = None,
) -> None:
    """Write the canonical table of one architecture: the majority's config for every entry."""
    from tuning_registry.operations.export import Thresholds, export_table

    store = _open_store(ctx, db)
    selection = _selection(arch, None, run, source, triton, package)
    _write_export(export_table(store, selection, Thresholds(min_votes, min_agreement)), output)


def _write_export(made: Export, output: Path | None) -> None:
    from tuning_registry.operations.export import UNKNOWN_DEVICE

    # /dev/stdout may lead to a file (`>> log`), which is to be written to and not replaced.
    if output is None or str(output) in {"-", "/dev/stdout"}:
        where = "stdout"
        _write_stdout(made.data)
    else:
        where = printable(str(output))
        write_atomically(output, made.data)
    devices = ", ".join(f"{printable(name)} x {count}" for name, count in made.devices.items())
    on = f" on {devices}" if set(made.devices) != {UNKNOWN_DEVICE} else ""
    _say(
        f"wrote {_count(made.entries, 'entry')} to {where}: {made.disagreements:,} had disagreement "
        f"({made.ties:,} decided by tie-break), {made.dropped:,} dropped by thresholds"
    )
    _say(f"from {_count(made.payload['tuning_registry']['recordings'], 'recording')}{on}; "
         f"digest {made.payload['tuning_registry']['digest'][:16]}")  # fmt: skip


@app.command()
def status(ctx: typer.Context, style: FormatOption = Format.table, db: Db = None) -> None:
    """Show the database, its revision, and what it holds."""
    from tuning_registry.operations.reports import describe_status

    found = describe_status(_open_store(ctx, db))
    _print(render_status(found, style))
    if found["revision"] is None:
        _say("there is no registry here yet; `registry ingest` creates it")


@runs_app.callback()
def list_runs(ctx: typer.Context, style: FormatOption = Format.table, db: Db = None) -> None:
    """List runs; withdraw or restore one."""
    if ctx.invoked_subcommand is not None:
        if db is not None:
            ctx.find_root().obj = db
        return
    from tuning_registry.operations.reports import list_runs as find_runs

    found = find_runs(_open_store(ctx, db))
    _print(render_runs(found, style))
    _say(_count(len(found), "run"))


@runs_app.command()
def withdraw(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name of the run, as registry runs shows it.")],
    db: Db = None,
) -> None:
    """Stop counting a run's votes; they are kept and can be restored."""
    from tuning_registry.operations.reports import set_withdrawn

    now = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
    changed = set_withdrawn(_open_store(ctx, db), run, now)
    _say(f"{printable(run)}: {'withdrawn; its votes count no more' if changed else 'was withdrawn already'}")


@runs_app.command()
def restore(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name of the run, as registry runs shows it.")],
    db: Db = None,
) -> None:
    """Count a withdrawn run's votes again."""
    from tuning_registry.operations.reports import set_withdrawn

    changed = set_withdrawn(_open_store(ctx, db), run, None)
    _say(f"{printable(run)}: {'restored; its votes count again' if changed else 'was not withdrawn'}")


@db_app.callback()
def _db_group(ctx: typer.Context, db: Db = None) -> None:
    if db is not None:
        ctx.find_root().obj = db


@db_app.command()
def upgrade(ctx: typer.Context, db: Db = None) -> None:
    """Create the schema, or bring an older one up to date."""
    from tuning_registry.db.migrate import upgrade_database

    before, after = upgrade_database(_open_store(ctx, db))
    _say(f"schema {after}: nothing to do" if before == after else f"schema {before or 'absent'} -> {after}")


@db_app.command()
def check(ctx: typer.Context, db: Db = None) -> None:
    """Check that the database can be used as it is: integrity, revision and schema; exit 1 if not."""
    from tuning_registry.db.check import find_problems

    problems = find_problems(_open_store(ctx, db))
    for problem in problems:
        _say(f"problem: {problem}")
    if problems:
        raise typer.Exit(1)
    _say("no problem found")


@db_app.command()
def path(ctx: typer.Context, db: Db = None) -> None:
    """Print which database is used (a URL without its password)."""
    from tuning_registry.db.url import resolve_url, shown_url

    _print(shown_url(resolve_url(db if db is not None else ctx.find_root().obj)) + "\n")


@app.command()
def merge(
    paths: Paths,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to; - for stdout.")],
    arch: Annotated[str | None, typer.Option(metavar="ARCH", help="Architecture, if the files hold several.")] = None,
    source: Annotated[str, typer.Option(metavar="TEXT", help="Text for the table's source.")] = "",
    triton: StatedTriton = None,
) -> None:
    """Merge recordings into a table in one go, without a database file."""
    from tuning_registry.operations.export import export_table, only_arch
    from tuning_registry.operations.ingest import IngestOptions
    from tuning_registry.operations.merge import ingest_in_memory

    store = ingest_in_memory(paths, IngestOptions(triton=triton), _track)
    selection = Selection(arch=arch or only_arch(store))
    _write_export(export_table(store, selection, source=source or None), output)


@app.command()
def report(paths: Paths, style: FormatOption = Format.table, exit_code: ExitCode = False) -> None:
    """Report the disagreements among recordings in one go, without a database file."""
    from tuning_registry.operations.merge import ingest_in_memory
    from tuning_registry.operations.reports import find_disagreements

    store = ingest_in_memory(paths, track=_track)
    found, total = find_disagreements(store, Selection())
    _print(render_disagreements(found, style))
    _say(_disagree(len(found), total) if total else "the files hold no vote")
    if exit_code and (found or not total):
        raise typer.Exit(1)


def main() -> None:
    """Entry point of the `registry` command."""
    # A short process that builds much and frees little: the collector need not look through it every 700 objects.
    gc.set_threshold(50_000)
    app(prog_name="registry")


if __name__ == "__main__":
    main()
