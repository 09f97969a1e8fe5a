"""The panel "Hand-ins": what ranks have appended to the database during training, and how it becomes votes."""

from __future__ import annotations

import re
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tuning_registry.cli.commands import Target, command
from tuning_registry.cli.console import print_data, print_message
from tuning_registry.cli.options import FormatOption
from tuning_registry.cli.progress import show_progress
from tuning_registry.errors import DatabaseError, UsageError, printable
from tuning_registry.rendering.base import Format
from tuning_registry.rendering.hand_ins import render_refused
from tuning_registry.wording import count_of

if TYPE_CHECKING:
    from tuning_registry.db.store import Store
    from tuning_registry.operations.ingest.report import FoldReport

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smh])")
_SHOWN: Final = 5  # reasons of one fold that are printed


@command(examples=("registry fold", "registry fold --retry"))
def fold(
    target: Target,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Keep running, and fold at this interval: 30s, 5m or 1h.")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Also fold hand-ins that were refused before.")] = False,
) -> None:
    """Turn the recordings that ranks have handed in into votes. Exits 1 if one of them is refused."""
    from tuning_registry.operations.ingest.folding import fold as fold_pending
    from tuning_registry.operations.ingest.hand_ins import retry_refused

    every_s = None if every is None else _parse_duration(every)
    store = target.open(says_pending=False)
    if retry:
        retry_refused(store)
    if every_s is not None:
        _serve(store, every_s)
        return
    with show_progress("folding hand-ins"):
        report = fold_pending(store)
    print_fold(report)
    if report.refused:
        raise typer.Exit(1)


def print_fold(report: FoldReport) -> None:
    """Print what was folded and refused."""
    for reason in report.refused[:_SHOWN]:
        print_message(printable(f"refused: {reason}"))
    if len(report.refused) > _SHOWN:
        print_message(f"refused: {len(report.refused) - _SHOWN:,} more; registry hand-ins lists them")
    print_message(f"folded {report}" if report.hand_ins or report.refused else "no hand-ins are pending")


def _serve(store: Store, every_s: float) -> None:
    """Fold until a signal asks to stop."""
    from tuning_registry.operations.ingest.service import fold_forever

    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    print_message(f"folding every {every_s:g} s until this process is stopped")
    fold_forever(store, every_s, ending, on_fold=print_fold, on_fault=_print_fault)
    print_message("stopped")


def _print_fault(error: DatabaseError | None) -> None:
    print_message("folding again" if error is None else f"warning: {error}; retrying until it works")


def _parse_duration(text: str) -> float:
    """Seconds of `30s`, `5m` or `1h`.

    Raises:
        UsageError: It is not a duration of at least a second.
    """
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not 1 <= seconds <= 24 * 3600:
        raise UsageError(f"--every {text!r} is not an interval; expected a number with s, m or h, such as 30s or 5m")
    return seconds


@command(examples=("registry hand-ins", "registry hand-ins --save refused"))
def hand_ins(
    target: Target,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Move refused hand-ins into recording files, for registry ingest."),
    ] = None,
    style: FormatOption = Format.table,
) -> None:
    """List hand-ins that were refused, with the reason, and count those that are pending."""
    from tuning_registry.operations.ingest.hand_ins import count_hand_ins, list_refused, save_refused

    store = target.open(says_pending=False)
    if save is not None:
        files, problems = save_refused(store, save)
        for problem in problems:
            print_message(printable(f"problem: {problem}"))
        if files:
            print_message(f"saved {count_of(len(files), 'recording')} to {printable(str(save))}; ingest them with --as-run "
                          "NAME or --replace")  # fmt: skip
        elif not problems:
            print_message("no hand-ins are refused, so nothing was saved")
        if problems:
            raise typer.Exit(1)
        return
    print_data(render_refused(list_refused(store), style))
    counts = count_hand_ins(store)
    print_message(f"{count_of(counts.refused, 'refused hand-in')}, {counts.pending:,} pending")
