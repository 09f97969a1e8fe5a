"""Finding the files and Triton caches of an ingest."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tuning_registry.errors import FileError, UsageError
from tuning_registry.formats.files import expand_glob, find_below
from tuning_registry.formats.recordings import rank_in_name
from tuning_registry.formats.triton_cache import TritonCache, group_by_cache, is_hashed, is_result
from tuning_registry.operations.ingest.options import IngestOptions

# What is read as one recording.
Source = Path | TritonCache
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def find_files(paths: Paths) -> list[Path]:
    """The files that paths, folders and glob patterns name, each once, in a stable order.

    A folder means every `*.json` below it that is not hidden; in a Triton cache, only the autotune results.

    Raises:
        FileError: A path does not exist, or names no file.
        UsageError: A path is empty, as an unset variable of a script is; it does not mean the current folder.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not all(os.fspath(path) for path in several):
        raise UsageError("a PATH is empty; use . for the current folder")
    found: dict[Path, None] = {}
    for given in several:
        for path in expand_glob(Path(given)):
            # Not Path.is_dir, which raises if access is denied; reading then reports why.
            found.update(dict.fromkeys(_files_below(path) if os.path.isdir(path) else [path]))  # noqa: PTH112
    return list({os.path.realpath(file): file for file in reversed(found)}.values())[::-1]


def _files_below(folder: Path) -> list[Path]:
    every = find_below(folder, ".json")
    below = [file for file in every if is_result(file) or not is_hashed(file)]
    if not every:
        raise FileError(f"{folder}: no .json file in this folder")
    if not below:
        raise FileError(
            f"{folder}: a Triton cache without autotune results; Triton stores them if TRITON_CACHE_AUTOTUNING=1 is set"
        )
    return below


def sources_of(files: Sequence[Path], options: IngestOptions) -> list[Source]:
    """The units that are each read as one recording: recordings and timings, then the Triton caches that the other files form.

    Raises:
        UsageError: An option names one recording or a Triton cache, and there are several or none.
    """
    caches = group_by_cache(file for file in files if is_result(file))
    sources: list[Source] = [*(file for file in files if not is_result(file)), *caches]
    if options.rank is not None and len(sources) > 1:
        raise UsageError(f"--rank applies to a single recording, but the paths name {len(sources)} files or caches")
    if options.arch is not None and not caches:
        raise UsageError(
            "--arch applies to Triton cache folders, and the paths name none; recordings state their architectures"
        )
    return sources


def count_unnamed_timings(files: Sequence[Path]) -> int:
    """How many files of timings are in the folders of these recordings but not among `files`."""
    ranks = ((file, rank_in_name(file.name)) for file in files)
    wanted = {file.parent / f"timings.rank{rank}.json" for file, (_, rank) in ranks if rank is not None}
    return sum(map(os.path.exists, wanted.difference(files)))
