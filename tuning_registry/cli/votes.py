"""The panel "Votes and timings": what ranks chose, how fast it is, and who disagreed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from tuning_registry.cli.commands import Target, command, nothing_matches
from tuning_registry.cli.console import print_data, print_message
from tuning_registry.cli.options import ALL, CHOICES, ExitCode, FormatOption, PolicyOption
from tuning_registry.errors import TableError, UsageError, printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.formats.stores import place_of
from tuning_registry.formats.table import read_table
from tuning_registry.model.globs import is_glob
from tuning_registry.model.origins import Dimension
from tuning_registry.rendering.audits import finding_lines, render_audits
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.costs import render_costs
from tuning_registry.rendering.explanations import near_key_text, render_explained
from tuning_registry.rendering.inventory import render_kernels, render_keys
from tuning_registry.rendering.ranks import render_ranks
from tuning_registry.rendering.sources import comparison_text, render_comparison
from tuning_registry.rendering.votes import render_disagreements, render_winners, spelling_note
from tuning_registry.rules.evidence import Policy
from tuning_registry.rules.overrides import Overrides
from tuning_registry.rules.similar_names import similar_names
from tuning_registry.rules.spellings import alike
from tuning_registry.wording import count_of, list_some

if TYPE_CHECKING:
    from tuning_registry.db.store import Store
    from tuning_registry.model.selection import Selection
    from tuning_registry.operations.election.tally import EntryVotes
    from tuning_registry.operations.reports.explained import Explanation


@command(
    *CHOICES,
    examples=(
        "registry winners --arch sm90 --kernel '*norm*'",
        "registry winners --run july --policy fastest --format csv",
    ),
)
def winners(target: Target, policy: PolicyOption = Policy.MAJORITY, style: FormatOption = Format.table) -> None:
    """Show the elected config of every entry, with its votes."""
    from tuning_registry.operations.election.winners import find_winners

    store = target.open()
    found = find_winners(store, target.selection, policy)
    print_data(render_winners(found, style))
    print_message(count_of(len(found), "winner") if found else nothing_matches(store, target.selection.kernel))


@command(
    *CHOICES,
    examples=(
        "registry disagreements --arch sm90",
        "registry disagreements --cost --kernel _chunk_cumsum_fwd_kernel",
        "registry disagreements --run july --rank 0-3 --format json",
        "registry disagreements --between source --kernel fused_moe_kernel",
    ),
)
def disagreements(
    target: Target,
    cost: Annotated[
        bool,
        typer.Option("--cost", help="Show the cost of each disagreement according to the timings, the highest first."),
    ] = False,
    between: Annotated[
        Dimension | None,
        typer.Option(
            "--between",
            metavar="WHAT",
            help="Compare curated choices instead of votes: between sources (projects), versions of a project, or "
            "Triton versions.",
        ),
    ] = None,
    style: FormatOption = Format.table,
    exit_code: ExitCode = False,
) -> None:
    """Show the entries on which ranks disagree, and which ranks chose which config.

    With --between, shows where the files of other tools disagree.
    """
    from tuning_registry.operations.election.tally import find_disagreements
    from tuning_registry.operations.reports.costs import CONFLICT, NOT_TIMED, find_costs

    if between is not None:
        if cost:
            raise UsageError("--between and --cost cannot be combined: curated choices have no timings")
        _print_comparison(target, between, style, exit_code=exit_code)
        return
    store = target.open()
    if cost:
        costed, total = find_costs(store, target.selection)
        split = [found.entry for found in costed]
        conflicts = sum(found.verdict == CONFLICT for found in costed)
        untimed = sum(found.verdict == NOT_TIMED for found in costed)
        more = f": {count_of(conflicts, 'conflict')} beyond the timing noise"
        more += f", {untimed:,} not timed" if untimed else ""
        heading = split_of(len(split), total) + more
        print_data(render_costs(costed, style, heading))
        for text in dict.fromkeys(text for one in costed for text in one.approximations):
            print_message(f"note: {text}")
    else:
        split, total = find_disagreements(store, target.selection)
        heading = split_of(len(split), total)
        print_data(render_disagreements(split, style, heading))
    print_message(heading if total else nothing_matches(store, target.selection.kernel))
    _print_overrides(store, split)
    _print_mixed_code(store, target.selection)
    for texts in sorted({group for entry in split for group in alike(choice.config for choice in entry.choices)}):
        print_message(spelling_note(texts))
    if exit_code and (split or not total):
        raise typer.Exit(1)


def _print_comparison(target: Target, between: Dimension, style: Format, *, exit_code: bool) -> None:
    """Print where curated choices differ; exit 1 if any does, or if there is nothing to compare."""
    from tuning_registry.operations.reports.between import compare_sources

    store = target.open()
    found = compare_sources(store, target.selection, between)
    print_data(render_comparison(found, style))
    if found.compared:
        print_message(comparison_text(found))
    else:
        kinds = {"source": "sources", "version": "versions of a project", "triton": "Triton versions"}[between]
        print_message(f"nothing to compare: no files of different {kinds} have an entry in common. Ingest the "
                      "files to compare; registry formats lists the formats")  # fmt: skip
    if exit_code and (found.differing or not found.compared):
        raise typer.Exit(1)


def _print_overrides(store: Store, split: Sequence[EntryVotes]) -> None:
    """Name the pins and bans on these entries: an entry may get another config than its votes elect."""
    from tuning_registry.operations.overrides import list_overrides

    overrides = Overrides(list_overrides(store) if split else ())
    touching = {
        override.id: override for entry in split for override in overrides.touching(entry.arch, entry.kernel, entry.key)
    }
    if touching:
        named = ", ".join(f"#{number} {touching[number].action}" for number in sorted(touching))
        print_message(
            f"note: overrides apply to some of these entries ({named}); registry winners shows the configs that result"
        )


def _print_mixed_code(store: Store, selection: Selection) -> None:
    """Name the kernels whose votes compare different code, whether their ranks disagree or not."""
    from tuning_registry.operations.mixed_code import find_mixed_code

    with store.reading() as reading:
        mixed = find_mixed_code(reading, selection)
    if mixed:
        print_message(
            f"warning: ranks of one run ran different code under the same name for {count_of(len(mixed), 'kernel')}, so their "
            f"votes are not comparable: {list_some([str(found) for found in mixed], '; ')}"
        )


def split_of(split: int, total: int) -> str:
    return f"ranks disagree on {split:,} of {count_of(total, 'entry')}"


@command(*ALL, examples=("registry audit --arch sm90", "registry audit --kernel '*norm*' --findings --format json"))
def audit(
    target: Target,
    findings: Annotated[
        bool, typer.Option("--findings", help="Show only entries with a candidate that needs attention.")
    ] = False,
    style: FormatOption = Format.table,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code", help="Exit 1 if a candidate needs attention and is not banned, or if nothing matches."
        ),
    ] = False,
) -> None:
    """Show which candidates give equal bits, are outside the tolerance, or are nondeterministic.

    Needs recordings made with --audit.
    """
    from tuning_registry.operations.reports.audits import find_audits, invariant_kernels

    store = target.open()
    found = find_audits(store, target.selection)
    flagged = [entry for entry in found if entry.findings]
    still_open = [entry for entry in flagged if entry.is_open]
    print_data(render_audits(flagged if findings else found, style))
    if not found:
        print_message(nothing_matches(store, target.selection.kernel, "audits"))
    for line in (line for entry in flagged for line in finding_lines(entry)):
        print_message(line)
    kernels = invariant_kernels(found)
    if kernels:
        print_message(
            printable(f"all candidates of these kernels give equal bits: config_invariant={','.join(kernels)}")
        )
    if found:
        decided = len(flagged) - len(still_open)
        banned = f", in {decided:,} of them all are banned" if decided else ""
        print_message(f"{count_of(len(found), 'audited entry')}, {len(flagged):,} with findings{banned}")
    if exit_code and (still_open or not found):
        raise typer.Exit(1)


@command(
    "arch",
    "run",
    "rank",
    *CHOICES[4:],
    examples=("registry kernels", "registry kernels '*norm*' --arch sm90"),
)
def kernels(
    target: Target,
    pattern: Annotated[
        str | None,
        typer.Argument(metavar="PATTERN", help="A qualified name, a function name, or a pattern such as '*norm*'."),
    ] = None,
    style: FormatOption = Format.table,
) -> None:
    """List the recorded kernels with their numbers of entries, ranks, votes and disagreements."""
    from tuning_registry.operations.reports.inventory import list_kernels

    store = target.open()
    found = list_kernels(store, replace(target.selection, kernel=pattern))
    print_data(render_kernels(found, style))
    print_message(count_of(len(found), "kernel") if found else nothing_matches(store, pattern))


@command("arch", "run", "rank", *CHOICES[4:], examples=("registry keys l2norm_fwd_kernel",))
def keys(
    target: Target,
    kernel: Annotated[
        str,
        typer.Argument(metavar="KERNEL", help="A qualified name, a function name, or a pattern such as '*norm*'."),
    ],
    style: FormatOption = Format.table,
) -> None:
    """List the recorded keys of a kernel with their votes, the votes of the winner, and the number of configs chosen."""
    from tuning_registry.operations.reports.inventory import list_keys

    store = target.open()
    found = list_keys(store, replace(target.selection, kernel=kernel))
    print_data(render_keys(found, style))
    print_message(count_of(len(found), "key") if found else nothing_matches(store, kernel))


@command(
    *CHOICES,
    required=("arch", "kernel"),
    examples=(
        "registry explain --arch sm90 --kernel l2norm_fwd_kernel",
        "registry explain --arch sm90 --kernel '*norm*' --key 'D=64|*' --policy fastest",
        (
            "registry explain --arch sm90 --kernel l2norm_fwd_kernel_row "
            "--key 'D=768|torch.bfloat16|torch.bfloat16|torch.float32' --table sm90.json"
        ),
    ),
)
def explain(
    target: Target,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="Shape key, or a pattern such as 'D=128|*'. Defaults to every key of the kernel.",
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Explain which config this table gives for --key, whether or not it has an entry. Reads no database.",
        ),
    ] = None,
    policy: PolicyOption = Policy.MAJORITY,
    style: FormatOption = Format.table,
) -> None:
    """Explain an entry: its votes, timings and overrides, and why its config was chosen.

    For a key that was never recorded, shows what a pinned job would launch, and exits 1.
    """
    from tuning_registry.operations.reports.explain import explain as find_explanation

    if table is not None:
        _explain_table(target, table, key, style)
        return
    store = target.open()
    found = find_explanation(store, target.selection, key, policy)
    print_data(render_explained(found.entries, style, found.predicted))
    if found.entries:
        print_message(count_of(len(found.entries), "entry"))
    if found.sample is not None:
        print_message(f"note: {found.sample}")
    if not found.kernels:
        _print_no_kernel(store, found, target)
    elif key is not None and not any(one.config for one in found.entries):
        _print_no_key(found, str(target.selection.kernel), key)
    if not found.entries:
        raise typer.Exit(1)


def _explain_table(target: Target, file: str, key: str | None, style: Format) -> None:
    """Print what a table gives to a key; exit 1 if it does not have the kernel."""
    from tuning_registry.operations.reports.unseen import predict_from_table

    if key is None:
        raise UsageError("--table needs --key KEY: it explains a single key")
    if is_glob(key):
        raise UsageError(f"--key {key}: --table explains a single key, not a pattern")
    table, asked = read_table(place_of(file)), target.selection
    if table.arch != asked.arch:
        raise TableError(f"{file} is for {table.arch}, not {asked.arch}")
    found = predict_from_table(table, str(asked.kernel), key)
    print_data(render_explained([], style, found))
    if not found:
        names = similar_names(str(asked.kernel), list(table.texts))
        near = f"; similar: {', '.join(names)}" if names else ""
        print_message(printable(f"{file} has no kernel {asked.kernel}{near}"))
        raise typer.Exit(1)


def _print_no_kernel(store: Store, found: Explanation, target: Target) -> None:
    chosen = target.selection
    print_message(printable(f"kernel {chosen.kernel} was never recorded on {chosen.arch}"))
    if found.elsewhere:
        print_message(printable(f"recorded on {', '.join(found.elsewhere)}"))
    for name in found.similar:
        print_message(printable(f"similar: {name}"))
    if not found.similar and not found.elsewhere:
        print_message(nothing_matches(store, None, "kernels"))


def _print_no_key(found: Explanation, kernel: str, key: str) -> None:
    print_message(printable(f"key {key} of {kernel} has no elected config"))
    if found.predicted:
        return
    for near in found.nearest:
        print_message(f"nearest: {near_key_text(near)}")
    star = found.any_key
    if star is not None and star.config is not None:
        print_message(printable(f'the kernel\'s "*" entry covers this key: {short_config(star.config)} ({star.why})'))
    else:
        print_message(
            'no "*" entry covers this key. Create one with registry export --generalize (from timings), or pin one with '
            "registry pin --key '*'"
        )


@command(*ALL, examples=("registry ranks --run july", "registry ranks --outliers --exit-code"))
def ranks(
    target: Target,
    outliers: Annotated[bool, typer.Option("--outliers", help="Show only outliers.")] = False,
    style: FormatOption = Format.table,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 1 if a rank is an outlier, or if nothing matches the filters.")
    ] = False,
) -> None:
    """Compare each rank with the others by dissenting votes and timings, and find outliers."""
    from tuning_registry.operations.election.timings import MOST_RECORDINGS
    from tuning_registry.operations.reports.ranks import compare_ranks

    store = target.open()
    fleet = compare_ranks(store, target.selection)
    print_data(render_ranks(fleet.outliers if outliers else fleet.ranks, style))
    count = count_of(len(fleet.ranks), "rank")
    if not fleet.ranks:
        print_message(nothing_matches(store, target.selection.kernel, "votes or timings"))
    elif fleet.time_ratio is None and fleet.dissent is None and not fleet.outliers:
        print_message(f"{count}: too few to find outliers")
    else:
        number = len(fleet.outliers)
        by_votes = (
            ""
            if fleet.time_ratio or fleet.dissent is None
            else " by votes; there are too few timings to compare speeds"
        )
        print_message(
            f"{number:,} of {len(fleet.ranks):,} ranks {'is an outlier' if number == 1 else 'are outliers'}{by_votes}"
        )
    if fleet.elected_only:
        print_message(
            f"note: of more than {MOST_RECORDINGS:,} recordings, only the times of each entry's elected config are compared"
        )
    if exit_code and (fleet.outliers or not fleet.ranks):
        raise typer.Exit(1)
