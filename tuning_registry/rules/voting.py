"""The vote rule as pure functions over files, under the names the seed's users know."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuning_registry.errors import RecordingError, printable
from tuning_registry.formats.files import expand_glob
from tuning_registry.formats.recordings import read_recording
from tuning_registry.formats.sections import check_twin_keys
from tuning_registry.model.canonical import parse_config
from tuning_registry.model.names import lookup_key
from tuning_registry.model.records import ByEntry, Recording

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True)
class Split:
    """An entry for which ranks chose more than one config: `(canonical text, votes)`, winner first."""

    arch: str
    kernel: str
    key: str
    votes: tuple[tuple[str, int], ...]

    @property
    def is_tie(self) -> bool:
        """Whether the winner was decided by its text, having no more votes than the next."""
        return self.votes[0][1] == self.votes[1][1]


def rank_votes(counted: Mapping[str, int]) -> list[tuple[str, int]]:
    """The configs of one entry, winner first.

    Most votes win; ties go to the smallest canonical text, compared byte by byte.
    """
    return sorted(counted.items(), key=lambda item: (-item[1], item[0].encode()))


def count_votes(paths: Paths) -> dict[str, dict[str, dict[str, Counter[str]]]]:
    """Votes per canonical config text, `{arch: {kernel: {key: Counter}}}`.

    Args:
        paths: A recording file, a glob pattern, or several of them.

    Raises:
        FileError: A file cannot be read.
        RecordingError: A file is no recording, or two of them contradict each other or state two Triton versions.
    """
    return tally_recordings(read_recording(path) for path in _files(paths))


def tally_recordings(recordings: Iterable[Recording]) -> dict[str, dict[str, dict[str, Counter[str]]]]:
    """`count_votes` over recordings that have been read.

    Spellings of a key that Triton cannot tell apart (`M=True`, `M=1`) are one key, shown as the smallest.

    Raises:
        RecordingError: A recording votes under two spellings of one key.
    """
    versions: dict[str | None, str] = {}
    identities: dict[tuple[str, int | None], Recording] = {}
    spellings: dict[tuple[str, str, str], str] = {}
    counted: dict[tuple[str, str, str], Counter[str]] = {}
    for recording in recordings:
        if not _counts(recording, identities, versions):
            continue
        for arch, kernels in recording.votes.items():
            for kernel, entries in kernels.items():
                check_twin_keys(recording.file, arch, kernel, entries)
                for key, text in entries.items():
                    entry = (arch, kernel, lookup_key(key))
                    spellings[entry] = min(spellings.get(entry, key), key)
                    counted.setdefault(entry, Counter())[text] += 1
    votes: dict[str, dict[str, dict[str, Counter[str]]]] = {}
    for entry, counter in counted.items():
        votes.setdefault(entry[0], {}).setdefault(entry[1], {})[spellings[entry]] = counter
    return votes


def _counts(
    recording: Recording, identities: dict[tuple[str, int | None], Recording], versions: dict[str | None, str]
) -> bool:
    """Whether a recording counts: not one that was counted already, nor one of another Triton."""
    header = recording.header
    first = versions.setdefault(header.triton, recording.file)
    if len(versions) > 1:
        other = next(iter(versions))
        raise RecordingError(
            first, f"Triton {header.triton or '(not stated)'}, but others are of {other or '(not stated)'}; count apart"
        )
    if header.run is None:
        return True
    twin = identities.setdefault((header.run, header.rank), recording)
    if twin is not recording and twin.votes != recording.votes:
        raise RecordingError(recording.file, f"rank {header.rank} of run {header.run!r} is also in {twin.file}")
    return twin is recording


def merge_votes(votes: ByEntry[Mapping[str, int]]) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """The winner of every entry, `{arch: {kernel: {key: config}}}` with all six config fields."""
    return {
        arch: {
            kernel: {key: parse_config(rank_votes(counted)[0][0]) for key, counted in entries.items()}
            for kernel, entries in kernels.items()
        }
        for arch, kernels in votes.items()
    }


def disagreements(votes: ByEntry[Mapping[str, int]]) -> list[Split]:
    """Entries with more than one config, sorted by arch, kernel and key.

    A rank that never ran a key has no vote on it: absence is no disagreement.
    """
    return [
        Split(arch, kernel, key, tuple(rank_votes(counted)))
        for arch, kernels in sorted(votes.items())
        for kernel, entries in sorted(kernels.items())
        for key, counted in sorted(entries.items())
        if len(counted) > 1
    ]


def merge_records(paths: Paths) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """The majority config of every entry in the files, `{arch: {kernel: {key: config}}}`."""
    return merge_votes(count_votes(paths))


def disagreement_report(paths: Paths) -> str:
    """A text that lists every disagreement with its votes, one config a line."""
    votes = count_votes(paths)
    splits = disagreements(votes)
    entries = sum(len(keys) for kernels in votes.values() for keys in kernels.values())
    lines = [f"{len(splits)} of {entries} entries disagree"]
    for split in splits:
        lines.append(printable(f"{split.arch} {split.kernel} {split.key}") + (" (tie)" if split.is_tie else ""))
        lines += [f"  {count:>4} x {printable(text)}" for text, count in split.votes]
    return "\n".join(lines) + "\n"


def _files(paths: Paths) -> Sequence[Path]:
    several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files = [file for path in several for file in expand_glob(Path(path))]
    return list({os.path.realpath(file): file for file in reversed(files)}.values())[::-1]
