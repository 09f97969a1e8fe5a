"""The panel "Database": where it is, what it holds, and its schema."""

from __future__ import annotations

import functools
from typing import Annotated

import typer

from tuning_registry.cli.commands import Target, command, database_of
from tuning_registry.cli.console import print_data, print_message
from tuning_registry.cli.options import Db
from tuning_registry.cli.progress import show_progress
from tuning_registry.rendering.runs import StatusFormat, render_status


@command(examples=("registry status", "registry status --format json", "registry status --format prometheus"))
def status(
    target: Target,
    style: Annotated[
        StatusFormat,
        typer.Option(
            "--format", metavar="FORMAT", help="Output format: table, json, csv, markdown, or prometheus for metrics."
        ),
    ] = StatusFormat.table,
) -> None:
    """Show which database is used, its schema revision, and what it holds."""
    from tuning_registry.operations.reports.status import describe_status

    found = describe_status(target.open(says_pending=False))
    print_data(render_status(found, style))
    if found["revision"] is None:
        print_message("there is no registry in this database yet; registry ingest or registry db upgrade creates one")


def share_db(ctx: typer.Context, db: Db = None) -> None:
    ctx.find_root().obj = database_of(ctx, db)


@command(examples=("registry db upgrade --db new.db",))
def upgrade(target: Target) -> None:
    """Create the schema, or upgrade an older one."""
    from tuning_registry.db.migrate import upgrade_database

    store = target.open(says_pending=False)
    with show_progress("upgrading the schema") as work:
        track = functools.partial(work.track, doing="packing timings")
        before, after = upgrade_database(store, report=work.step, track=track)
    if before == after:
        print_message(f"the schema is up to date ({after})")
    else:
        print_message(f"upgraded the schema from {before} to {after}" if before else f"created the schema ({after})")


@command(examples=("registry db check",))
def check(target: Target) -> None:
    """Check the database: integrity, revision and schema. Exits 1 if it finds a problem."""
    from tuning_registry.db.check import find_problems

    problems = find_problems(target.open(says_pending=False))
    for problem in problems:
        print_message(f"problem: {problem}")
    if problems:
        raise typer.Exit(1)
    print_message("no problems found")


@command(examples=("registry db path",))
def path(target: Target) -> None:
    """Print the URL of the database, without its password."""
    from tuning_registry.db.url import resolve_url, shown_url

    print_data(shown_url(resolve_url(target.db)) + "\n")


@command(examples=("registry db roles > roles.sql",))
def roles(
    prefix: Annotated[str, typer.Option(metavar="NAME", help="Prefix for role names.")] = "tuning_registry",
    schema: Annotated[str, typer.Option(metavar="NAME", help="Postgres schema that holds the tables.")] = "public",
) -> None:
    """Print SQL that creates a recorder, a reader and an owner role on Postgres, for psql."""
    from tuning_registry.db.roles import role_statements

    print_data("".join(f"{statement};\n" for statement in role_statements(prefix, schema)))
    print_message("the roles cannot log in: GRANT them to users, and run this again after each schema upgrade")
