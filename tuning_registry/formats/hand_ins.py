"""The payload of a hand-in: a recording on its way from a rank into the database, compressed.

Version 1 is zlib data of two lines: an object of facts that are not part of the recording, and the recording as its
file holds it. Facts: `separate_run`, the run under which the recording counts if another process has its run and rank.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from tuning_registry.errors import FormatError
from tuning_registry.model.canonical import dump_json
from tuning_registry.model.records import Header

VERSION: Final = 1
# Recordings are a few megabytes at most. The limits keep a process that folds below 512 MiB, whatever others hand in:
# of the packed and of the unpacked size, and of what Python's objects for the JSON take.
MAX_BYTES: Final = 32 << 20
MAX_PARSED_BYTES: Final = 256 << 20
# Upper bounds for each occurrence: an element with its place in a list, a list, an object, a field of an object.
_COSTS: Final = {b",": 60, b"[": 100, b"{": 100, b":": 80}
_WIDEST_CHARACTER_BYTES: Final = 4  # of every character of a string, if one of them is outside of ASCII
_SEPARATE_RUN: Final = "separate_run"


class HandIn(NamedTuple):
    """An unpacked hand-in.

    Attributes:
        recording: The bytes of the recording.
        separate_run: The run under which it counts if another process has its run and rank; None if nobody can.
    """

    recording: bytes
    separate_run: str | None = None


def pack_hand_in(chunks: Iterable[bytes], separate_run: str | None = None) -> bytes:
    """The payload of a recording, of the current version.

    Args:
        chunks: The bytes of the recording.
        separate_run: See `HandIn`.

    Raises:
        FormatError: It is larger than `MAX_BYTES`.
    """
    facts = {} if separate_run is None else {_SEPARATE_RUN: separate_run}
    packer = zlib.compressobj()
    packed = [packer.compress(dump_json(facts).encode("ascii") + b"\n")]
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > MAX_BYTES:
            raise FormatError(f"the recording is larger than {MAX_BYTES >> 20} MiB, the largest that is handed in")
        packed.append(packer.compress(chunk))
    return b"".join([*packed, packer.flush()])


def parsed_bytes(recording: bytes) -> int:
    """An estimate of the memory that the JSON takes once it is parsed. It is too high rather than too low."""
    text = len(recording) * (1 if recording.isascii() else _WIDEST_CHARACTER_BYTES)
    return text + sum(cost * recording.count(mark) for mark, cost in _COSTS.items())


def unpack_hand_in(payload: bytes) -> HandIn:
    """The recording in a payload of version 1. Uses at most about twice `MAX_BYTES` of memory, whatever the payload.

    Raises:
        FormatError: It is not zlib data, is cut off, is too large, or does not begin with an object of known facts.
    """
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(payload, MAX_BYTES + 1)
    except zlib.error as error:
        raise FormatError(f"the payload is not zlib data: {error}") from error
    if len(data) > MAX_BYTES:
        raise FormatError(f"the payload unpacks to more than {MAX_BYTES >> 20} MiB")
    if not unpacker.eof or unpacker.unused_data:
        raise FormatError("the payload is cut off, or has something after its end")
    head, _, recording = data.partition(b"\n")
    try:
        facts = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise FormatError("the payload does not begin with a line of JSON") from error
    separate_run = facts.pop(_SEPARATE_RUN, None) if isinstance(facts, dict) else None
    if facts != {} or not isinstance(separate_run, str | None):
        raise FormatError(f"the payload begins with {head[:80]!r}; expected an object with {_SEPARATE_RUN} or nothing")
    try:
        Header(run=separate_run)
    except FormatError as fault:
        raise FormatError(f"the payload begins with {head[:80]!r}; {_SEPARATE_RUN} is {fault.what}") from fault
    return HandIn(recording, separate_run)
