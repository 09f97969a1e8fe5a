"""`registry runs`: list them; withdraw or restore one."""

from __future__ import annotations

from typing import Annotated

import typer

from tuning_registry.cli.console import print_data, say
from tuning_registry.cli.opening import open_store
from tuning_registry.cli.options import Db, FormatOption
from tuning_registry.errors import printable
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.runs import render_runs
from tuning_registry.wording import count_of


def list_runs(ctx: typer.Context, style: FormatOption = Format.table, db: Db = None) -> None:
    """List runs; withdraw or restore one."""
    if ctx.invoked_subcommand is not None:
        if db is not None:
            ctx.find_root().obj = db
        return
    from tuning_registry.operations.runs import list_runs as find_runs

    found = find_runs(open_store(ctx, db))
    print_data(render_runs(found, style))
    say(count_of(len(found), "run"))


def withdraw(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name of the run, as registry runs shows it.")],
    db: Db = None,
) -> None:
    """Stop counting a run's votes; they are kept and can be restored."""
    from tuning_registry.operations.runs import withdraw_run

    changed = withdraw_run(open_store(ctx, db), run)
    say(f"{printable(run)}: {'withdrawn; its votes count no more' if changed else 'was withdrawn already'}")


def restore(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name of the run, as registry runs shows it.")],
    db: Db = None,
) -> None:
    """Count a withdrawn run's votes again."""
    from tuning_registry.operations.runs import restore_run

    changed = restore_run(open_store(ctx, db), run)
    say(f"{printable(run)}: {'restored; its votes count again' if changed else 'was not withdrawn'}")
