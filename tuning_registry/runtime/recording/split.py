"""Sharing the work of a recording run: which of a key's candidates this rank times."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from tuning_registry.errors import RegistryError
from tuning_registry.formats.loader import installed_triton
from tuning_registry.formats.recordings import read_recording
from tuning_registry.log import warn
from tuning_registry.model.canonical import live_config_text
from tuning_registry.model.names import lookup_key, top_module
from tuning_registry.model.records import Header, Recording
from tuning_registry.model.shares import EXTRA, encode_candidates
from tuning_registry.rules.evidence import Policy, elect
from tuning_registry.rules.shares import share_of, still_wanted
from tuning_registry.runtime.guard import guarded, warn_once
from tuning_registry.runtime.job.place import announce, current_place, launched_local_rank, launched_local_size
from tuning_registry.runtime.policies.fields import NODE
from tuning_registry.runtime.triton.share import Share
from tuning_registry.wording import count_of

Entry = tuple[str, str, str]  # arch, kernel, key
Timed = dict[str, dict[int, tuple[float, float, float] | None]]  # by candidate and number of the recording

_PATIENCE_S: Final = 10.0  # for reading recordings of earlier runs


class Split:
    """Deals the candidates of each key out to the ranks that share the work.

    Ranks do not talk to each other: each one knows its share from its place in the job, the kernel and the key. What
    recordings of earlier runs under the same prefix hold is not timed again.

    Args:
        ranks: How many ranks share the work, or `node`; None if each one does all of it.
        repeats: How many of them time each candidate.
    """

    def __init__(self, ranks: int | str | None = None, repeats: int = 1) -> None:
        self._ranks = ranks
        self._repeats = repeats
        self._candidates: dict[Entry, tuple[str, ...]] = {}  # of the keys of which this rank has timed a part
        self._earlier: dict[tuple[str, str, str, str | None], Timed] | None = None  # also by the kernel's source

    def deal_to(self, ranks: int | str | None, repeats: int) -> None:
        """Share the work among so many ranks from now on; what was shared before stays stated."""
        self._ranks, self._repeats = ranks, repeats

    def afresh(self) -> Split:
        """The same for a process that has timed nothing yet."""
        return Split(self._ranks, self._repeats)

    def share(
        self, entry: Entry, source: str | None, pruned: Iterable[Any], earlier: Iterator[Recording]
    ) -> Share | None:
        """What this rank times of a key's candidates; None for all of them, if the work cannot be shared.

        Args:
            entry: Arch, kernel and key.
            source: Hash of the source of the kernel's function; timings of another one do not count.
            pruned: The candidates that pruning left.
            earlier: Recordings of earlier runs; read at the first call only.
        """
        place = self._place()
        if place is None:
            return None
        whole = list(pruned)
        live: dict[str, list[Any]] = {}
        for candidate in whole:
            text = live_config_text(candidate)
            if text is None:
                return None  # a candidate that nobody else could name
            live.setdefault(text, []).append(candidate)
        if len(live) < 2:
            return None
        if self._earlier is None:
            self._earlier = guarded("reading earlier recordings", _timed_in, earlier) or {}
        arch, kernel, key = entry
        timed = self._earlier.get((arch, kernel, lookup_key(key), source), {})
        wanted = still_wanted(live, {text: len(by_rank) for text, by_rank in timed.items()}, self._repeats)
        mine = share_of(*place, kernel, key, wanted)
        if len(mine) == len(live):
            return None
        self._candidates[entry] = tuple(sorted(live))
        if not mine:
            # It is timed once more, since it may not run here: the next one then takes its place.
            best = elect(Policy.FASTEST, {text: by_rank for text, by_rank in timed.items() if text in live})
            mine = [best or share_of(*place, kernel, key, [(text, place[1]) for text in live])[0]]
        return Share([candidate for text in mine for candidate in live[text]], whole)

    def extra(self) -> dict[str, Any]:
        """What a recording states about the sharing; empty if nothing was shared."""
        candidates = self._candidates.copy()
        return {EXTRA: encode_candidates(candidates, self._repeats)} if candidates else {}

    def _place(self) -> tuple[int, int] | None:
        """Place among the ranks that share, and their number; None if it is not known, or if there is no other rank."""
        if self._ranks is None:
            return None
        place = current_place()
        if self._ranks == NODE:
            rank, ranks = launched_local_rank(), launched_local_size()
        else:
            # No more places than ranks: a place without a rank would leave a gap in every key.
            rank = place.rank if place.certain else None
            ranks = min(int(self._ranks), place.world_size or int(self._ranks))
        if rank is None or not ranks:
            missing = "its local rank and the number of ranks on its node" if self._ranks == NODE else "its rank"
            warn_once("split", "split has no effect: this process does not know %s, so it times every candidate itself",
                      missing)  # fmt: skip
            return None
        return (rank % ranks, ranks) if ranks > 1 else None


def earlier_recordings(prefix: Path, run: str) -> Iterator[Recording]:
    """The recordings under a prefix that other runs have left; never raises.

    Those of earlier attempts of this run do not count: a database holds one recording of each rank of a run, so that of
    the last attempt has to be complete.

    Args:
        prefix: The prefix of this run's recordings.
        run: The name of this run.
    """
    began, count = time.monotonic(), 0
    files = guarded("looking for earlier recordings", _files, prefix) or []
    for file in files:
        if time.monotonic() - began > _PATIENCE_S:
            warn("split: reading earlier recordings took too long; used %d of %s, so some candidates may be timed again", count,
                 count_of(len(files), "recording"))  # fmt: skip
            return
        try:
            recording = read_recording(file)
        except RegistryError:
            continue  # ingest says what is wrong with it
        header = recording.header
        if header.run != run and header.triton == (installed_triton() or None):
            count += 1
            yield recording
    if count:
        announce("split: found %s of earlier runs; their timings are not repeated", count_of(count, "recording"))


def _files(prefix: Path) -> list[Path]:
    if not prefix.parent.is_dir():
        return []
    return sorted(
        file for file in prefix.parent.iterdir() if file.name.startswith(prefix.name + ".") and ".rank" in file.name
    )


def _timed_in(recordings: Iterable[Recording]) -> dict[tuple[str, str, str, str | None], Timed]:
    """Every timing of some recordings, by entry, source of the kernel, and candidate.

    Kernels of packages that have another version now are left out.
    """
    found: dict[tuple[str, str, str, str | None], Timed] = {}
    versions: dict[str, str | None] = {}
    for number, recording in enumerate(recordings):
        for arch, kernels in recording.timings.items():
            for kernel, keys in kernels.items():
                if not _is_of_installed_package(recording.header, kernel, versions):
                    continue
                for key, timed in keys.items():
                    place = (arch, kernel, lookup_key(key), recording.header.sources.get(kernel))
                    by_text = found.setdefault(place, {})
                    for text, times in zip(timed.configs, timed.times_ms, strict=True):
                        by_text.setdefault(text, {})[number] = times
    return found


def _is_of_installed_package(header: Header, kernel: str, versions: dict[str, str | None]) -> bool:
    """Whether a recording's kernel is of the version that is installed here, or of no package."""
    owner = header.modules.get(top_module(kernel))
    if owner is None:
        return True
    if owner not in versions:
        versions[owner] = _installed_version(owner)
    return versions[owner] == header.packages.get(owner)


def _installed_version(name: str) -> str | None:
    import importlib.metadata  # noqa: PLC0415  # takes longer to import than the rest of the runtime

    try:
        return importlib.metadata.version(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):  # ValueError: an empty name
        return None
