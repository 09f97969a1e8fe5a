"""Finding the files and Triton caches of an ingest."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

from tuning_registry.errors import FileError, UsageError
from tuning_registry.formats.files import expand_glob, find_below, identity_of, is_folder
from tuning_registry.formats.recordings import rank_in_name
from tuning_registry.formats.stores import Place, StorePath, place_of
from tuning_registry.formats.triton_cache import TritonCache, group_by_cache, is_hashed, is_result
from tuning_registry.operations.ingest.options import IngestOptions

JSON: Final = ".json"
# What is read as one recording.
Source = Place | TritonCache
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def _never(_: str) -> bool:
    return False


def find_files(paths: Paths, is_of_tool: Callable[[str], bool] = _never) -> list[Place]:
    """The files and objects that paths, URLs, folders and glob patterns name, each once, in a stable order.

    A folder means every `*.json` below it that is not hidden, and every file that another tool's format may read by its
    name; in a Triton cache, only the autotune results.

    Args:
        paths: What the user named.
        is_of_tool: Whether a file of this name may be another tool's; asked about files that are not JSON.

    Raises:
        FileError: A path does not exist, or names no file.
        UsageError: A path is empty, as an unset variable of a script is; it does not mean the current folder.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not all(os.fspath(path) for path in several):
        raise UsageError("a PATH is empty; use . for the current folder")
    found: dict[Place, None] = {}
    for given in several:
        for path in expand_glob(place_of(given)):
            found.update(dict.fromkeys(_files_below(path, is_of_tool) if _is_folder(path) else [path]))
    return list({identity_of(file): file for file in reversed(found)}.values())[::-1]


def _is_folder(path: Place) -> bool:
    """Whether a path is a folder. An object named like a recording is not looked at twice: reading it fails if need be."""
    return not (isinstance(path, StorePath) and path.suffix == JSON) and is_folder(path)


def _files_below(folder: Place, is_of_tool: Callable[[str], bool]) -> list[Place]:
    every = [file for file in find_below(folder, "") if file.name.endswith(JSON) or is_of_tool(file.name)]
    below = [file for file in every if is_result(file) or not is_hashed(file)]
    if not every:
        raise FileError(f"{folder}: no .json file in this folder, and no file of a known format (registry formats)")
    if not below:
        raise FileError(
            f"{folder}: a Triton cache without autotune results; Triton stores them if TRITON_CACHE_AUTOTUNING=1 is set"
        )
    return below


def sources_of(files: Sequence[Place], options: IngestOptions) -> list[Source]:
    """The units that are read one after the other: files, then the Triton caches that the other files form.

    With a format that the user names, every file is in that format.

    Raises:
        FileError: A Triton cache is in a store.
    """
    results = [file for file in files if is_result(file)] if options.format is None else []
    remote = next((file for file in results if isinstance(file, StorePath)), None)
    if remote is not None:
        raise FileError(f"{remote}: Triton caches are read from local folders only; copy the whole cache folder first")
    caches = group_by_cache(file for file in results if not isinstance(file, StorePath))
    return [*(file for file in files if options.format is not None or not is_result(file)), *caches]


def count_unnamed_timings(files: Sequence[Place]) -> int:
    """How many files of timings are in the local folders of these recordings but not among `files`."""
    ranks = ((file, rank_in_name(file.name)) for file in files)
    wanted = {file.parent / f"timings.rank{rank}.json" for file, (_, rank) in ranks if rank is not None}
    beside = wanted.difference(files)
    return sum(os.path.exists(file) for file in beside if not isinstance(file, StorePath))  # noqa: PTH110  # Path.exists raises
