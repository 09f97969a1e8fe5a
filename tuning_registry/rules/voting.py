"""The vote rule: pure functions over recordings and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tuning_registry.errors import RecordingError
from tuning_registry.formats.sections import check_twin_keys
from tuning_registry.model.names import lookup_key
from tuning_registry.model.records import Recording

Entry = tuple[str, str, str]  # architecture, kernel, shape key


def rank_votes(counted: Mapping[str, int]) -> list[tuple[str, int]]:
    """The configs of one entry, winner first.

    Most votes win. Ties go to the smallest canonical text, compared byte by byte.
    """
    return sorted(counted.items(), key=lambda item: (-item[1], item[0].encode()))


def tally_votes(recordings: Iterable[Recording]) -> dict[Entry, dict[str, int]]:
    """How many recordings chose each config, by entry and canonical text of the config.

    Triton cannot tell some spellings of a key apart (`M=True`, `M=1`). They are one entry, under the smallest of them.

    Args:
        recordings: Those that count (`counted_recordings`).

    Raises:
        RecordingError: A recording votes under two spellings of one key.
    """
    spellings: dict[Entry, str] = {}
    counted: dict[Entry, dict[str, int]] = {}
    for recording in recordings:
        for arch, kernels in recording.votes.items():
            for kernel, entries in kernels.items():
                check_twin_keys(recording.file, arch, kernel, entries)
                for key, text in entries.items():
                    entry = (arch, kernel, lookup_key(key))
                    spellings[entry] = min(spellings.get(entry, key), key)
                    counts = counted.setdefault(entry, {})
                    counts[text] = counts.get(text, 0) + 1
    return {(arch, kernel, spellings[arch, kernel, key]): counts for (arch, kernel, key), counts in counted.items()}


def counted_recordings(recordings: Iterable[Recording]) -> list[Recording]:
    """The recordings, each run and rank once.

    Raises:
        RecordingError: Two recordings were made with different Triton versions, or have the same run and rank and
            different votes.
    """
    counted: list[Recording] = []
    identities: dict[tuple[str, int | None], Recording] = {}
    for recording in recordings:
        header = recording.header
        if counted and header.triton != counted[0].header.triton:
            raise RecordingError(
                recording.file,
                f"recorded with Triton {_stated(header.triton)}, {counted[0].file} with "
                f"{_stated(counted[0].header.triton)}; votes of two versions do not mix, so count them separately",
            )
        if header.run is not None:
            twin = identities.setdefault((header.run, header.rank), recording)
            if twin is not recording:
                if twin.votes != recording.votes:
                    raise RecordingError(
                        recording.file, f"rank {header.rank} of run {header.run!r} has other votes in {twin.file}"
                    )
                continue
        counted.append(recording)
    return counted


def _stated(version: str | None) -> str:
    return version or "(not stated)"
