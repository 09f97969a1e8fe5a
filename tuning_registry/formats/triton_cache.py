"""Triton's own cache folder as a recording: what `TRITON_CACHE_AUTOTUNING=1` has kept in a `TRITON_CACHE_DIR`.

Triton writes `<hash>/<function>.autotune.json` for every key that it timed, `{"key": [...], "configs_timings":
[[config, [median, p20, p80]], ...]}` in ms, and beside these `<hash>/<function>.json` with a compiled kernel's
target and Triton's version. Keys hold values without names, kernels have no module.
Source: `triton/runtime/autotuner.py` (`check_disk_cache`) and `triton/compiler/compiler.py`, 3.2 to 3.9.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tuning_registry.errors import ConflictError, FileError, FormatError, RecordingError, RegistryError
from tuning_registry.formats.files import parse_json, read_bytes
from tuning_registry.formats.recordings import read_timings
from tuning_registry.model.canonical import MAX_DEPTH, check_text, describe
from tuning_registry.model.names import UNNAMED, format_key, lookup_key, normal_arch
from tuning_registry.model.records import (
    ALL_FAILED,
    IN_A_CACHE,
    SINGLE_CANDIDATE,
    Header,
    Observation,
    Recording,
    TimedCandidates,
)

SUFFIX: Final = ".autotune.json"

_HASHED = re.compile(r"[A-Z2-7]{52}")  # Triton's names of folders: a SHA-256 in base 32
_DTYPE = re.compile(r"torch\.\w+|bool|u?int\d+|b?float\d+\w*|complex\d+")
_INTEGER_BITS = 64  # of a launch argument
_MAX_STEM = 150  # Triton cuts the function's name there


@dataclass(frozen=True, slots=True)
class TritonCache:
    """Results of one cache folder.

    Attributes:
        folder: The `TRITON_CACHE_DIR`.
        files: Its `*.autotune.json` files, or those of them that were asked for.
    """

    folder: Path
    files: tuple[Path, ...]


def is_hashed(file: Path) -> bool:
    """Whether a file lies where Triton's cache puts its own."""
    return _HASHED.fullmatch(file.parent.name) is not None


def is_result(file: Path) -> bool:
    """Whether a file holds an autotune result, by its name."""
    return file.name.endswith(SUFFIX)


def group_by_cache(files: Iterable[Path]) -> list[TritonCache]:
    """The caches that `*.autotune.json` files belong to, in order of appearance."""
    folders: dict[Path, list[Path]] = {}
    for file in files:
        folders.setdefault(file.parent.parent if is_hashed(file) else file.parent, []).append(file)
    return [TritonCache(folder, tuple(found)) for folder, found in folders.items()]


def read_cache(cache: TritonCache, *, arch: str | None, triton: str | None, votes: bool) -> Recording:
    """A cache folder as one recording of no run and rank.

    Where a kernel and key were timed more than once (its source changed, say), the file that was written last
    counts. The winner is the one that Triton takes: the smallest [median, p20, p80], the first of equal ones.

    Args:
        cache: Which files.
        arch: Architecture; by default what the compiled kernels in the folder say, if they agree.
        triton: Triton version; likewise.
        votes: Whether winners vote (it is known whose cache this is) or are observations.

    Raises:
        FileError: A file cannot be read.
        RecordingError: A file is not what Triton writes, or architecture or version are not known.
        ConflictError: What is stated is not what the folder says.
    """
    place = str(cache.folder)
    said = _compiled_for(cache.folder)
    arch = _known(place, "arch", normal_arch(arch) if arch else None, {found for found, _ in said})
    triton = _known(place, "triton", triton, {version for _, version in said})
    chosen: dict[str, dict[str, str]] = {}
    seen: dict[str, dict[str, Observation]] = {}
    timings: dict[str, dict[str, TimedCandidates]] = {}
    for kernel, key, timed, winner in _newest(cache.files):
        timings.setdefault(kernel, {})[key] = timed
        if winner is not None and votes and len(timed) > 1:
            chosen.setdefault(kernel, {})[key] = winner
        else:
            reason = ALL_FAILED if winner is None else SINGLE_CANDIDATE if len(timed) == 1 else IN_A_CACHE
            seen.setdefault(kernel, {})[key] = Observation(winner, reason)
    return Recording(
        place,
        Header(triton=triton),
        {arch: chosen} if chosen else {},
        {arch: seen} if seen else {},
        {arch: timings},
    )


