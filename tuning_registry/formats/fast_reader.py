"""The fast road into a recording: same results as `recordings`, for well-formed files of the common form.

Ranks of a job write the same few config texts over and over. msgspec splits a file into its entries
without building the configs; each distinct piece of config text is read once, strictly. Whatever is
out of the ordinary goes the strict road, which also words the errors.

A repeated object key would be lost in a dict. It is seen by counting: every member of an object has one
colon, so a file whose colons are as many as the members kept has lost none. (Colons inside names make the
count larger, never smaller: such files go the strict road.)
"""

from __future__ import annotations

import dataclasses
import json
import math
import operator
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from tuning_registry.errors import RegistryError
from tuning_registry.formats.files import read_bytes
from tuning_registry.formats.recordings import check_kinds, parse_recording
from tuning_registry.formats.sections import MAX_NAME_BYTES
from tuning_registry.model.canonical import check_text
from tuning_registry.model.names import is_known_arch
from tuning_registry.model.records import FAILED, Header, Recording, TimedCandidates

S = TypeVar("S")
T = TypeVar("T")
Counted = tuple[T, int]  # a value, and the colons of the text it was read from

_DOCUMENT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENTRIES = msgspec.json.Decoder(dict[str, dict[str, dict[str, msgspec.Raw]]])
_KERNELS = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]])
_TIMED = msgspec.json.Decoder(dict[str, list[tuple[msgspec.Raw, msgspec.Raw]]])
_NUMBERS = msgspec.json.Decoder(list[float])
_NUMERALS = b"0123456789.eE+- \t\r\n"
_DOUBLE_BYTES = 8
_LAYOUT_BYTES = 64 << 20  # of text whose layouts are remembered: files may have none in common
# The times of one candidate, as json.dumps writes them or compact; what lies between is the same in file after file.
_SPACED, _COMPACT = re.compile(rb"\}, \[(\d[^]]*)\]"), re.compile(rb"\},\[(\d[^]]*)\]")
_TIMES = b'"<times>"'  # stands for them
_NO_TIMES = re.compile(rb"null|\[\s*null\s*,\s*null\s*,\s*null\s*\]")
_FAILED_TEXT = "1e300"  # stands for Infinity, which msgspec does not read
_FAILED_MS = float(_FAILED_TEXT)
_FAILED_TIME = re.compile(rb"1e300(?<![^;,\s]1e300)(?![^;,\s])")  # it alone, no part of a longer number
_HOLDS_TIMINGS = re.compile(rb'\s*(?:\{\s*"[^"]*"\s*:\s*){3}\[')


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
    """How the timings of one kernel are written, by what stands between the times in a file.

    Attributes:
        entries: Key; canonical texts of its candidates, sorted; where their times begin and end in the packed
            numbers of the kernel.
        pick: Picks from the numbers as they stand in the file, followed by a NaN, those of the sorted candidates;
            None where that is the numbers as they stand.
        commas: What is left of the times when the numbers are taken away: three a candidate.
        colons: Of everything.
    """

    entries: tuple[tuple[str, tuple[str, ...], int, int], ...]
    pick: Callable[[list[float]], Sequence[float]] | None
    commas: bytes
    colons: int


