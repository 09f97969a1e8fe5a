"""The strict reader of per-rank recording files, in the form of the seed and in versions 1 and 2."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from tuning_registry.errors import FormatError, RecordingError, describe
from tuning_registry.formats.files import kind_of, parse_json, read_bytes
from tuning_registry.formats.sections import read_entries
from tuning_registry.formats.stores import Place
from tuning_registry.model.canonical import config_text
from tuning_registry.model.names import check_text, lookup_key
from tuning_registry.model.records import (
    IMPOSSIBLE_TIME,
    Hardware,
    Header,
    Observation,
    Recording,
    TimedCandidates,
    Timing,
    measured_times,
)

FORMAT = "tuning-registry recording"
VERSION = 2  # that is written; version 1 is read for ever
_VERSIONS = (1, 2)
_RANK_NAME = re.compile(r"(?P<prefix>.*)\.rank(?P<rank>[0-9]{1,9})\.json")
# Fields of the header by the version that brought them. Later ones are in `extra`.
_HEADER_FIELDS = {
    1: ("run", "rank", "world_size", "host", "triton", "packages", "modules", "source"),
    2: ("id", "attempt", "local_rank", "sources", "extra"),
}
# Names in a recording, and in our header.
_DEVICE_FIELDS = {
    1: {"name": "device_name", "arch": "device_arch", "multiprocessor_count": "multiprocessor_count"},
    2: {"uuid": "device_uuid"},
}
_DEVICE_HARDWARE = ("driver", "sm_clock_mhz", "memory_clock_mhz", "power_limit_w")  # the rest of `device`
_HARDWARE = ("cuda", "ptxas")  # outside `device`
SECTIONS: Final = ("votes", "observations", "timings", "candidate_sets")

T = TypeVar("T")


def read_recording(path: Place) -> Recording:
    """The recording in a file.

    Raises:
        FileError: The file cannot be read.
        RecordingError: It is not a recording; names the place, what was found and what was expected.
    """
    return parse_recording(read_bytes(path), str(path))


def parse_recording(data: bytes, file: str) -> Recording:
    """The recording in the bytes of a file; `file` names it in messages.

    Raises:
        RecordingError: As for `read_recording`.
    """
    document = parse_json(data, file)
    try:
        if not isinstance(document, dict):
            raise FormatError(f"expected a recording (a JSON object), found {describe(document)}")
        if "format" in document:
            return _from_document(document, file)
        other = kind_of(document)
        if other:
            raise FormatError(f"expected a recording {{arch: {{kernel: {{key: config}}}}}}, found {other}")
        if _holds_timings(document):
            return _from_timings(document, file)
        return Recording(file, Header(), read_entries(document, _config))
    except RecordingError:
        raise
    except FormatError as fault:
        raise RecordingError(file, fault.what, fault.path) from fault


def rank_in_name(file_name: str) -> tuple[str, int | None]:
    """The prefix and rank of `<prefix>.rank<N>.json`; the stem and None for another name."""
    match = _RANK_NAME.fullmatch(file_name)
    return (match["prefix"], int(match["rank"])) if match else (file_name.removesuffix(".json"), None)


def _holds_timings(document: Mapping[str, Any]) -> bool:
    """Whether the first entry of a seed document is an array of candidates, not a config."""
    kernels = [entries for entries in document.values() if isinstance(entries, dict)]
    entries = [keys for names in kernels for keys in names.values() if isinstance(keys, dict)]
    return isinstance(next((value for keys in entries for value in keys.values()), None), list)


def _from_timings(document: Mapping[str, Any], file: str) -> Recording:
    """Timings of candidates, `{arch: {kernel: {key: [[config, [median, p20, p80]], ...]}}}`, which never vote."""
    return Recording(file, Header(), {}, timings=read_entries(document, read_timings))


def _from_document(document: Mapping[str, Any], file: str) -> Recording:
    """A recording of version 1 or 2."""
    version = _version_of(document)
    known = ("format", "version", "device", *_fields_of(version), *SECTIONS, *(_HARDWARE if version > 1 else ()))
    unknown = document.keys() - set(known)
    if unknown:
        hint = "; what later versions add is in 'extra'" if version > 1 else ""
        raise FormatError(f"unknown field of a version {version} recording{hint}", (min(unknown),))
    for name in ("run", "rank", "votes", *(["id"] if version > 1 else [])):
        if document.get(name) is None:
            raise FormatError(f"required field {name!r} is missing", (name,))

    def section(name: str, read: Callable[[Any], T]) -> dict[str, dict[str, dict[str, T]]]:
        try:
            return read_entries(document.get(name, {}), read)
        except FormatError as fault:
            raise fault.under(name) from fault

    return checked(
        Recording(
            file,
            _header(document, version),
            section("votes", _config),
            section("observations", _observation),
            section("timings", read_timings),
            section("candidate_sets", check_text),
        )
    )


def _version_of(document: Mapping[str, Any]) -> int:
    if document["format"] != FORMAT:
        raise FormatError(f"expected {FORMAT!r}, found {describe(document['format'])}", ("format",))
    version = document.get("version")
    if type(version) is not int or version not in _VERSIONS:
        newer = "; a newer tuning-registry may read it" if type(version) is int and version > VERSION else ""
        raise FormatError(f"expected recording version 1 or {VERSION}, found {describe(version)}{newer}", ("version",))
    return version


def _fields_of(version: int) -> tuple[str, ...]:
    return tuple(name for since, names in _HEADER_FIELDS.items() if since <= version for name in names)


def _header(document: Mapping[str, Any], version: int) -> Header:
    fields = {name: document[name] for name in _fields_of(version) if document.get(name) is not None}
    names = {name: ours for since, held in _DEVICE_FIELDS.items() if since <= version for name, ours in held.items()}
    measured = _DEVICE_HARDWARE if version > 1 else ()
    device = document["device"] if document.get("device") is not None else {}
    if not isinstance(device, dict) or device.keys() - {*names, *measured}:
        raise FormatError(f"expected an object with the fields {', '.join([*names, *measured])}", ("device",))
    fields |= {names[name]: value for name, value in device.items() if name in names}
    if version > 1:
        held = [(device, name) for name in measured] + [(document, name) for name in _HARDWARE]
        fields["hardware"] = Hardware(**{name: place.get(name) for place, name in held})
    return Header(**fields)


def checked(recording: Recording) -> Recording:
    """The recording, with votes for a config that has no time in it as observations.

    Raises:
        FormatError: An entry has a vote and an observation; names it.
    """
    _refuse_both_kinds(recording)
    untimed = [
        (arch, kernel, key, text)
        for arch, kernels in recording.votes.items()
        for kernel, entries in kernels.items()
        if kernel in recording.timings.get(arch, {})
        for key, text in _without_time(entries, recording.timings[arch][kernel])
    ]
    if not untimed:
        return recording
    votes = {arch: {kernel: dict(keys) for kernel, keys in held.items()} for arch, held in recording.votes.items()}
    seen = {
        arch: {kernel: dict(keys) for kernel, keys in held.items()} for arch, held in recording.observations.items()
    }
    for arch, kernel, key, text in untimed:
        del votes[arch][kernel][key]
        seen.setdefault(arch, {}).setdefault(kernel, {})[key] = Observation(text, IMPOSSIBLE_TIME)
    return replace(recording, votes=votes, observations=seen)


def _without_time(votes: Mapping[str, str], timings: Mapping[str, TimedCandidates]) -> list[tuple[str, str]]:
    """The votes on a kernel for a config that has no possible time, in whatever spelling of the key."""
    if not votes.keys() <= timings.keys():
        timings = {**{lookup_key(key): timed for key, timed in timings.items()}, **timings}
    timed = ((key, text, timings.get(key) or timings.get(lookup_key(key))) for key, text in votes.items())
    return [(key, text) for key, text, candidates in timed if candidates is not None and not candidates.may_win(text)]


def _refuse_both_kinds(recording: Recording) -> None:
    both = [
        (arch, kernel, key)
        for arch, kernels in recording.observations.items()
        for kernel, keys in kernels.items()
        for key in keys
        if lookup_key(key) in map(lookup_key, recording.votes.get(arch, {}).get(kernel, {}))
    ]
    if both:
        raise FormatError(
            "this entry has a vote and an observation; expected only one of them", ("observations", *both[0])
        )


def _config(value: Any) -> str:
    if isinstance(value, list):
        raise FormatError("expected a config, found an array; votes and timings belong in separate files")
    return config_text(value)


def _observation(value: Any) -> Observation:
    if not isinstance(value, dict) or value.keys() != {"config", "reason"}:
        raise FormatError(f"expected an object with config and reason, found {describe(value)}")
    config = value["config"]
    return Observation(None if config is None else config_text(config), check_text(value["reason"], ("reason",)))


def read_timings(value: Any) -> TimedCandidates:
    """The timings of the candidates of an entry, `[[config, [median, p20, p80]], ...]` in ms.

    Raises:
        FormatError: With the path to what is wrong.
    """
    if not isinstance(value, list):
        raise FormatError(f"expected an array of [config, [median, p20, p80]], found {describe(value)}")
    timings = []
    for index, pair in enumerate(value):
        if not isinstance(pair, list) or len(pair) != 2:
            raise FormatError(f"expected [config, [median, p20, p80]], found {describe(pair)}", (str(index),))
        try:
            timings.append(Timing(config_text(pair[0]), *_milliseconds(pair[1])))
        except FormatError as fault:
            raise fault.under(str(index)) from fault
    return TimedCandidates.from_timings(timings)


def _milliseconds(value: object) -> tuple[float | None, float | None, float | None]:
    """Median, 20th and 80th percentile in ms, all None if the candidate was not timed.

    It failed if a time is null or Infinity, which Triton writes. Times that cannot be a measurement are a fault of the
    timer (`measured_times`).
    """
    three: list[Any] = value if isinstance(value, list) else [value] * 3
    if len(three) != 3:
        raise FormatError(f"expected [median, p20, p80] in ms, found {len(three)} numbers")
    if any(number is None for number in three):
        return None, None, None
    for number in three:
        if type(number) not in (int, float):
            raise FormatError(f"expected milliseconds, or null for a failed candidate, found {describe(number)}")
    try:
        times = measured_times([float(number) for number in three])
    except OverflowError:
        raise FormatError("expected milliseconds, found an integer too large for a float") from None
    return times or (None, None, None)