def _newest(files: Sequence[Path]) -> list[tuple[str, str, TimedCandidates, str | None]]:
    """Kernel, key, timings and winner of every file; of files on one kernel and key the last written."""
    found: dict[tuple[str, str], tuple[str, str, TimedCandidates, str | None]] = {}
    for file in sorted(files, key=_written):
        kernel = file.name.removesuffix(SUFFIX)
        try:
            key, timed, winner = _read_result(parse_json(read_bytes(file), str(file)))
            if not kernel or len(kernel) >= _MAX_STEM:
                raise FormatError(f"Triton cuts names at {_MAX_STEM} characters: whose result this is cannot be told")
        except RecordingError:
            raise
        except FormatError as fault:
            raise RecordingError(str(file), fault.what, fault.path) from fault
        found[kernel, lookup_key(key)] = (check_text(kernel), key, timed, winner)
    return [found[place] for place in sorted(found)]


def _written(file: Path) -> tuple[int, str]:
    try:
        return file.stat().st_mtime_ns, str(file)
    except OSError as error:
        raise FileError(f"{file}: cannot be read: {error.strerror or error}") from error


def _read_result(document: object) -> tuple[str, TimedCandidates, str | None]:
    """Key, timings and winner in the document of one file."""
    if not isinstance(document, Mapping) or not {"key", "configs_timings"} <= document.keys():
        raise FormatError(f"expected what Triton writes, key and configs_timings; found {describe(document)}")
    values, pairs = document["key"], document["configs_timings"]
    if not isinstance(values, list):
        raise FormatError(f"expected an array of values and dtypes, found {describe(values)}", ("key",))
    try:
        timed = read_timings(pairs)
    except FormatError as fault:
        raise fault.under("configs_timings") from fault
    by_text = dict(zip(timed.configs, timed.times_ms, strict=True))
    in_order = [read_timings([pair]).configs[0] for pair in pairs]
    times = [by_text[text] or (math.inf,) * 3 for text in in_order]
    best = min(range(len(times)), key=times.__getitem__, default=None)
    winner = None if best is None or math.isinf(times[best][0]) else in_order[best]
    return _key_text(values), timed, winner


def _key_text(values: Sequence[Any]) -> str:
    """The shape key of a cached result, `?=64|?=True|torch.bfloat16`: dtypes are the last strings that look like some."""
    tensors = len(values)
    while tensors and isinstance(values[tensors - 1], str) and _DTYPE.fullmatch(values[tensors - 1]):
        tensors -= 1
    plain = [(UNNAMED, _plain(value)) for value in values[:tensors]]
    return check_text(format_key(plain, values[tensors:]), ("key",))


def _plain(value: Any, depth: int = 0) -> object:
    """A key value as it was before Triton wrote it: arrays were tuples, in which True, 1 and 1.0 are one value."""
    if depth > MAX_DEPTH:
        raise FormatError(f"nested more than {MAX_DEPTH} levels deep", ("key",))
    if isinstance(value, list):
        return tuple(
            int(v) if isinstance(v, bool | float) and float(v).is_integer() else _plain(v, depth + 1) for v in value
        )
    if isinstance(value, dict) or _is_long(value):
        raise FormatError(f"{describe(value)}, which no key value is", ("key",))
    return value


def _is_long(value: object) -> bool:
    return isinstance(value, int) and value.bit_length() > _INTEGER_BITS


def _compiled_for(folder: Path) -> set[tuple[str, str]]:
    """Architecture and Triton version of every compiled kernel in the folder that says so."""
    said: set[tuple[str, str]] = set()
    for file in sorted(folder.glob("*/*.json")):
        if not is_hashed(file) or is_result(file) or file.name.startswith("__grp__"):
            continue
        with contextlib.suppress(RegistryError):  # evidence only: what cannot be read says nothing
            document = parse_json(read_bytes(file), str(file))
            target = document.get("target") if isinstance(document, dict) else None
            version = document.get("triton_version") if isinstance(document, dict) else None
            if isinstance(target, dict) and isinstance(version, str) and version:
                name = target.get("arch")
                arch = f"sm{name}" if type(name) is int and not _is_long(name) else normal_arch(check_text(name))
                said.add((arch, check_text(version)))
    return said


def _known(place: str, name: str, stated: str | None, said: set[str]) -> str:
    """What is stated, or what the compiled kernels agree on.

    Raises:
        RecordingError: Nothing is stated, and they say nothing or several things.
        ConflictError: They agree on something else.
    """
    if stated is not None and len(said) == 1 and stated not in said:
        raise ConflictError(f"{place}: --{name} {stated}, but the compiled kernels in it are for {min(said)}")
    if stated is not None:
        return stated
    if len(said) != 1:
        found = (
            f"the compiled kernels in it are for {' and '.join(sorted(said))}"
            if said
            else "it holds no compiled kernels"
        )
        raise RecordingError(place, f"{name} is not known: {found}; give --{name}")
    return min(said)
