"""The database and the selection that a command's options name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tuning_registry.cli.console import say
from tuning_registry.errors import UsageError, printable
from tuning_registry.model.selection import Selection, parse_packages

if TYPE_CHECKING:
    from tuning_registry.db.store import Store


def open_store(ctx: typer.Context, db: str | None) -> Store:
    """The store of `--db`, wherever it stood; says which one it is."""
    from tuning_registry.db.dialects import network_file_system
    from tuning_registry.db.store import Store
    from tuning_registry.db.url import is_in_memory, resolve_url, shown_url, sqlite_file

    url = resolve_url(db if db is not None else ctx.find_root().obj)
    if is_in_memory(url):
        raise UsageError("a database in memory ends with this command; registry merge and report need none")
    say(f"database: {printable(shown_url(url))}")
    file = sqlite_file(url)
    kind = network_file_system(file.parent) if file is not None else ""
    if kind:
        say(
            f"warning: this SQLite file is on {kind}, where locking is unreliable; let one process write it, "
            "or use Postgres"
        )
    return Store(url)


def selection_of(
    arch: str | None,
    kernel: str | None,
    run: list[str] | None,
    source: str | None,
    triton: str | None,
    package: list[str] | None,
) -> Selection:
    return Selection(
        arch=arch,
        kernel=kernel,
        runs=tuple(run or ()),
        source=source,
        triton=triton,
        packages=parse_packages(package or []),
    )


def nothing_matches(store: Store, kernel: str | None, what: str = "vote") -> str:
    from tuning_registry.operations.reports import what_there_is

    return printable(f"no {what} matches. {what_there_is(store, kernel)}")
