"""The panel "Tables": export them, compare them, check them."""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tuning_registry.cli.commands import Target, command
from tuning_registry.cli.console import is_stdout, print_data, print_message, write_stdout
from tuning_registry.cli.options import VOTES, FormatOption, PolicyOption
from tuning_registry.cli.progress import show_progress
from tuning_registry.errors import DatabaseError, UsageError, printable
from tuning_registry.formats.stores import Place, StorePath, place_of
from tuning_registry.formats.table import TunedTable, read_table
from tuning_registry.formats.table_header import EXTRA
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.differences import render_changes
from tuning_registry.rendering.overrides import render_exports
from tuning_registry.rendering.validation import render_check
from tuning_registry.rules.evidence import Policy, Ties
from tuning_registry.rules.table_diff import other_changes
from tuning_registry.wording import count_of

if TYPE_CHECKING:
    from tuning_registry.db.store import Store
    from tuning_registry.model.selection import Selection
    from tuning_registry.operations.tables.differences import TableComparison
    from tuning_registry.operations.tables.export import ExportOptions
    from tuning_registry.operations.tables.exported import Export
    from tuning_registry.rules.table_diff import EntryChange

Table = Annotated[str, typer.Argument(metavar="TABLE", help="Table file, or its URL in a store.")]
_FOR_PEOPLE: Final = (Format.table, Format.markdown)  # these leave out changes that reach no launch


@command(
    "arch",
    *VOTES,
    "device",
    "curated",
    examples=(
        "registry export --arch sm90 -o sm90.json",
        "registry export --arch sm90 --policy fastest --max-regression 5 -o sm90.json",
        "registry export --arch sm90 --generalize 3 --run july",
        "registry export --to vllm --curated --device NVIDIA_H200 -o tuned",
    ),
)
def export(
    target: Target,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Output file or URL, or - for stdout (the default)."),
    ] = None,
    policy: PolicyOption = Policy.MAJORITY,
    ties: Annotated[
        Ties,
        typer.Option(
            metavar="RULE",
            help="How to choose between configs with equally many votes: text (the smallest text) or fastest (the lowest "
            "median time, if all of them were timed).",
        ),
    ] = Ties.TEXT,
    no_evidence: Annotated[
        bool,
        typer.Option(
            "--no-evidence",
            help="Leave out the evidence: how much slower each timed candidate is on each key. Jobs use it to choose "
            "configs for keys that are not in the table.",
        ),
    ] = False,
    no_compile_data: Annotated[
        bool,
        typer.Option(
            "--no-compile-data",
            help="Do not write the .compile file, from which jobs compile the table's kernels in the background.",
        ),
    ] = False,
    generalize: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help='Merge entries of a kernel into one "*" entry if that slows them down by at most this much.',
        ),
    ] = None,
    max_regression: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help="Write nothing if an entry of the table already in FILE would become slower by more than this.",
        ),
    ] = None,
    same_bits_as: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Keep the configs of this table unless audits found that a faster one gives the same bits. Needs "
            "--policy fastest or minimax.",
        ),
    ] = None,
    min_votes: Annotated[int, typer.Option(metavar="N", help="Leave out entries with fewer votes.")] = 1,
    min_agreement: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Leave out entries whose winner has a smaller share of the votes (0 to 1)."),
    ] = 0.0,
    to_format: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="FORMAT", help="Write files in another tool's format, as listed by registry formats."
        ),
    ] = None,
) -> None:
    """Write the canonical table of one architecture: one config per entry.

    With --to, writes the entries as files of another tool.
    """
    from tuning_registry.operations.tables.export import ExportOptions, export_table

    if to_format is not None:
        _export_format(target, to_format, policy, output)
        return
    if target.selection.arch is None:
        raise UsageError("an export needs an architecture; choose one with --arch")
    store = target.open()
    options = ExportOptions(
        min_votes=min_votes,
        min_agreement=min_agreement,
        policy=policy,
        ties=ties,
        evidence=not no_evidence,
        compile_data=not no_compile_data and not is_stdout(output),
        generalize_percent=generalize,
        max_regression_percent=max_regression,
        replaced=_replaced_table(output) if max_regression is not None else None,
        same_bits_as=None if same_bits_as is None else read_table(place_of(same_bits_as)),
    )
    with show_progress("making the table") as work:
        made = export_table(store, target.selection, options, lambda items: work.track(items, "reading timings"))
    write_export(made, output)
    if output is not None and not is_stdout(output):
        _remember(store, made, target.selection, options, output)


def _export_format(target: Target, name: str, policy: Policy, output: str | None) -> None:
    """Write the elected entries as files of another tool."""
    from tuning_registry.operations.tables.outgoing import write_format

    if output is None or is_stdout(output):
        raise UsageError("--to needs a file or folder for its output; name it with -o PATH")
    written, entries = write_format(target.open(), target.selection, name, place_of(output), policy)
    left = sum(written.left_out.values())
    for reason, count in written.left_out.items():
        print_message(printable(f"note: {count_of(count, 'entry')} left out: {reason}"))
    for note in written.notes:
        print_message(printable(f"note: {note}"))
    files = count_of(len(written.files), "file")
    print_message(f"wrote {count_of(entries - left, 'entry')} to {files} in {printable(output)}")