class QuickReader:
    """Reads many recordings; remembers the config texts and names it has already checked."""

    def __init__(self) -> None:
        self._configs: dict[bytes, Counted[str]] = {}
        self._layouts: dict[tuple[bytes, ...], _Layout] = {}
        self._layout_bytes = 0
        self._names: set[str] = set()
        self._failed = self._infinite = 0  # of the file at hand: failed times read, and Infinity in it

    def read(self, path: Path) -> Recording:
        """The recording in a file; errors as for `recordings.read_recording`."""
        data, file = read_bytes(path), str(path)
        return self.read_quickly(data, file) or parse_recording(data, file)

    def read_quickly(self, data: bytes, file: str) -> Recording | None:
        """The recording in the bytes of a file; None when the strict road must decide."""
        self._failed, self._infinite = 0, data.count(b"Infinity")
        if self._infinite and _FAILED_TEXT.encode() in data:
            return None  # which of them was Infinity could not be told
        quick = data.replace(b"Infinity", _FAILED_TEXT.encode()) if self._infinite else data
        try:
            recording = self._read_version_1(quick, file) or self._read_seed(quick, file)
        except RegistryError:
            return None
        # Each Infinity was a candidate's time, and none of them stood in a name or a number.
        return recording if self._failed == self._infinite else None

    def _read_seed(self, data: bytes, file: str) -> Recording | None:
        if not _HOLDS_TIMINGS.match(data):
            votes = self._entries(_decode(_ENTRIES, data), self._votes)
            return Recording(file, Header(), votes[0]) if votes and votes[1] == data.count(b":") else None
        timings = self._entries(_decode(_KERNELS, data), self._timings)
        return Recording(file, Header(), {}, timings=timings[0]) if timings and timings[1] == data.count(b":") else None

    def _read_version_1(self, data: bytes, file: str) -> Recording | None:
        """A version 1 recording: votes and timings the fast way, everything else the strict one."""
        document = _decode(_DOCUMENT, data) if b'"format"' in data else None
        if document is None or "format" not in document:
            return None
        colons = len(document)
        votes = self._entries(_decode(_ENTRIES, document.pop("votes", b"")), self._votes)
        timings = self._entries(_decode(_KERNELS, document.pop("timings", b"{}")), self._timings)
        if votes is None or timings is None:
            return None
        rest = {name: bytes(raw) for name, raw in document.items()}
        colons += votes[1] + timings[1] + sum(raw.count(b":") for raw in rest.values())
        if colons != data.count(b":"):
            return None
        members = [json.dumps(name).encode() + b":" + raw for name, raw in rest.items()]
        header = parse_recording(b"{" + b",".join([*members, b'"votes":{}']) + b"}", file)
        recording = dataclasses.replace(header, votes=votes[0], timings=timings[0])
        check_kinds(recording)
        return recording

    def _entries(
        self,
        document: dict[str, dict[str, S]] | None,
        read: Callable[[S], Counted[dict[str, T]] | None],
    ) -> Counted[dict[str, dict[str, dict[str, T]]]] | None:
        """`{arch: {kernel: entries}}` with the entries passed through `read`; None: the strict road decides."""
        if document is None:
            return None
        colons = len(document)
        result: dict[str, dict[str, dict[str, T]]] = {}
        for arch, kernels in document.items():
            if not is_known_arch(arch):
                return None
            colons += len(kernels)
            table = result[arch] = {}
            for kernel, entries in kernels.items():
                found = read(entries)
                if found is None:
                    return None
                table[kernel] = found[0]
                colons += found[1]
            if "" in kernels or max(map(len, kernels), default=0) > MAX_NAME_BYTES // 4 or not self._check(kernels):
                return None
        return result, colons

    def _votes(self, entries: dict[str, msgspec.Raw]) -> Counted[dict[str, str]] | None:
        """The configs of one kernel's entries."""
        chosen: dict[str, str] = {}
        colons = len(entries)
        for key, raw in entries.items():
            found = self._config(raw)
            if found is None:
                return None
            chosen[key] = found[0]
            colons += found[1]
        return (chosen, colons) if self._check(entries) else None

    def _config(self, raw: msgspec.Raw | bytes) -> Counted[str] | None:
        """Canonical text of a config as it stands in a file."""
        piece = bytes(raw)
        found = self._configs.get(piece)
        if found is None:
            found = _read_config(piece)
            if found is not None:
                self._configs[piece] = found
        return found

    def _timings(self, raw: msgspec.Raw) -> Counted[dict[str, TimedCandidates]] | None:
        """The candidates' timings of one kernel's entries."""
        text = bytes(raw)
        pieces = (_SPACED if b"}, [" in text else _COMPACT).split(text)
        between, times = tuple(pieces[::2]), b";".join(pieces[1::2])
        layout = self._layouts.get(between) or self._read_layout(between)
        if layout is None or times.translate(None, _NUMERALS) != layout.commas:
            return None
        numbers = _decode(_NUMBERS, b"[" + times.replace(b";", b",") + b"]")
        if numbers is None or min(numbers, default=0) < 0:
            return None
        failed = 0
        if self._infinite:
            failed = len(_FAILED_TIME.findall(times))
            if failed != numbers.count(_FAILED_MS):
                return None  # the same number, spelled otherwise
            self._failed += failed
        if failed:
            for start in range(0, len(numbers), 3):
                if _FAILED_MS in numbers[start : start + 3]:
                    numbers[start : start + 3] = FAILED
        picked = numbers if layout.pick is None else layout.pick([*numbers, math.nan])
        packed = array("d", picked).tobytes()
        timed = {key: TimedCandidates(configs, packed[start:end]) for key, configs, start, end in layout.entries}
        return timed, layout.colons

    def _read_layout(self, between: tuple[bytes, ...]) -> _Layout | None:
        """What stands between the times of a kernel's candidates, read strictly."""
        text = (b"}," + _TIMES).join(between)
        document = _decode(_TIMED, text)
        if document is None or not self._check(document):
            return None
        entries: list[tuple[str, tuple[str, ...], int, int]] = []
        picked: list[int] = []
        timed = 0
        colons = len(document)
        for key, pairs in document.items():
            starts: dict[str, range | list[int]] = {}  # by config, where its three numbers are
            for piece, three in pairs:
                config = self._config(piece)
                if config is None or config[0] in starts:
                    return None
                if bytes(three) == _TIMES:
                    starts[config[0]] = range(3 * timed, 3 * timed + 3)
                    timed += 1
                elif _NO_TIMES.fullmatch(bytes(three)):
                    starts[config[0]] = [-1] * 3
                else:
                    return None
                colons += config[1]
            configs = tuple(sorted(starts))
            start = len(picked) * _DOUBLE_BYTES
            picked += [number for config in configs for number in starts[config]]
            entries.append((key, configs, start, len(picked) * _DOUBLE_BYTES))
        if text.count(_TIMES) != timed:
            return None  # what looked like times stood inside a name or a config
        pick = None if picked == list(range(3 * timed)) else operator.itemgetter(*picked)
        layout = _Layout(tuple(entries), pick, b";".join([b",,"] * timed), colons)
        self._layout_bytes += len(text)
        if self._layout_bytes > _LAYOUT_BYTES:
            self._layouts.clear()
            self._layout_bytes = len(text)
        return self._layouts.setdefault(between, layout)

    def _check(self, names: Mapping[str, object]) -> bool:
        """Whether both databases can hold these names."""
        if self._names.issuperset(names):
            return True
        try:
            for name in names:
                check_text(name)
        except RegistryError:
            return False
        self._names.update(names)
        return True


def _decode(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T | None:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _read_config(piece: bytes) -> Counted[str] | None:
    """Canonical text of a config as it stands in a file."""
    if not piece.startswith(b"{"):
        return None
    try:
        recording = parse_recording(b'{"sm0":{"k":{"":' + piece + b"}}}", "")
    except RegistryError:
        return None
    return recording.votes["sm0"]["k"][""], piece.count(b":")
