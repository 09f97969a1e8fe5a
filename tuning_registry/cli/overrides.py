"""The panel "Overrides": pins and bans, which decide against the votes."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from tuning_registry.cli.commands import Target, command
from tuning_registry.cli.console import print_data, print_message
from tuning_registry.cli.options import FormatOption
from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import title_of
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.overrides import render_overrides
from tuning_registry.wording import count_of

Arch = Annotated[str, typer.Option("--arch", metavar="ARCH", help="Architecture, such as sm90 or gfx942.")]
Kernel = Annotated[
    str,
    typer.Option(
        "--kernel", metavar="NAME", help="Kernel: a qualified name, or a function name if only one kernel has it."
    ),
]
Key = Annotated[str, typer.Option("--key", metavar="KEY", help="Shape key, or * for every key of the kernel.")]
Config = Annotated[
    str, typer.Option("--config", metavar="CONFIG", help="Config, as shown by other commands or as JSON.")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, which is written into exported tables.")]
Author = Annotated[
    str | None,
    typer.Option("--author", metavar="NAME", help="Who made the decision. Defaults to USER@HOST.", show_default=False),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="YYYY-MM-DD",
        help="Last day (UTC) on which it applies. After that day, export fails until it is renewed or lifted.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Accept a config that was never recorded for this kernel and key.")
]


@command(
    examples=(
        (
            "registry pin --arch sm90 --kernel l2norm_fwd_kernel --key '*' --config 'BT=32 num_warps=2 num_stages=3' "
            "--reason 'same config for every shape'"
        ),
    )
)
def pin(
    target: Target,
    arch: Arch,
    kernel: Kernel,
    key: Key,
    config: Config,
    reason: Reason,
    author: Author = None,
    until: Until = None,
    force: Force = False,
) -> None:
    """Pin an entry to a config, regardless of its votes."""
    _add(target, "pin", arch=arch, kernel=kernel, key=key, config=config, reason=reason, author=author, until=until,
         force=force)  # fmt: skip


@command(
    examples=(
        (
            "registry ban --arch sm90 --kernel l2norm_fwd_kernel --key '*' --config 'BT=8 num_warps=1 num_stages=3' "
            "--reason 'wrong results' --until 2099-12-31"
        ),
        (
            "registry ban --arch sm90 --kernel l2norm_bwd_kernel --key '*' --config num_warps=8 "
            "--reason 'spills registers'"
        ),
    )
)
def ban(
    target: Target,
    arch: Arch,
    kernel: Kernel,
    key: Key,
    config: Annotated[
        str,
        typer.Option(
            "--config",
            metavar="CONFIG",
            help="Config, as shown by other commands or as JSON. If it has only some fields, such as num_warps=8, "
            "every config with these is banned.",
        ),
    ],
    reason: Reason,
    author: Author = None,
    until: Until = None,
    force: Force = False,
) -> None:
    """Prevent a config, or every config with some fields, from being elected and launched."""
    _add(target, "ban", arch=arch, kernel=kernel, key=key, config=config, reason=reason, author=author, until=until,
         force=force)  # fmt: skip


def _add(target: Target, action: str, *, arch: str, kernel: str, key: str, config: str, reason: str, author: str | None,
         until: str | None, force: bool) -> None:  # fmt: skip
    from tuning_registry.operations.authors import current_user
    from tuning_registry.operations.overrides import add_override

    made = add_override(
        target.open(), action, arch=arch, kernel=kernel, key=key, config=config, reason=reason,
        author=author if author is not None else current_user(), until=until, force=force, now=dt.datetime.now(dt.UTC),
    )  # fmt: skip
    print_message(
        printable(f"#{made.id}: {action} of {title_of(made.config)} for {made.kernel} {made.key} on {made.arch}")
        + (f" until {made.until}" if made.until else "")
    )


@command(examples=("registry overrides", "registry overrides --all --format json"))
def list_overrides(
    target: Target,
    everything: Annotated[
        bool, typer.Option("--all", help="Show the whole history, including replaced and lifted overrides.")
    ] = False,
    style: FormatOption = Format.table,
) -> None:
    """List the pins and bans in force, who made them and why."""
    from tuning_registry.operations.overrides import list_overrides as find_overrides

    found = find_overrides(target.open(), everything=everything)
    print_data(render_overrides(found, style))
    today = dt.datetime.now(dt.UTC).date().isoformat()
    over = [] if everything else [f"#{override.id}" for override in found if override.has_expired(today)]
    print_message(
        count_of(len(found), "event" if everything else "override") + (f"; expired: {', '.join(over)}" if over else "")
    )


@command(examples=("registry lift 1 --reason 'fixed in 0.7.0'",))
def lift(
    target: Target,
    number: Annotated[int, typer.Argument(metavar="ID", help="Id of the override, as shown by registry overrides.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, which is kept in the history.")],
    author: Author = None,
) -> None:
    """End a pin or ban. Its history is kept."""
    from tuning_registry.operations.authors import current_user
    from tuning_registry.operations.overrides import lift_override

    who = author if author is not None else current_user()
    old = lift_override(target.open(), number, reason=reason, author=who, now=dt.datetime.now(dt.UTC))
    print_message(
        printable(f"lifted #{old.id}: {old.action} of {title_of(old.config)} for {old.kernel} {old.key} on {old.arch}")
    )
