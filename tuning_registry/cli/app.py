"""The `registry` command: its groups, in the order of its help, and how errors leave it."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tuning_registry import __version__
from tuning_registry.cli import comparing, database, explain, ingest, misses, overrides, ranks, runs, tables, votes
from tuning_registry.cli.console import say
from tuning_registry.cli.options import Db
from tuning_registry.errors import RegistryError, UsageError, printable


class _Group(TyperGroup):
    """Turns the package's errors into one or two lines and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except RegistryError as error:
            if ctx.params.get("debug"):
                _say_traceback()
            say(f"error: {error}")
            raise typer.Exit(2 if isinstance(error, UsageError) else 1) from None
        except BrokenPipeError:
            # The reader of our output went away (`| head`): what a shell expects of a program ended so.
            _drop_output()
            raise typer.Exit(141) from None
        except OSError as error:
            # The package's own files raise FileError: this is stdout or stderr, on a full disk for one.
            if ctx.params.get("debug"):
                _say_traceback()
            _drop_output()
            say(f"error: the output cannot be written: {error.strerror or error}")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(130) from None


def _say_traceback() -> None:
    """The error being handled; texts of other packages' errors in it are not inert."""
    for line in traceback.format_exc().split("\n"):
        say(printable(line))


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
for panel, commands in {
    "Votes and timings": (
        ingest.ingest,
        votes.winners,
        votes.disagreements,
        explain.explain,
        ranks.ranks,
        misses.misses,
    ),
    "Tables": (tables.export, comparing.diff, comparing.check, tables.exports),
    "Decisions against the votes": (overrides.pin, overrides.ban, overrides.lift),
    "Without a database": (tables.merge, votes.report),
    "The database": (votes.status,),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.command("overrides", rich_help_panel="Decisions against the votes")(overrides.list_overrides)

runs_app = typer.Typer(help="List runs; withdraw or restore one.", invoke_without_command=True)
runs_app.callback()(runs.list_runs)
runs_app.command()(runs.withdraw)
runs_app.command()(runs.restore)
app.add_typer(runs_app, name="runs", rich_help_panel="The database")

db_app = typer.Typer(help="Create, upgrade, check and find the database.", no_args_is_help=True)
db_app.callback()(database.share_db)
db_app.command()(database.upgrade)
db_app.command()(database.check)
db_app.command()(database.path)
db_app.command()(database.roles)
app.add_typer(db_app, name="db", rich_help_panel="The database")


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


def main() -> None:
    """Entry point of the `registry` command."""
    # A short process that builds much and frees little: the collector need not look through it every 700 objects.
    gc.set_threshold(50_000)
    app(prog_name="registry")