def _replaced_table(output: str | None) -> TunedTable | None:
    """The table that the output file holds; None if there is no file yet."""
    if output is None or is_stdout(output):
        raise UsageError("--max-regression needs a table to compare with; name its file with -o FILE")
    place = place_of(output)
    # False if Path.exists would raise; writing then reports why.
    there = place.exists() if isinstance(place, StorePath) else os.path.exists(place)  # noqa: PTH110
    return read_table(place) if there else None


def _remember(store: Store, made: Export, selection: Selection, options: ExportOptions, output: str) -> None:
    """Record the export in the database; if this user may not write to it, print a note instead."""
    from tuning_registry.operations.authors import current_user
    from tuning_registry.operations.tables.export_log import remember_export

    try:
        remember_export(store, made, selection, options, output=printable(output),
                        exported_by=current_user(), now=dt.datetime.now(dt.UTC))  # fmt: skip
    except DatabaseError as error:
        print_message(f"note: the table was written, but registry exports will not list it: {error}")


def write_export(made: Export, output: str | None) -> None:
    """Write a table to its file or stdout, and print a summary."""
    from tuning_registry.operations.tables.compile_data import write_table_files
    from tuning_registry.operations.tables.exported import UNKNOWN_DEVICE

    beside: Place | None = None
    if output is None or is_stdout(output):
        where = "stdout"
        write_stdout(made.data)
    else:
        where = printable(output)
        beside = write_table_files(made, place_of(output))
    print_message(
        f"wrote {count_of(made.entries, 'entry')} to {where}: {made.disagreements:,} with disagreement "
        f"({made.ties:,} decided by tie-break), {made.dropped:,} left out by thresholds"
    )
    over_bans = f", {made.pinned_banned:,} of them against a ban" if made.pinned_banned else ""
    if made.payload["tuning_registry"].get("ties") and made.ties_by_time + made.ties:
        print_message(f"timings decided {made.ties_by_time:,} of {count_of(made.ties_by_time + made.ties, 'tie')}")
    notes = {
        f"{{}} decided by pins{over_bans} (see registry overrides)": made.pinned,
        "{} decided with some configs banned (see registry overrides)": made.with_bans,
        "{} left out because every config is banned": made.banned_out,
        "{} without enough timings for the policy; used the majority's config": made.undecided,
        "{} kept the config of --same-bits-as: audits found no faster one with the same bits (see registry audit)": (
            made.kept_for_bits
        ),
        "{} left out: their config is not a Triton config (--to FORMAT writes the files of their tool)": made.other_kinds,
        "{} left out: they are for one device only (choose it with --device)": made.other_devices,
        "{} stale: some recordings chose from other candidates than the newest one (see registry winners)": (
            made.stale
        ),
    }
    for what, count in notes.items():
        if count:
            print_message(f"note: {what.format(count_of(count, 'entry'))}")
    _print_timed(made)
    if made.saving is not None:
        print_message(
            f'"*" entries for {count_of(made.saving.kernels, "kernel")} saved {count_of(made.saving.saved, "entry")}; '
            f"their largest slowdown is {made.saving.worst_percent:.2f} %"
        )
    if made.evidence:
        print_message(
            f"evidence on {count_of(made.evidence.keys, 'key')} ({made.evidence.size / 1000:,.1f} kB), used for keys "
            "that are not in the table"
        )
    if beside is not None:
        print_message(
            f"compile data on {made.compile_data.keys:,} of {count_of(made.entries, 'entry')} in {printable(beside.name)}, "
            "from which jobs compile the kernels in the background"
        )
    devices = ", ".join(f"{printable(name)} x {count}" for name, count in made.devices.items())
    on = f" on {devices}" if made.devices.keys() - {UNKNOWN_DEVICE} else ""
    recordings = made.payload["tuning_registry"]["recordings"]
    print_message(f"from {count_of(recordings, 'recording')}{on}; digest {made.selection_digest[:16]}")


def _print_timed(made: Export) -> None:
    """Print who timed the candidates, if that is not every rank."""
    if made.in_shares:
        print_message(
            f"{count_of(made.in_shares, 'entry')} from split runs: each candidate timed by "
            f"{_ranks(made.fewest_ranks, made.most_ranks)}"
        )
    by_time = made.payload["tuning_registry"].get("policy", Policy.MAJORITY) != Policy.MAJORITY
    if made.unvoted:
        why = (
            "neither votes nor timings (see registry status)"
            if by_time
            else "no votes; --policy fastest elects them by time"
        )
        print_message(f"note: left out {count_of(made.unvoted, 'entry')} from split runs with {why}")
    if made.sample is not None:
        print_message(f"note: {made.sample}")


def _ranks(fewest: int, most: int) -> str:
    return count_of(most, "rank") if fewest == most else f"{fewest} to {most} ranks"


