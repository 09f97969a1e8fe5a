"""The options that several commands share, each declared once."""

from __future__ import annotations

from typing import Annotated

import typer

from tuning_registry.rendering.base import Format
from tuning_registry.rules.evidence import Policy

PolicyOption = Annotated[
    Policy,
    typer.Option(
        "--policy", help="Who decides: most votes, the lowest median time, or the smallest worst case over ranks."
    ),
]
Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="SQLite file or database URL; else $TUNING_REGISTRY_DB, else a file of this user.",
        show_default=False,
    ),
]
Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH...", help="Recordings: files, folders or quoted globs."),
]
ArchFilter = Annotated[
    str | None, typer.Option("--arch", metavar="ARCH", help="Only this architecture: sm90, gfx942, ...")
]
KernelFilter = Annotated[
    str | None, typer.Option("--kernel", metavar="NAME", help="Only this kernel: qualified name, or function name.")
]
RunFilter = Annotated[list[str] | None, typer.Option("--run", metavar="RUN", help="Only this run; may be repeated.")]
SourceFilter = Annotated[
    str | None, typer.Option("--source", metavar="TEXT", help="Only recordings with this source text.")
]
TritonFilter = Annotated[
    str | None, typer.Option("--triton", metavar="V", help="Only this Triton version (none: not stated).")
]
PackageFilter = Annotated[
    list[str] | None,
    typer.Option("--package", metavar="NAME=V", help="Of NAME's kernels, only those recorded with version V."),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How rows are written.")]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="Exit 1 when rows are found, or when nothing matched at all.")
]
StatedTriton = Annotated[
    str | None, typer.Option("--triton", metavar="V", help="Triton version, where a recording does not state it.")
]
StatedPackages = Annotated[
    list[str] | None,
    typer.Option("--package", metavar="NAME=V", help="Version of a package, where not stated; may be repeated."),
]
