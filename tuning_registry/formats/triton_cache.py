"""Autotune results in Triton's cache folder (`TRITON_CACHE_DIR`) as a recording.

With `TRITON_CACHE_AUTOTUNING=1` Triton writes `<hash>/<function>.autotune.json` for every key that it timed,
`{"key": [...], "configs_timings": [[config, [median, p20, p80]], ...]}` in ms. `<hash>/<function>.json` holds the target of
a compiled kernel and the Triton version. Keys hold values without names, and kernels have no module.
Source: `triton/runtime/autotuner.py` (`check_disk_cache`) and `triton/compiler/compiler.py`, 3.2 to 3.9.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from tuning_registry.errors import ConflictError, FileError, FormatError, RecordingError, RegistryError, describe
from tuning_registry.formats.files import parse_json, read_bytes
from tuning_registry.formats.recordings import read_timings
from tuning_registry.formats.stores import Place
from tuning_registry.model.canonical import MAX_DEPTH, config_text
from tuning_registry.model.names import UNNAMED, check_text, format_key, lookup_key, normal_arch
from tuning_registry.model.records import (
    ALL_FAILED,
    IMPOSSIBLE_TIME,
    IN_A_CACHE,
    SINGLE_CANDIDATE,
    Header,
    Observation,
    Recording,
    TimedCandidates,
)

SUFFIX: Final = ".autotune.json"

_HASHED = re.compile(r"[A-Z2-7]{52}")  # how Triton names folders: a SHA-256 in base 32
_DTYPE = re.compile(r"torch\.\w+|bool|u?int\d+|b?float\d+\w*|complex\d+")
_INTEGER_BITS = 64  # of a launch argument
_MAX_STEM = 150  # Triton cuts the names of functions there


class _Result(NamedTuple):
    """What one file holds: the winner is None if every candidate failed; its time may be impossible."""

    key: str
    timed: TimedCandidates
    winner: str | None

    def reason(self, *, votes: bool) -> str:
        """Why the winner does not vote; empty if it does."""
        if self.winner is None:
            return ALL_FAILED
        if not self.timed.may_win(self.winner):
            return IMPOSSIBLE_TIME
        if len(self.timed) == 1:
            return SINGLE_CANDIDATE
        return "" if votes else IN_A_CACHE


@dataclass(frozen=True, slots=True)
class TritonCache:
    """Results of one cache folder.

    Attributes:
        folder: The `TRITON_CACHE_DIR`.
        files: Its `*.autotune.json` files, all or those that were asked for.
    """

    folder: Path
    files: tuple[Path, ...]


def is_hashed(file: Place) -> bool:
    """Whether a file is in a folder that Triton's cache named."""
    return _HASHED.fullmatch(file.parent.name) is not None


def is_result(file: Place) -> bool:
    """Whether a file holds an autotune result, judged by its name."""
    return file.name.endswith(SUFFIX)


def group_by_cache(files: Iterable[Path]) -> list[TritonCache]:
    """The caches that `*.autotune.json` files belong to, in order of appearance."""
    folders: dict[Path, list[Path]] = {}
    for file in files:
        folders.setdefault(file.parent.parent if is_hashed(file) else file.parent, []).append(file)
    return [TritonCache(folder, tuple(found)) for folder, found in folders.items()]


# See docs/decisions.md, D33.
def read_cache(
    cache: TritonCache,
    *,
    arch: str | None,
    triton: str | None,
    votes: bool,
    skip: Callable[[RegistryError], None] | None = None,
) -> Recording:
    """A cache folder as one recording without a run and a rank.

    If a kernel and key were timed more than once (after a change of its source, for example), the file that was written
    last counts. The winner is the one that Triton chooses: the smallest [median, p20, p80], the first of equal ones.

    Args:
        cache: Which files.
        arch: Architecture; by default that of the compiled kernels in the folder, if they agree.
        triton: Triton version; likewise.
        votes: Whether winners vote, because it is known which rank wrote this cache, or are observations.
        skip: Called with the error of a file that cannot be read, which is then left out; by default it is raised.

    Raises:
        FileError: A file cannot be read.
        RecordingError: No file, or without `skip` one file, is what Triton writes, or architecture or version are unknown.
        ConflictError: The compiled kernels contradict the stated architecture or version.
    """
    place = str(cache.folder)
    compiled = _compiled_for(cache.folder)
    arch = _known(place, "arch", normal_arch(arch) if arch else None, {found for found, _ in compiled})
    triton = _known(place, "triton", triton, {version for _, version in compiled})
    chosen: dict[str, dict[str, str]] = {}
    seen: dict[str, dict[str, Observation]] = {}
    timings: dict[str, dict[str, TimedCandidates]] = {}
    for kernel, result in _newest(cache.files, skip):
        timings.setdefault(kernel, {})[result.key] = result.timed
        reason = result.reason(votes=votes)
        if result.winner is None or reason:
            seen.setdefault(kernel, {})[result.key] = Observation(result.winner, reason)
        else:
            chosen.setdefault(kernel, {})[result.key] = result.winner
    return Recording(
        place,
        Header(triton=triton),
        {arch: chosen} if chosen else {},
        {arch: seen} if seen else {},
        {arch: timings},
    )


