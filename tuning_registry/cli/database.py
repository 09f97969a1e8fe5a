"""`registry db`: create, upgrade, check and find the database."""

from __future__ import annotations

from typing import Annotated

import typer

from tuning_registry.cli.console import print_data, say
from tuning_registry.cli.opening import open_store
from tuning_registry.cli.options import Db


def share_db(ctx: typer.Context, db: Db = None) -> None:
    if db is not None:
        ctx.find_root().obj = db


def upgrade(ctx: typer.Context, db: Db = None) -> None:
    """Create the schema, or bring an older one up to date."""
    from tuning_registry.db.migrate import upgrade_database

    before, after = upgrade_database(open_store(ctx, db))
    say(f"schema {after}: nothing to do" if before == after else f"schema {before or 'absent'} -> {after}")


def check(ctx: typer.Context, db: Db = None) -> None:
    """Check that the database can be used as it is: integrity, revision and schema; exit 1 if not."""
    from tuning_registry.db.check import find_problems

    problems = find_problems(open_store(ctx, db))
    for problem in problems:
        say(f"problem: {problem}")
    if problems:
        raise typer.Exit(1)
    say("no problem found")


def path(ctx: typer.Context, db: Db = None) -> None:
    """Print which database is used (a URL without its password)."""
    from tuning_registry.db.url import resolve_url, shown_url

    print_data(shown_url(resolve_url(db if db is not None else ctx.find_root().obj)) + "\n")


def roles(
    prefix: Annotated[str, typer.Option(metavar="NAME", help="Beginning of the roles' names.")] = "tuning_registry",
    schema: Annotated[str, typer.Option(metavar="NAME", help="Postgres schema that holds the tables.")] = "public",
) -> None:
    """Print SQL for a recorder, a reader and an owner role on Postgres; pipe it into psql."""
    from tuning_registry.db.roles import role_statements

    print_data("".join(f"{statement};\n" for statement in role_statements(prefix, schema)))
    say("the roles cannot log in: GRANT each to the users that need it; print and run this again after an upgrade")
