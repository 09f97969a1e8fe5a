"""The options that several commands share, each declared once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from tuning_registry.rendering.base import Format
from tuning_registry.rules.evidence import Policy

PolicyOption = Annotated[
    Policy,
    typer.Option(
        "--policy",
        metavar="POLICY",
        help="How to elect a config: majority (most votes), fastest (lowest median time) or minimax (smallest worst "
        "case over ranks).",
    ),
]
Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="SQLite file or database URL. Defaults to $TUNING_REGISTRY_DB, then to a per-user SQLite file.",
        show_default=False,
    ),
]
Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH", help="Recordings: files, folders, URLs or quoted globs."),
]
FormatOption = Annotated[
    Format, typer.Option("--format", metavar="FORMAT", help="Output format: table, json, csv or markdown.")
]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="Exit 1 if rows are found, or if nothing matches the filters.")
]
StatedTriton = Annotated[
    str | None, typer.Option("--triton", metavar="VERSION", help="Triton version for recordings that do not state one.")
]
StatedPackages = Annotated[
    list[str] | None,
    typer.Option(
        "--package",
        metavar="NAME=VERSION",
        help="Version of a package for recordings that do not state it. May be repeated.",
    ),
]

# Options that choose votes. A command names those that it takes; `commands.command` makes one Selection of them.
FILTERS: Final[Mapping[str, tuple[Any, typer.models.OptionInfo]]] = {
    "arch": (str | None, typer.Option("--arch", metavar="ARCH", help="Architecture, such as sm90 or gfx942.")),
    "kernel": (
        str | None,
        typer.Option(
            "--kernel", metavar="NAME", help="Kernel: a qualified name, a function name, or a pattern such as '*norm*'."
        ),
    ),
    "run": (list[str] | None, typer.Option("--run", metavar="RUN", help="Only this run. May be repeated.")),
    "rank": (
        list[str] | None,
        typer.Option("--rank", metavar="RANKS", help="Only these ranks, such as 3 or 0-7. May be repeated."),
    ),
    "source": (
        str | None,
        typer.Option("--source", metavar="TEXT", help="Only recordings with this source text."),
    ),
    "triton": (
        str | None,
        typer.Option(
            "--triton",
            metavar="VERSION",
            help="Only recordings made with this Triton version. Use none for those that do not state one.",
        ),
    ),
    "package": (
        list[str] | None,
        typer.Option(
            "--package",
            metavar="NAME=VERSION",
            help="For the kernels of package NAME, only recordings made with this version. May be repeated.",
        ),
    ),
    "device": (
        str | None,
        typer.Option("--device", metavar="DEVICE", help="Only entries for this device, such as NVIDIA_H200."),
    ),
    "curated": (
        bool,
        typer.Option("--curated", help="Count each curated choice, from files of other tools, as a vote."),
    ),
}
VOTES: Final = ("run", "source", "triton", "package")
ALL: Final = ("arch", "kernel", "run", "rank", *VOTES[1:], "device")
CHOICES: Final = (*ALL, "curated")
