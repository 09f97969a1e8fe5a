"""Writing recordings in version 2, which `recordings` reads, from one JSON text per entry."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from tuning_registry.formats.recordings import FORMAT, SECTIONS, VERSION
from tuning_registry.model.canonical import dump_json
from tuning_registry.model.records import Header, Observation, Recording, TimedCandidates

_CHUNK_BYTES: Final = 1 << 18
# The head of a file holds the first ones: recorders look there for a rival's run.
_FACTS: Final = ("run", "rank", "world_size", "host", "triton", "source", "packages", "modules")
_FACTS_SINCE_2: Final = ("id", "attempt", "local_rank", "sources", "extra")
_DEVICE: Final = ("device_name", "device_arch", "multiprocessor_count")

# By section, architecture, kernel and key: the JSON text of the value. For a vote it is the canonical text of its config.
Texts = Mapping[str, Mapping[str, Mapping[str, Mapping[str, bytes]]]]


def recording_bytes(recording: Recording) -> bytes:
    """The file content of a recording: ASCII JSON on one line. `recordings.parse_recording` is the inverse.

    Fields of the header that are None or empty, and empty sections other than `votes`, are left out.
    """
    write: dict[str, Callable[[Any], bytes]] = {
        "votes": str.encode, "observations": observation_text, "timings": timings_text, "candidate_sets": set_text,
    }  # fmt: skip
    texts = {
        section: {
            arch: {
                kernel: {key: write[section](value) for key, value in keys.items()} for kernel, keys in kernels.items()
            }
            for arch, kernels in getattr(recording, section).items()
        }
        for section in SECTIONS
    }
    return b"".join(recording_chunks(recording.header, texts))


def recording_chunks(header: Header, texts: Texts) -> Iterator[bytes]:
    """Yield the same content in pieces of about 256 KB. Joining texts is all that happens, so no step takes long."""
    pieces: list[bytes] = []
    size = 0
    for piece in _pieces(header, texts):
        pieces.append(piece)
        size += len(piece)
        if size > _CHUNK_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    yield b"".join(pieces)


def observation_text(observation: Observation) -> bytes:
    """The JSON text of an observation."""
    return f'{{"config": {observation.config or "null"}, "reason": {json.dumps(observation.reason)}}}'.encode("ascii")


def timings_text(timed: TimedCandidates) -> bytes:
    """The JSON text of the timings of an entry; times are finite numbers."""
    rows = (
        f"[{config}, {'[null, null, null]' if times is None else repr(list(times))}]"
        for config, times in zip(timed.configs, timed.times_ms, strict=True)
    )
    return f"[{', '.join(rows)}]".encode("ascii")


def set_text(fingerprint: str) -> bytes:
    """The JSON text of the fingerprint of a candidate set."""
    return json.dumps(fingerprint).encode("ascii")


def _pieces(header: Header, texts: Texts) -> Iterator[bytes]:
    yield dump_json(_header_fields(header), sort_keys=False)[:-1].encode("ascii")
    for section in SECTIONS:
        if section == "votes" or texts.get(section):
            yield f', "{section}": '.encode()
            yield from _object((arch, _object((kernel, _object((key, (text,)) for key, text in _items(keys)))
                                              for kernel, keys in _items(kernels)))
                               for arch, kernels in _items(texts.get(section, {})))  # fmt: skip
    yield b"}\n"


def _items(mapping: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(mapping.items(), key=lambda item: item[0])


def _object(members: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[bytes]:
    opening = "{"
    for name, value in members:
        yield f"{opening}{json.dumps(name)}: ".encode("ascii")
        yield from value
        opening = ", "
    yield b"}" if opening == ", " else b"{}"


def _header_fields(header: Header) -> dict[str, Any]:
    """The fields that the header states. One without an `id` is written in version 1, which has no such field."""
    if header.id is None:
        return {"format": FORMAT, "version": 1, **_stated(header, _FACTS), **_device(header, _DEVICE)}
    facts = _stated(header, (*_FACTS, *_FACTS_SINCE_2)) | _stated(header.hardware, ("cuda", "ptxas"))
    return {"format": FORMAT, "version": VERSION, **facts, **_device(header, (*_DEVICE, "device_uuid"))}


def _stated(holder: object, names: Iterable[str]) -> dict[str, Any]:
    """The fields that are neither None nor an empty mapping, in the order of their names."""
    values = {name: getattr(holder, name) for name in names}
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None and value != {}
    }


def _device(header: Header, names: Iterable[str]) -> dict[str, Any]:
    device = {name.removeprefix("device_"): value for name, value in _stated(header, names).items()}
    if header.id is not None:
        device |= _stated(header.hardware, ("driver", "sm_clock_mhz", "memory_clock_mhz", "power_limit_w"))
    return {"device": device} if device else {}
