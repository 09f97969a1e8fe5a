"""A recording as the version 1 document that `recordings` reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tuning_registry.canonical import dump_json, parse_config
from tuning_registry.recordings import FORMAT, VERSION
from tuning_registry.records import ByEntry, Observation, Recording, TimedCandidates

T = TypeVar("T")


def recording_document(recording: Recording) -> dict[str, Any]:
    """The JSON document of a recording; `recordings.parse_recording` gives the recording back.

    Fields of the header that are None or empty, and empty sections other than `votes`, are left out.

    Raises:
        FormatError: A config is not in its canonical text.
    """
    header = recording.header
    document: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    for name in ("run", "rank", "world_size", "host", "triton", "source"):
        if getattr(header, name) is not None:
            document[name] = getattr(header, name)
    for name in ("packages", "modules"):
        if getattr(header, name):
            document[name] = dict(getattr(header, name))
    device = {
        "name": header.device_name,
        "arch": header.device_arch,
        "multiprocessor_count": header.multiprocessor_count,
    }
    if any(value is not None for value in device.values()):
        document["device"] = {name: value for name, value in device.items() if value is not None}
    document["votes"] = _section(recording.votes, parse_config)
    if recording.observations:
        document["observations"] = _section(recording.observations, _observation)
    if recording.timings:
        document["timings"] = _section(recording.timings, _timings)
    if recording.candidate_sets:
        document["candidate_sets"] = _section(recording.candidate_sets, str)
    return document


def recording_bytes(recording: Recording) -> bytes:
    """The file content of a recording: ASCII JSON on one line.

    Raises:
        FormatError: As for `recording_document`.
    """
    return (dump_json(recording_document(recording)) + "\n").encode("ascii")


def _section(entries: ByEntry[T], write: Callable[[T], Any]) -> dict[str, dict[str, dict[str, Any]]]:
    return {
        arch: {kernel: {key: write(value) for key, value in keys.items()} for kernel, keys in kernels.items()}
        for arch, kernels in entries.items()
    }


def _observation(observation: Observation) -> dict[str, Any]:
    config = None if observation.config is None else parse_config(observation.config)
    return {"config": config, "reason": observation.reason}


def _timings(timed: TimedCandidates) -> list[Any]:
    return [[parse_config(t.config), [t.median_ms, t.p20_ms, t.p80_ms]] for t in timed]
