"""`registry explain`: why an entry has its config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tuning_registry.cli.console import print_data, say
from tuning_registry.cli.opening import nothing_matches, open_store, selection_of
from tuning_registry.cli.options import (
    Db,
    FormatOption,
    PackageFilter,
    PolicyOption,
    RunFilter,
    SourceFilter,
    TritonFilter,
)
from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.explanations import near_key_text, render_explained
from tuning_registry.rules.evidence import Policy
from tuning_registry.wording import count_of

if TYPE_CHECKING:
    from tuning_registry.db.store import Store
    from tuning_registry.operations.explain import Explanation


def explain(
    ctx: typer.Context,
    arch: Annotated[str, typer.Option("--arch", metavar="ARCH", help="Architecture.")],
    kernel: Annotated[str, typer.Option("--kernel", metavar="NAME", help="Qualified name, or function name.")],
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Shape key; without it every entry of the kernel.")
    ] = None,
    run: RunFilter = None,
    source: SourceFilter = None,
    triton: TritonFilter = None,
    package: PackageFilter = None,
    policy: PolicyOption = Policy.MAJORITY,
    style: FormatOption = Format.table,
    db: Db = None,
) -> None:
    """Say everything about an entry: votes, timings, overrides, and why it has its config; exit 1 if nobody recorded it."""
    from tuning_registry.operations.explain import explain as find_explanation

    store = open_store(ctx, db)
    selection = selection_of(arch, kernel, run, source, triton, package)
    found = find_explanation(store, selection, key, policy)
    print_data(render_explained(found.entries, style))
    if found.entries:
        say(count_of(len(found.entries), "entry"))
    if not found.kernels:
        _say_no_kernel(store, found, arch, kernel)
    elif key is not None and not any(one.config for one in found.entries):
        _say_no_key(found, kernel, key)
    if not found.entries:
        raise typer.Exit(1)


def _say_no_kernel(store: Store, found: Explanation, arch: str, kernel: str) -> None:
    say(printable(f"nobody recorded a kernel {kernel} on {arch}"))
    if found.elsewhere:
        say(printable(f"recorded on {', '.join(found.elsewhere)}"))
    for name in found.similar:
        say(printable(f"similar: {name}"))
    if not found.similar and not found.elsewhere:
        say(nothing_matches(store, None, "kernel"))


def _say_no_key(found: Explanation, kernel: str, key: str) -> None:
    say(printable(f"no vote, pin or policy decides the key {key} of {kernel}"))
    for near in found.nearest:
        say(f"nearest: {near_key_text(near)}")
    star = found.any_key
    if star is not None and star.config is not None:
        say(printable(f"a table's * entry serves it: {short_config(star.config)} ({star.why})"))
    else:
        say("a table serves it only with a * entry, which this kernel has not: export --generalize makes one from timings, "
            "registry pin --key '*' states one")  # fmt: skip
