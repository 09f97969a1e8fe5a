"""What the commands say and print: messages to stderr, data to stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

import typer

from tuning_registry.errors import FileError

T = TypeVar("T")


def say(text: str) -> None:
    typer.echo(text, err=True)


def print_data(text: str) -> None:
    """Data to stdout; what its encoding cannot show as an escape."""
    write_stdout(text.encode(getattr(sys.stdout, "encoding", None) or "utf-8", "backslashreplace"))


def write_stdout(data: bytes) -> None:
    if sys.stdout is None:
        raise FileError("stdout is closed")
    sys.stdout.flush()
    rest = memoryview(data)
    while rest:  # with PYTHONUNBUFFERED a write may take only a part, and print would lose the rest in silence
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()


def track_files(files: Sequence[T]) -> Iterator[T]:
    """The files, with a progress bar on a terminal and silently elsewhere."""
    if not sys.stderr.isatty():
        yield from files
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(files, "reading", console=Console(stderr=True), transient=True)


def count_of(number: int, noun: str) -> str:
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"
