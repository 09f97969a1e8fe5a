"""The interface of formats of other tools: what a reader and a writer are given, and what they return.

A format is a subclass of `Format` in its own module, named by an entry point in the group
`tuning_registry.formats`. It reads, writes, or does both. It never evaluates, imports or unpickles anything of a file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tuning_registry.errors import FileError, FormatError, RecordingError
from tuning_registry.formats.files import Content, parse_json, read_bytes, read_head
from tuning_registry.formats.stores import Place
from tuning_registry.model.devices import UNKNOWN_ARCH
from tuning_registry.model.names import check_text, normal_arch
from tuning_registry.model.origins import Origin
from tuning_registry.model.records import Header, Recording, TimedCandidates, Timing

# By kernel, then shape key.
ByKernel = Mapping[str, Mapping[str, Any]]

_SQLITE = b"SQLite format 3\0"


class ToolFile:
    """A file that may be in the format of another tool. It is read at most once.

    Args:
        path: Where it is: a local file, or an object in a store.
        data: Its bytes, if they were read before.
    """

    def __init__(self, path: Place, data: bytes | None = None) -> None:
        self.path = path
        if data is not None:
            self.data = data

    @functools.cached_property
    def data(self) -> bytes:
        """The bytes of the file.

        Raises:
            FileError: It cannot be read, or is too large (`files.read_bytes`).
        """
        return read_bytes(self.path)

    @functools.cached_property
    def is_sqlite(self) -> bool:
        """Whether the file begins as an SQLite database; read it with `formats.sqlite_input`."""
        try:
            if "data" in self.__dict__:
                return self.data.startswith(_SQLITE)
            return read_head(self.path, len(_SQLITE)) == _SQLITE
        except FileError:
            return False

    @functools.cached_property
    def document(self) -> Any:
        """The JSON document in the file, read strictly; None if it holds none. For `Format.recognizes`."""
        try:
            return parse_json(self.data, str(self.path))
        except (FileError, FormatError):
            return None

    def json(self) -> Any:
        """The JSON document in the file.

        Raises:
            FileError: The file cannot be read.
            RecordingError: It is not JSON, or repeats an object key; names the place.
        """
        return parse_json(self.data, str(self.path)) if self.document is None else self.document

    def fault(self, what: str, path: tuple[str, ...] = ()) -> RecordingError:
        """An error about the content of this file; `path` leads to the value."""
        return RecordingError(str(self.path), what, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedEntry:
    """An entry with the config that it gets, for a writer.

    Attributes:
        arch: Architecture.
        device: The device that it is for; empty unless its source is per device.
        kernel: Kernel name.
        key: Shape key.
        config: Canonical text; `model.kinds.kind_of` says what it is made of.
        triton: Triton version of its votes; empty if not known.
        package: Distribution that owns the kernel, if it is known.
        version: Version of that distribution.
        votes: Votes for the config.
        total_votes: Votes on the entry.
        times_ms: Median, 20th and 80th percentile of the config in milliseconds, as medians over ranks; None if it was
            not timed.
    """

    arch: str
    device: str
    kernel: str
    key: str
    config: str
    triton: str = ""
    package: str = ""
    version: str = ""
    votes: int = 0
    total_votes: int = 0
    times_ms: tuple[float, float, float] | None = None


def _nothing() -> Iterable[Mapping[str, Any]]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """What an export gives a writer.

    Attributes:
        entries: The elected entries, sorted by architecture, kernel and key.
        votes: Every vote behind them as a row, read when it is called.
        timings: Every timing as a row, likewise.
        extras: The `extra` of every recording that counts, likewise.
        options: Further options of the command line, by name.
    """

    entries: Sequence[ElectedEntry]
    votes: Callable[[], Iterable[Mapping[str, Any]]] = _nothing
    timings: Callable[[], Iterable[Mapping[str, Any]]] = _nothing
    extras: Callable[[], Iterable[Mapping[str, Any]]] = _nothing
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a writer made.

    Attributes:
        files: Bytes by name, relative to the folder that the user names, or a function that writes them to the open
            file. A single file whose name is empty goes to the path itself.
        left_out: How many entries the format cannot hold, by the reason.
        notes: What the user must know about the files, such as where to copy them.
    """

    files: Mapping[str, Content]
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()


class Format:
    """A file format of another tool. Override `recognizes` and `read`, or `write`, or all three.

    Attributes:
        name: How `--from` and `--to` name it.
        title: One line for `registry formats`.
        suffixes: Endings of the names of its files.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = (".json",)

    def has_name(self, name: str) -> bool:
        """Whether a file of this name may be in this format; only such files in a folder are looked at."""
        return name.endswith(tuple(self.suffixes))

    def recognizes(self, file: ToolFile) -> bool:
        """Whether a file is in this format, judged by its content. Must not raise for a file of another format."""
        raise NotImplementedError

    def group(self, files: Sequence[ToolFile]) -> Iterable[Sequence[ToolFile]]:
        """The files that are read together, as one source; by default each file alone."""
        return [[file] for file in files]

    def read(self, files: Sequence[ToolFile]) -> Iterable[Recording]:
        """The recordings in files that belong together: `choices_of` builds them.

        A recording that states a rank votes. Choices without a rank are kept as curated choices, which do not vote.

        Raises:
            FileError: A file cannot be read.
            RecordingError: A file is damaged; names the file and the place (`ToolFile.fault`).
        """
        raise NotImplementedError

    def write(self, chosen: Outgoing) -> Written:
        """The files that hold the elected entries.

        Raises:
            SelectionError: The format cannot hold them, for example because they are for two devices.
        """
        raise NotImplementedError

    @property
    def can_read(self) -> bool:
        """Whether `read` is overridden."""
        return type(self).read is not Format.read

    @property
    def can_write(self) -> bool:
        """Whether `write` is overridden."""
        return type(self).write is not Format.write


def choices_of(
    file: ToolFile,
    origin: Origin,
    choices: Mapping[str, Mapping[str, str]],
    *,
    header: Header | None = None,
    arch: str = UNKNOWN_ARCH,
    device: str = "",
    timings: Mapping[str, Mapping[str, Sequence[Timing]]] | None = None,
) -> Recording:
    """The recording of choices that a file of another tool holds. Leave out what the file does not state.

    Args:
        file: The file, for messages.
        origin: Whose it is.
        choices: Canonical text of the chosen config, by kernel and shape key (`model.canonical`, `model.kinds`).
        header: Rank, versions, and whatever else the file states.
        arch: Architecture (`model.devices.arch_of_device`).
        device: The device, if the file is for one device; entries of two devices are never compared.
        timings: Timings of candidates by kernel and shape key, in milliseconds.

    Raises:
        RecordingError: A name is empty or not text.
    """
    timed = timings or {}
    for kernel, entries in (*choices.items(), *timed.items()):
        if not kernel:
            raise file.fault("the kernel has no name")
        for text in (kernel, device, *entries):
            try:
                check_text(text)
            except FormatError as fault:
                raise file.fault(fault.what, (kernel,)) from fault
    arch = normal_arch(arch)
    candidates = {
        kernel: {key: TimedCandidates.from_timings(rows) for key, rows in entries.items()}
        for kernel, entries in timed.items()
    }
    return Recording(
        file=str(file.path),
        header=header or Header(),
        votes={arch: choices} if choices else {},
        timings={arch: candidates} if candidates else {},
        device=device,
        origin=origin,
    )
