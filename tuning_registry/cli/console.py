"""Output of the commands: data to stdout, messages to stderr."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Final, TextIO

import typer

from tuning_registry.errors import FileError
from tuning_registry.rendering.screen import Paint, Screen, coloured

_PAINTS: Final = {"error": Paint.BAD, "problem": Paint.BAD, "warning": Paint.CAUTION, "skipped": Paint.CAUTION}


def find_screen(stream: TextIO | None) -> Screen:
    """The terminal that a stream writes to; without colours if `NO_COLOR` is set. See https://no-color.org."""
    if stream is None or not stream.isatty():
        return Screen()
    has_colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    return Screen(shutil.get_terminal_size().columns, has_colours)


def print_message(text: str) -> None:
    """Write a line to stderr; on a terminal, the word that says how serious it is has a colour."""
    kind, colon, rest = text.partition(":")
    if kind in _PAINTS and find_screen(sys.stderr).has_colours:
        text = coloured(kind + colon, _PAINTS[kind]) + rest
    typer.echo(text, err=True)


def print_data(text: str) -> None:
    """Write data to stdout, with an escape for each character that its encoding lacks."""
    write_stdout(text.encode(getattr(sys.stdout, "encoding", None) or "utf-8", "backslashreplace"))


def write_stdout(data: bytes) -> None:
    if sys.stdout is None:
        raise FileError("stdout is closed")
    sys.stdout.flush()
    rest = memoryview(data)
    while rest:  # with PYTHONUNBUFFERED a write may be partial, and print would silently lose the rest
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()


def is_stdout(output: str | None) -> bool:
    """Whether an output file means stdout."""
    # /dev/stdout may lead to a file (`>> log`), which must be appended to, not replaced.
    return output is None or output in {"-", "/dev/stdout"}
