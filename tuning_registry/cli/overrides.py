"""`registry pin`, `ban`, `overrides` and `lift`: deciding against the votes, visibly."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from tuning_registry.cli.console import count_of, print_data, say
from tuning_registry.cli.opening import open_store
from tuning_registry.cli.options import Db, FormatOption
from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.overrides import render_overrides

Arch = Annotated[str, typer.Option("--arch", metavar="ARCH", help="Architecture.")]
Kernel = Annotated[str, typer.Option("--kernel", metavar="NAME", help="Qualified name, or a function name if unique.")]
Key = Annotated[str, typer.Option("--key", metavar="KEY", help="Shape key; * for every key of the kernel.")]
Config = Annotated[str, typer.Option("--config", metavar="CONFIG", help="As commands show it, or as JSON.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; stands in the table.")]
Author = Annotated[
    str | None, typer.Option("--author", metavar="NAME", help="Who; else the user of this machine.", show_default=False)
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="YYYY-MM-DD", help="Last day, UTC; afterwards export refuses.")
]
Force = Annotated[bool, typer.Option("--force", help="Also a config that nobody recorded for this kernel and key.")]


def pin(
    ctx: typer.Context,
    arch: Arch,
    kernel: Kernel,
    key: Key,
    config: Config,
    reason: Reason,
    author: Author = None,
    until: Until = None,
    force: Force = False,
    db: Db = None,
) -> None:
    """Decide an entry: this config, whatever the votes say."""
    _add(ctx, "pin", arch, kernel, key, config, reason, author, until, force, db)


def ban(
    ctx: typer.Context,
    arch: Arch,
    kernel: Kernel,
    key: Key,
    config: Config,
    reason: Reason,
    author: Author = None,
    until: Until = None,
    force: Force = False,
    db: Db = None,
) -> None:
    """Keep a config from being elected."""
    _add(ctx, "ban", arch, kernel, key, config, reason, author, until, force, db)


def _add(ctx: typer.Context, action: str, arch: str, kernel: str, key: str, config: str, reason: str,
         author: str | None, until: str | None, force: bool, db: str | None) -> None:  # fmt: skip
    from tuning_registry.operations.authors import current_user
    from tuning_registry.operations.overrides import add_override

    made = add_override(
        open_store(ctx, db), action, arch=arch, kernel=kernel, key=key, config=config, reason=reason,
        author=author if author is not None else current_user(), until=until, force=force, now=dt.datetime.now(dt.UTC),
    )  # fmt: skip
    say(printable(f"#{made.id}: {action} of {short_config(made.config)} for {made.kernel} {made.key} on {made.arch}")
        + (f" until {made.until}" if made.until else ""))  # fmt: skip


def list_overrides(
    ctx: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Every event there ever was, lifted ones too.")] = False,
    style: FormatOption = Format.table,
    db: Db = None,
) -> None:
    """List the pins and bans that stand, with who decided them and why."""
    from tuning_registry.operations.overrides import list_overrides as find_overrides

    found = find_overrides(open_store(ctx, db), everything=everything)
    print_data(render_overrides(found, style))
    today = dt.datetime.now(dt.UTC).date().isoformat()
    over = [] if everything else [f"#{override.id}" for override in found if override.has_expired(today)]
    say(count_of(len(found), "event" if everything else "override") + (f"; expired: {', '.join(over)}" if over else ""))


def lift(
    ctx: typer.Context,
    number: Annotated[int, typer.Argument(metavar="ID", help="Id of the override, as registry overrides shows it.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the history.")],
    author: Author = None,
    db: Db = None,
) -> None:
    """End a pin or ban; the history keeps it."""
    from tuning_registry.operations.authors import current_user
    from tuning_registry.operations.overrides import lift_override

    old = lift_override(open_store(ctx, db), number, reason=reason, author=author if author is not None else current_user(),
                        now=dt.datetime.now(dt.UTC))  # fmt: skip
    say(
        printable(
            f"lifted #{old.id}: {old.action} of {short_config(old.config)} for {old.kernel} {old.key} on {old.arch}"
        )
    )