def _newest(files: Sequence[Path], skip: Callable[[RegistryError], None] | None) -> list[tuple[str, _Result]]:
    """Kernel and result of every file; of files about one kernel and key the one that was written last."""
    found: dict[tuple[str, str], tuple[str, _Result]] = {}
    unread: list[RegistryError] = []
    for file in sorted(files, key=_written):
        kernel = file.name.removesuffix(SUFFIX)
        try:
            result = _read_file(file, kernel)
        except RegistryError as error:
            unread.append(error)
        else:
            found[kernel, lookup_key(result.key)] = (kernel, result)
    if unread and (skip is None or not found):
        raise unread[0]
    if skip is not None:
        for fault in unread:
            skip(fault)
    return [found[place] for place in sorted(found)]


def _read_file(file: Path, kernel: str) -> _Result:
    try:
        result = _read_result(parse_json(read_bytes(file), str(file)))
        if not kernel or len(kernel) >= _MAX_STEM:
            raise FormatError(
                f"Triton truncates names to {_MAX_STEM} characters, so the kernel of this result is unknown"
            )
        check_text(kernel)
    except RecordingError:
        raise
    except FormatError as fault:
        raise RecordingError(str(file), fault.what, fault.path) from fault
    return result


def _written(file: Path) -> tuple[int, str]:
    try:
        return file.stat().st_mtime_ns, str(file)
    except OSError as error:
        raise FileError(f"{file}: cannot be read: {error.strerror or error}") from error


def _read_result(document: object) -> _Result:
    """Key, timings and winner in the document of one file."""
    if not isinstance(document, Mapping) or not {"key", "configs_timings"} <= document.keys():
        raise FormatError(
            f"expected an autotune result of Triton with key and configs_timings, found {describe(document)}"
        )
    values, pairs = document["key"], document["configs_timings"]
    if not isinstance(values, list):
        raise FormatError(f"expected an array of values and dtypes, found {describe(values)}", ("key",))
    try:
        timed = read_timings(pairs)
    except FormatError as fault:
        raise fault.under("configs_timings") from fault
    times = [_as_triton_compares(three) for _, three in pairs]
    best = min(range(len(times)), key=times.__getitem__, default=None)
    failed = best is None or math.inf in times[best]
    return _Result(key_of_values(values), timed, None if failed or best is None else config_text(pairs[best][0]))


def _as_triton_compares(three: Any) -> list[float]:
    """The times of one candidate, impossible ones included; all infinite if it failed."""
    numbers = three if isinstance(three, list) else [three] * 3
    return [math.inf] * 3 if None in numbers else [float(number) for number in numbers]


def key_of_values(values: Sequence[Any]) -> str:
    """The shape key of a cached result, `?=64|?=True|torch.bfloat16`; dtypes are the trailing strings that look like one."""
    tensors = len(values)
    while tensors and isinstance(values[tensors - 1], str) and _DTYPE.fullmatch(values[tensors - 1]):
        tensors -= 1
    plain = [(UNNAMED, _plain(value)) for value in values[:tensors]]
    return check_text(format_key(plain, values[tensors:]), ("key",))


def _plain(value: Any, depth: int = 0) -> object:
    """A key value as it was before Triton wrote it. Arrays were tuples, in which True, 1 and 1.0 are the same value."""
    if depth > MAX_DEPTH:
        raise FormatError(f"nested more than {MAX_DEPTH} levels deep", ("key",))
    if isinstance(value, list):
        return tuple(
            int(v) if isinstance(v, bool | float) and float(v).is_integer() else _plain(v, depth + 1) for v in value
        )
    if isinstance(value, dict) or _is_long(value):
        raise FormatError(f"{describe(value)} cannot be the value of a key", ("key",))
    return value


def _is_long(value: object) -> bool:
    return isinstance(value, int) and value.bit_length() > _INTEGER_BITS


def _compiled_for(folder: Path) -> set[tuple[str, str]]:
    """Architecture and Triton version of every compiled kernel in the folder that states them."""
    stated: set[tuple[str, str]] = set()
    for file in sorted(folder.glob("*/*.json")):
        if not is_hashed(file) or is_result(file) or file.name.startswith("__grp__"):
            continue
        with contextlib.suppress(RegistryError):  # only a hint: files that cannot be read are ignored
            document = parse_json(read_bytes(file), str(file))
            target = document.get("target") if isinstance(document, dict) else None
            version = document.get("triton_version") if isinstance(document, dict) else None
            if isinstance(target, dict) and isinstance(version, str) and version:
                name = target.get("arch")
                arch = f"sm{name}" if type(name) is int and not _is_long(name) else normal_arch(check_text(name))
                stated.add((arch, check_text(version)))
    return stated


def _known(place: str, name: str, stated: str | None, compiled: set[str]) -> str:
    """The stated value, or the one that the compiled kernels agree on.

    Raises:
        RecordingError: Nothing is stated, and there are no compiled kernels or they differ.
        ConflictError: They agree on another value.
    """
    if stated is not None and len(compiled) == 1 and stated not in compiled:
        raise ConflictError(f"{place}: --{name} {stated}, but the compiled kernels in it are for {min(compiled)}")
    if stated is not None:
        return stated
    if len(compiled) != 1:
        found = (
            f"the compiled kernels in it are for {' and '.join(sorted(compiled))}"
            if compiled
            else "it holds no compiled kernels"
        )
        raise RecordingError(place, f"{name} is not known: {found}; give --{name}")
    return min(compiled)
