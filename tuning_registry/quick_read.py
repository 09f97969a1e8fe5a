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
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from tuning_registry.canonical import check_text
from tuning_registry.entries import MAX_NAME_BYTES
from tuning_registry.errors import RegistryError
from tuning_registry.files import read_bytes
from tuning_registry.names import is_known_arch
from tuning_registry.recordings import check_kinds, parse_recording, timed_sets
from tuning_registry.records import Header, Recording, TimedCandidates, Times

S = TypeVar("S")
T = TypeVar("T")
Counted = tuple[T, int]  # a value, and the colons of the text it was read from

_DOCUMENT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENTRIES = msgspec.json.Decoder(dict[str, dict[str, dict[str, msgspec.Raw]]])
_Ms = Annotated[float, msgspec.Meta(ge=0)]
_Timed = list[tuple[msgspec.Raw, tuple[_Ms, _Ms, _Ms] | None]]
_TIMED_ENTRIES = msgspec.json.Decoder(dict[str, dict[str, dict[str, _Timed]]])
_FAILED_TEXT = "1e300"  # stands for Infinity, which msgspec does not read
_FAILED_MS = float(_FAILED_TEXT)
_HOLDS_TIMINGS = re.compile(rb'\s*(?:\{\s*"[^"]*"\s*:\s*){3}\[')


@dataclasses.dataclass(frozen=True, slots=True)
class _Candidates:
    """Canonical texts of an entry's candidates, sorted; where each stood in the file; the colons of all."""

    configs: tuple[str, ...]
    order: tuple[int, ...]
    colons: int


class QuickReader:
    """Reads many recordings; remembers the config texts and names it has already checked."""

    def __init__(self) -> None:
        self._configs: dict[bytes, Counted[str]] = {}
        self._candidates: dict[tuple[bytes, ...], _Candidates] = {}
        self._names: set[str] = set()
        self._failed = self._infinite = 0  # of the file at hand: failed times read, and Infinity in it

    def read(self, path: Path) -> Recording:
        """The recording in a file; errors as for `recordings.read_recording`."""
        data, file = read_bytes(path), str(path)
        return self.read_quickly(data, file) or parse_recording(data, file)

    def read_quickly(self, data: bytes, file: str) -> Recording | None:
        """The recording in the bytes of a file; None when the strict road must decide."""
        self._failed, self._infinite = 0, data.count(b"Infinity")
        quick = data.replace(b"Infinity", _FAILED_TEXT.encode()) if self._infinite else data
        try:
            recording = self._read_version_1(quick, file) or self._read_seed(quick, file)
        except RegistryError:
            return None
        # Each Infinity was a candidate's time, and none of them stood in a name.
        return recording if self._failed == self._infinite else None

    def _read_seed(self, data: bytes, file: str) -> Recording | None:
        if not _HOLDS_TIMINGS.match(data):
            votes = self._entries(_decode(_ENTRIES, data), self._config)
            return Recording(file, Header(), votes[0]) if votes and votes[1] == data.count(b":") else None
        timings = self._entries(_decode(_TIMED_ENTRIES, data), self._timings)
        if timings is None or timings[1] != data.count(b":"):
            return None
        return Recording(file, Header(), {}, timings=timings[0], candidate_sets=timed_sets(timings[0]))

    def _read_version_1(self, data: bytes, file: str) -> Recording | None:
        """A version 1 recording: votes and timings the fast way, everything else the strict one."""
        document = _decode(_DOCUMENT, data) if b'"format"' in data else None
        if document is None or "format" not in document:
            return None
        colons = len(document)
        votes = self._entries(_decode(_ENTRIES, document.pop("votes", b"")), self._config)
        timings = self._entries(_decode(_TIMED_ENTRIES, document.pop("timings", b"{}")), self._timings)
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
        document: dict[str, dict[str, dict[str, S]]] | None,
        read: Callable[[S], Counted[T] | None],
    ) -> Counted[dict[str, dict[str, dict[str, T]]]] | None:
        """`{arch: {kernel: {key: value}}}` with every value passed through `read`; None: the strict road decides."""
        if document is None:
            return None
        names, colons = self._names, len(document)
        result: dict[str, dict[str, dict[str, T]]] = {}
        for arch, kernels in document.items():
            if not is_known_arch(arch):
                return None
            colons += len(kernels)
            table: dict[str, dict[str, T]] = {}
            result[arch] = table
            for kernel, entries in kernels.items():
                colons += len(entries)
                chosen: dict[str, T] = {}
                table[kernel] = chosen
                for key, raw in entries.items():
                    found = read(raw)
                    if found is None:
                        return None
                    chosen[key] = found[0]
                    colons += found[1]
                if not names.issuperset(entries) and not self._check(entries):
                    return None
            if (
                "" in kernels
                or max(map(len, kernels), default=0) > MAX_NAME_BYTES // 4
                or (not names.issuperset(kernels) and not self._check(kernels))
            ):
                return None
        return result, colons

    def _config(self, raw: msgspec.Raw | bytes) -> Counted[str] | None:
        """Canonical text of a config as it stands in a file."""
        piece = bytes(raw)
        found = self._configs.get(piece)
        if found is None:
            found = _read_config(piece)
            if found is not None:
                self._configs[piece] = found
        return found

    def _timings(self, pairs: _Timed) -> Counted[TimedCandidates] | None:
        """The candidates' timings of one entry."""
        pieces = tuple([bytes(config) for config, _ in pairs])
        found = self._candidates.get(pieces) or self._read_candidates(pieces)
        if found is None:
            return None
        times: list[Times | None] = [pairs[place][1] for place in found.order]
        if self._infinite:
            for place, three in enumerate(times):
                if three is not None and _FAILED_MS in three:
                    self._failed += three.count(_FAILED_MS)
                    times[place] = None
        return TimedCandidates(found.configs, tuple(times)), found.colons

    def _read_candidates(self, pieces: tuple[bytes, ...]) -> _Candidates | None:
        """What the configs of an entry's candidates say."""
        read = [self._configs.get(piece) or self._config(piece) for piece in pieces]
        texts = [found[0] for found in read if found is not None]
        if len(set(texts)) != len(pieces):
            return None
        order = sorted(range(len(texts)), key=texts.__getitem__)
        colons = sum(found[1] for found in read if found is not None)
        return self._candidates.setdefault(pieces, _Candidates(tuple(texts[i] for i in order), tuple(order), colons))

    def _check(self, names: Iterable[str]) -> bool:
        """Whether both databases can hold these names."""
        try:
            for name in names:
                check_text(name)
                if _FAILED_TEXT in name:
                    return False  # perhaps written as Infinity
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
    if not piece.startswith(b"{") or _FAILED_TEXT.encode() in piece:
        return None
    try:
        recording = parse_recording(b'{"sm0":{"k":{"":' + piece + b"}}}", "")
    except RegistryError:
        return None
    return recording.votes["sm0"]["k"][""], piece.count(b":")