@command(
    "arch",
    *VOTES,
    examples=(
        "registry diff sm90.json",
        "registry diff old.json sm90.json --exit-code",
        "registry diff sm90.json july",
    ),
)
def diff(
    target: Target,
    old: Annotated[
        str,
        typer.Argument(
            metavar="OLD", help="Table file or URL, or name of a run to use the table that its votes elect."
        ),
    ],
    new: Annotated[
        str | None,
        typer.Argument(
            metavar="NEW",
            help="Table file, URL or run to compare with. Defaults to the table that would be exported now.",
        ),
    ] = None,
    style: FormatOption = Format.table,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 1 if the tables differ.")] = False,
) -> None:
    """Show the differences between two tables or runs, or between a table and the current votes, with evidence."""
    other = printable(new) if new is not None else "the current votes"
    found, others = _with_votes(target, old) if new is None else _between(target, old, new)
    counts = [
        f"{number:,} {what}"
        for what in ("added", "dropped", "changed")
        if (number := sum(one.change == what for one in found))
    ]
    alike = sum(one.is_served_alike for one in found)
    note = f"; {alike:,} not shown, since wider entries give the same config" if alike and style in _FOR_PEOPLE else ""
    same = "no entry differs" if others else "no differences"
    heading = f"{printable(old)} and {other}: {', '.join(counts) or same}{note}"
    print_data(render_changes(found, style, heading, others))
    for line in others:
        print_message(f"note: {line}")
    print_message(heading)
    if exit_code and (found or others):
        raise typer.Exit(1)


def _with_votes(target: Target, old: str) -> tuple[list[EntryChange], list[str]]:
    from tuning_registry.operations.tables.differences import compare_with_votes, table_or_run

    store = target.open()
    compared = compare_with_votes(store, table_or_run(store, old, target.selection.arch), target.selection)
    print_message(_how_compared(compared))
    return compared.changes, compared.other_changes


def _between(target: Target, old: str, new: str) -> tuple[list[EntryChange], list[str]]:
    from tuning_registry.operations.tables.differences import compare_tables, table_or_run

    store = target.open()
    before, after = (table_or_run(store, name, target.selection.arch) for name in (old, new))
    stated = [
        (table.provenance.get("triton") or None, table.packages or None, _ties(table)) for table in (before, after)
    ]
    for name, one, other in zip(("triton", "packages", "ties"), *stated, strict=True):
        if one != other:
            print_message(printable(f"note: {name}: {one or 'not stated'} -> {other or 'not stated'}"))
    others = other_changes(before, after) if before.arch == after.arch else []
    why = "there is no registry in this database"
    try:
        if store.revision() is not None:
            return compare_tables(before, after, store, target.selection), others
    except DatabaseError as error:  # two files can be compared without a database
        why = str(error)
    print_message(f"note: showing the changes without votes and timings: {why}")
    return compare_tables(before, after, None, target.selection), others


def _ties(table: TunedTable) -> str:
    """Who decided the ties of a table."""
    return str(table.provenance.get(EXTRA, {}).get("ties", Ties.TEXT))


def _how_compared(compared: TableComparison) -> str:
    return printable(f"compared with {compared.compared_with()}")


@command(*VOTES, examples=("registry check sm90.json", "registry check sm90.json --run july"))
def check(
    target: Target,
    path: Table,
    same_bits_as: Annotated[
        str | None,
        typer.Option(
            "--same-bits-as",
            metavar="TABLE",
            help="Check that its configs give the bits of this table, if it was exported so.",
        ),
    ] = None,
    style: FormatOption = Format.table,
) -> None:
    """Check that a table is unedited and matches the votes, the overrides and the installed versions.

    Lists the problems it finds and exits 1 if there are any.
    """
    from tuning_registry.operations.tables.checking import check_table

    table = read_table(place_of(path))
    reference = None if same_bits_as is None else read_table(place_of(same_bits_as))
    found = check_table(target.open(), table, target.selection, same_bits_as=reference)
    for note in found.notes:
        print_message(f"note: {note}")
    name = printable(str(path))
    outcome = f"{name}: {count_of(len(found.problems), 'problem') if found.problems else found}"
    print_data(render_check(found, style, outcome))
    if found.compared is not None:
        print_message(_how_compared(found.compared))
    print_message(outcome)
    if found.problems:
        raise typer.Exit(1)


@command(examples=("registry exports", "registry exports --digest 53e442ce"))
def exports(
    target: Target,
    digest: Annotated[
        str | None,
        typer.Option("--digest", metavar="HEX", help="Only tables whose digest or selection digest begins with this."),
    ] = None,
    arch: Annotated[
        str | None, typer.Option("--arch", metavar="ARCH", help="Only tables of this architecture.")
    ] = None,
    style: FormatOption = Format.table,
) -> None:
    """List the tables exported to files, newest first. Finds the votes behind a digest in a log."""
    from tuning_registry.operations.tables.export_log import list_exports

    found = list_exports(target.open(), digest, arch)
    print_data(render_exports(found, style))
    print_message(count_of(len(found), "export"))
