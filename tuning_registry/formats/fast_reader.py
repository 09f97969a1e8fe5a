"""A fast reader of recordings: the same results as `recordings`, for well-formed files of the common form.

The ranks of a job write the same few config texts again and again. msgspec splits a file into its entries without
building the configs, and each distinct piece of config text is read once, strictly. The strict reader decides about
everything unusual, and words the errors.

A dict would lose a repeated object key. Counting finds it: every member of an object has one colon, so a file with as
many colons as members kept has lost none. (Colons inside names only make the count larger: such files are left to the
strict reader.)
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import operator
from array import array
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from tuning_registry.errors import RegistryError
from tuning_registry.formats.files import read_bytes
from tuning_registry.formats.recordings import checked, parse_recording
from tuning_registry.formats.sections import MAX_NAME_BYTES
from tuning_registry.formats.stores import Place
from tuning_registry.model.names import check_text, is_known_arch
from tuning_registry.model.records import (
    FAILED,
    LONGEST_MS,
    SHORTEST_MS,
    Header,
    Recording,
    TimedCandidates,
    measured_times,
)

S = TypeVar("S")
T = TypeVar("T")
Counted = tuple[T, int]  # a value, and the number of colons in the text it was read from
Milliseconds = float | Literal["Infinity"] | None
Times = tuple[Milliseconds, Milliseconds, Milliseconds] | None


class _Timed(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True, gc=False):
    """`[config, [median, p20, p80]]`; out of sight of the garbage collector, which files of many timings keep busy."""

    config: msgspec.Raw
    times: Times


_DOCUMENT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENTRIES = msgspec.json.Decoder(dict[str, dict[str, dict[str, msgspec.Raw]]])
_TIMED = msgspec.json.Decoder(dict[str, dict[str, dict[str, list[_Timed]]]])

# Lists of candidates to remember. A job has a few hundred, and all ranks share them.
_CANDIDATE_LISTS = 4096


class QuickReader:
    """Reads many recordings; remembers the config texts and names that it has already checked."""

    def __init__(self) -> None:
        self._configs: dict[bytes, Counted[str]] = {}
        self._candidates = functools.lru_cache(maxsize=_CANDIDATE_LISTS)(self._read_candidates)
        self._names: set[str] = set()
        self._infinite = 0  # times of the current file that are Infinity

    def read(self, path: Place) -> Recording:
        """The recording in a file; raises the same errors as `recordings.read_recording`."""
        return self.read_bytes(read_bytes(path), str(path))

    def read_bytes(self, data: bytes, file: str) -> Recording:
        """The recording in the bytes of a file; raises the same errors as `recordings.parse_recording`."""
        return self.read_quickly(data, file) or parse_recording(data, file)

    def read_quickly(self, data: bytes, file: str) -> Recording | None:
        """The recording in the bytes of a file; None if the strict reader must decide.

        JSON has no Infinity, which Triton writes as the time of a failed candidate, and msgspec refuses it. In quotes
        it is a string that only a time may be: inside another string the quotes break the JSON, and anywhere else
        it is missing from the count of infinite times.
        """
        infinite = data.count(b"Infinity")
        if infinite and b"\\" in data:
            return None  # an escaped spelling could stand for "Infinity" too
        self._infinite = 0
        quoted = data.replace(b"Infinity", b'"Infinity"') if infinite else data
        try:
            recording = self._read_recording(quoted, file) or self._read_seed(quoted, file)
        except RegistryError:
            return None
        return recording if self._infinite == infinite else None

    def _read_seed(self, data: bytes, file: str) -> Recording | None:
        timed = _decode(_TIMED, data)  # fails at the first config of a file of votes
        if timed is not None and any(entries for kernels in timed.values() for entries in kernels.values()):
            found = self._entries(timed, self._timings)
            return Recording(file, Header(), {}, timings=found[0]) if found and found[1] == data.count(b":") else None
        votes = self._entries(_decode(_ENTRIES, data), self._votes)
        return Recording(file, Header(), votes[0]) if votes and votes[1] == data.count(b":") else None

    def _read_recording(self, data: bytes, file: str) -> Recording | None:
        """A recording of version 1 or 2: votes and timings are read fast, everything else strictly."""
        document = _decode(_DOCUMENT, data) if b'"format"' in data else None
        if document is None or "format" not in document:
            return None
        colons = len(document)
        votes = self._entries(_decode(_ENTRIES, document.pop("votes", b"")), self._votes)
        timings = self._entries(_decode(_TIMED, document.pop("timings", b"{}")), self._timings)
        if votes is None or timings is None:
            return None
        rest = {name: bytes(raw) for name, raw in document.items()}
        colons += votes[1] + timings[1] + sum(raw.count(b":") for raw in rest.values())
        if colons != data.count(b":"):
            return None
        members = [json.dumps(name).encode() + b":" + raw for name, raw in rest.items()]
        header = parse_recording(b"{" + b",".join([*members, b'"votes":{}']) + b"}", file)
        return checked(dataclasses.replace(header, votes=votes[0], timings=timings[0]))

    def _entries(
        self,
        document: dict[str, dict[str, dict[str, S]]] | None,
        read: Callable[[dict[str, S]], Counted[dict[str, T]] | None],
    ) -> Counted[dict[str, dict[str, dict[str, T]]]] | None:
        """`{arch: {kernel: entries}}` with the entries passed through `read`; None if the strict reader must decide."""
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
                if found is None or not self._check(entries):
                    return None
                table[kernel] = found[0]
                colons += len(entries) + found[1]
            if "" in kernels or max(map(len, kernels), default=0) > MAX_NAME_BYTES // 4 or not self._check(kernels):
                return None
        return result, colons

    def _votes(self, entries: dict[str, msgspec.Raw]) -> Counted[dict[str, str]] | None:
        """The configs of one kernel's entries."""
        chosen: dict[str, str] = {}
        colons = 0
        for key, raw in entries.items():
            found = self._config(bytes(raw))
            if found is None:
                return None
            chosen[key] = found[0]
            colons += found[1]
        return chosen, colons

    def _timings(self, entries: dict[str, list[_Timed]]) -> Counted[dict[str, TimedCandidates]] | None:
        """The candidates' timings of one kernel's entries."""
        timed: dict[str, TimedCandidates] = {}
        colons = 0
        for key, pairs in entries.items():
            candidates = self._candidates(tuple([bytes(pair.config) for pair in pairs]))
            if candidates is None:
                return None
            configs, order, inside = candidates
            timed[key] = TimedCandidates(configs, self._packed([pairs[position].times for position in order]))
            colons += inside
        return timed, colons

    def _read_candidates(self, pieces: tuple[bytes, ...]) -> tuple[tuple[str, ...], tuple[int, ...], int] | None:
        """The sorted canonical texts of an entry's candidates, their positions in the file, and the colons."""
        found = [config for config in map(self._config, pieces) if config is not None]
        texts = [text for text, _ in found]
        if len(set(texts)) != len(pieces):
            return None
        order = tuple(sorted(range(len(texts)), key=texts.__getitem__))
        return tuple(texts[position] for position in order), order, sum(colons for _, colons in found)

    def _packed(self, times: list[Times]) -> bytes:
        """The times of an entry's candidates as `TimedCandidates` keeps them."""
        try:
            numbers: list[Any] = list(itertools.chain.from_iterable(times))  # type: ignore[arg-type]  # None: a TypeError
            medians, p20s, p80s = numbers[::3], numbers[1::3], numbers[2::3]
            is_ordered = all(map(operator.le, p20s, medians)) and all(map(operator.le, medians, p80s))
            if is_ordered and min(p20s, default=1.0) >= SHORTEST_MS and max(p80s, default=1.0) <= LONGEST_MS:
                return array("d", numbers).tobytes()
        except TypeError:
            pass
        return array("d", itertools.chain.from_iterable(map(self._possible, times))).tobytes()

    def _possible(self, times: Times) -> tuple[float, ...]:
        """The times of one candidate, `FAILED` if one of them is null or Infinity, or if they cannot be a measurement."""
        if times is None:
            return FAILED
        self._infinite += times.count("Infinity")
        numbers = [time for time in times if isinstance(time, float)]
        return (measured_times(numbers) if len(numbers) == 3 else None) or FAILED

    def _config(self, piece: bytes) -> Counted[str] | None:
        """The canonical text of a config in a file."""
        found = self._configs.get(piece)
        if found is None:
            found = _read_config(piece)
            if found is not None:
                self._configs[piece] = found
        return found

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
    """The canonical text of a config in a file."""
    if not piece.startswith(b"{"):
        return None
    try:
        recording = parse_recording(b'{"sm0":{"k":{"":' + piece + b"}}}", "")
    except RegistryError:
        return None
    return recording.votes["sm0"]["k"][""], piece.count(b":")
