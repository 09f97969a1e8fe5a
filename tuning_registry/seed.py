"""The functions of the seed: count, merge and write recordings without a database, on the standard library alone.

An entry is a tuple `(arch, kernel, key)`. Counts are kept by the canonical text of the config
(`model.canonical.config_text`), which is hashable; `json.loads` turns it back into the config.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any, TypeVar

from tuning_registry.formats.files import expand_glob, identity_of, write_atomically
from tuning_registry.formats.loader import installed_triton, load
from tuning_registry.formats.recordings import read_recording
from tuning_registry.formats.stores import Place, place_of
from tuning_registry.formats.table import TunedTable, table_bytes, table_payload
from tuning_registry.formats.table_header import Kernels
from tuning_registry.model.canonical import parse_config
from tuning_registry.model.names import normal_distribution, top_module
from tuning_registry.model.records import Recording
from tuning_registry.rules.voting import Entry, counted_recordings, rank_votes, tally_votes

__all__ = [
    "TunedTable",
    "count_votes",
    "disagreement_report",
    "disagreements",
    "load",
    "merge_records",
    "merge_votes",
    "write",
]

K = TypeVar("K")
V = TypeVar("V")
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
Config = dict[str, Any]
# In `tuning_registry` of a written table: its Triton and packages are those of the machine that wrote it.
INSTALLED = {"provenance": "installed"}


class Dated(dict[K, V]):
    """A dict that remembers the Triton and package versions of the recordings it was made from.

    Attributes:
        triton: Triton version; empty if the recordings do not state one.
        packages: Version by distribution; those that are stated in two versions are left out.
    """

    triton: str = ""
    packages: Mapping[str, str] = {}  # replaced, never changed

    def dated_like(self, other: object) -> Dated[K, V]:
        """This dict, with the versions of another one if it has any."""
        if isinstance(other, Dated):
            self.triton, self.packages = other.triton, other.packages
        return self


def count_votes(paths: Paths) -> dict[Entry, dict[str, int]]:
    """How many ranks recorded each config: `{(arch, kernel, key): {canonical config text: votes}}`.

    Args:
        paths: A recording file, a glob pattern, the URL of either in a store, or several of them.

    Raises:
        FileError: A file cannot be read; an OSError.
        RecordingError: A file is not a recording, or two recordings contradict each other or state different Triton
            versions; a ValueError that names the file.
    """
    recordings = counted_recordings(read_recording(path) for path in _files(paths))
    votes: Dated[Entry, dict[str, int]] = Dated(tally_votes(recordings))
    votes.triton = next((one.header.triton for one in recordings if one.header.triton), "")
    votes.packages = _common_packages(recordings)
    return votes


def merge_votes(votes: Mapping[Entry, Mapping[str, int]]) -> dict[str, dict[str, dict[str, Config]]]:
    """The winning config of every entry: `{arch: {kernel: {key: config}}}`, every config with its six fields."""
    merged: dict[str, dict[str, dict[str, Config]]] = {}
    for (arch, kernel, key), counted in sorted(votes.items()):
        kernels = merged.setdefault(arch, Dated[str, dict[str, Config]]().dated_like(votes))
        kernels.setdefault(kernel, {})[key] = parse_config(rank_votes(counted)[0][0])
    return merged


def disagreements(votes: Mapping[Entry, Mapping[str, int]]) -> dict[Entry, dict[str, int]]:
    """The entries with votes for more than one config, sorted, each with its counts, winner first.

    A rank that never ran a key has no vote on it and so does not disagree.
    """
    return {entry: dict(rank_votes(counted)) for entry, counted in sorted(votes.items()) if len(counted) > 1}


def merge_records(paths: Paths) -> dict[str, dict[str, dict[str, Config]]]:
    """The winning config of every entry in the files: `{arch: {kernel: {key: config}}}`; errors as `count_votes`."""
    return merge_votes(count_votes(paths))


def disagreement_report(paths: Paths) -> dict[Entry, int]:
    """How many different configs the ranks chose, for every entry in the files; 1 means that all ranks agree.

    Raises the same errors as `count_votes`.
    """
    return {entry: len(counted) for entry, counted in sorted(count_votes(paths).items())}


def write(
    arch: str,
    kernels: Kernels,
    path: str | os.PathLike[str],
    source: str = "",
    *,
    triton: str | None = None,
    packages: Mapping[str, str] | None = None,
) -> None:
    """Write a table file, whole or not at all; its folder is created if necessary.

    The table states the Triton and package versions of the recordings, if `kernels` comes from `merge_records` or
    `merge_votes` and they are known, or those given here. Otherwise it states the installed versions, and
    `"provenance": "installed"` under `tuning_registry` says so.

    Args:
        arch: Architecture, in any accepted spelling.
        kernels: `{kernel: {key: config}}`; `num_ctas`, `maxnreg` and `ir_override` are optional.
        path: The table file, or its URL in a store.
        source: Free text: which recordings it was made from.
        triton: Triton version of the recordings.
        packages: Version by distribution, as recorded.

    Raises:
        FormatError: A name or config is not accepted.
        FileError: The file cannot be written; an existing one is unchanged.
    """
    extra: Mapping[str, Any] = {}
    if triton is None and packages is None:
        dated = kernels if isinstance(kernels, Dated) else Dated[str, Any]()
        triton, packages = dated.triton, dated.packages
        if not triton:
            triton, packages, extra = installed_triton(), _installed_packages(kernels), INSTALLED
    payload = table_payload(arch, kernels, source, triton=triton or "", packages=packages, extra=extra)
    write_atomically(place_of(path), table_bytes(payload))


def _files(paths: Paths) -> list[Place]:
    several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files = [file for path in several for file in expand_glob(place_of(path))]
    return list({identity_of(file): file for file in reversed(files)}.values())[::-1]


def _common_packages(recordings: Iterable[Recording]) -> dict[str, str]:
    """The packages that no two recordings state in different versions."""
    stated: dict[str, set[str]] = {}
    for recording in recordings:
        for name, found in recording.header.packages.items():
            stated.setdefault(name, set()).add(found)
    return {name: min(versions) for name, versions in stated.items() if len(versions) == 1}


def _installed_packages(kernels: Iterable[str]) -> dict[str, str]:
    """Installed version by distribution, of the distributions that own the top-level modules of the kernels."""
    owners = packages_distributions()
    found: dict[str, str] = {}
    for name in {owner for kernel in kernels for owner in owners.get(top_module(kernel), ())}:
        try:
            found[normal_distribution(name)] = version(name)
        except PackageNotFoundError:  # removed since the list was made
            continue
    return found
