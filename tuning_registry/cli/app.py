"""The `registry` command: its panels of commands, and how errors become messages and exit statuses."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer

from tuning_registry import __version__
from tuning_registry.cli import database, hand_ins, overrides, recordings, reports, standalone, tables, votes
from tuning_registry.cli.commands import Command, Group, examples_text
from tuning_registry.cli.console import find_screen, print_message
from tuning_registry.cli.options import Db
from tuning_registry.errors import RegistryError, UsageError, printable
from tuning_registry.rendering.screen import SCREEN

_EXPECTED: Final = {"int_parsing": "an integer", "int_from_float": "an integer", "float_parsing": "a number"}


class _Root(Group):
    """Turns the package's errors into a message of one or two lines and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except RegistryError as error:
            if ctx.params.get("debug"):
                _print_traceback()
            print_message(f"error: {error}")
            raise typer.Exit(2 if isinstance(error, UsageError) else 1) from None
        except typer.BadParameter as error:
            _reword(error)
            raise
        except BrokenPipeError:
            # The reader of our output went away (`| head`); this is the status that a shell expects then.
            _drop_output()
            raise typer.Exit(141) from None
        except OSError as error:
            # The package's own files raise FileError, so this is stdout or stderr, for example on a full disk.
            if ctx.params.get("debug"):
                _print_traceback()
            _drop_output()
            print_message(f"error: cannot write the output: {error.strerror or error}")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            print_message("interrupted")
            raise typer.Exit(130) from None


def _reword(error: typer.BadParameter) -> None:
    """Turn the validation library's message about a value into ours."""
    details: list[Any] = getattr(error.__cause__, "errors", list)()
    expected = _EXPECTED.get(details[0]["type"]) if details else None
    if expected is not None:
        error.message = f"expected {expected}, found {printable(repr(details[0]['input']))}."
    error.message = error.message.removeprefix("Value error, ")


def _print_traceback() -> None:
    """Print the traceback of the error being handled, with escapes: it may quote other packages' errors."""
    for line in traceback.format_exc().split("\n"):
        print_message(printable(line))


def _drop_output() -> None:
    """Discard what the interpreter will flush to stdout at exit, since writing failed once."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    cls=_Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Shared database of Triton autotune results: ingest what each rank chose, see where ranks disagree, and export "
    "one table per architecture.",
    epilog="Exit status: 0 on success, 1 if data is rejected or a check fails, 2 on a usage error.",
)

# The help shows panels and commands in this order. One file of this folder holds the commands of one panel.
PANELS: Final[Mapping[str, Mapping[str, Callable[..., None]]]] = {
    "Recordings": {"ingest": recordings.ingest, "misses": recordings.misses},
    "Hand-ins": {"fold": hand_ins.fold, "hand-ins": hand_ins.hand_ins},
    "Votes and timings": {
        "winners": votes.winners,
        "disagreements": votes.disagreements,
        "audit": votes.audit,
        "explain": votes.explain,
        "ranks": votes.ranks,
        "kernels": votes.kernels,
        "keys": votes.keys,
    },
    "Reports": {"report": reports.report},
    "Tables": {
        "export": tables.export,
        "diff": tables.diff,
        "check": tables.check,
        "exports": tables.exports,
    },
    "Overrides": {
        "pin": overrides.pin,
        "ban": overrides.ban,
        "lift": overrides.lift,
        "overrides": overrides.list_overrides,
    },
    "Without a database": {
        "merge": standalone.merge,
        "validate": standalone.validate,
        "warm": standalone.warm,
        "formats": standalone.formats,
    },
    "Database": {"status": database.status},
}


def _add(group: typer.Typer, commands: Mapping[str, Callable[..., None]], panel: str | None = None) -> None:
    for name, function in commands.items():
        epilog = examples_text(function.examples)  # type: ignore[attr-defined]
        group.command(name, cls=Command, rich_help_panel=panel, epilog=epilog)(function)


def _group(name: str, panel: str, text: str, examples: tuple[str, ...], **options: bool) -> typer.Typer:
    group = typer.Typer(cls=Group, help=text, epilog=examples_text(examples), **options)  # type: ignore[arg-type]
    app.add_typer(group, name=name, rich_help_panel=panel)
    return group


for _panel, _commands in PANELS.items():
    _add(app, _commands, _panel)

runs_app = _group(
    "runs",
    "Recordings",
    "List the runs, newest first; withdraw, restore, compact or delete one.",
    ("registry runs", "registry runs --format json"),
    invoke_without_command=True,
)
runs_app.callback()(recordings.list_runs)
_add(
    runs_app,
    {
        "withdraw": recordings.withdraw,
        "restore": recordings.restore,
        "compact": recordings.compact,
        "delete": recordings.delete,
    },
)

db_app = _group(
    "db",
    "Database",
    "Create, upgrade, check or locate the database; print SQL for its roles.",
    ("registry db path", "registry db check --db registry.db"),
    no_args_is_help=True,
)
db_app.callback()(database.share_db)
_add(
    db_app,
    {"upgrade": database.upgrade, "check": database.check, "path": database.path, "roles": database.roles},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"tuning-registry {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    ctx: typer.Context,
    db: Db = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    ctx.obj = db
    SCREEN.set(find_screen(sys.stdout))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a console that cannot show a character shows its escape
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """Run the `registry` command."""
    # A short process that allocates much and frees little: the collector need not run every 700 objects.
    gc.set_threshold(50_000)
    app(prog_name="registry")
