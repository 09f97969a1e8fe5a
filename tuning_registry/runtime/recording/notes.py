"""The choices that a recorder keeps, by entry, and their JSON texts."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from tuning_registry.errors import FormatError
from tuning_registry.formats.recording_writer import observation_text, set_text, timings_text
from tuning_registry.formats.recordings import SECTIONS
from tuning_registry.formats.sections import read_entries
from tuning_registry.model.names import lookup_key
from tuning_registry.model.records import TWO_SOURCES, Observation, TimedCandidates
from tuning_registry.runtime.guard import guarded, warn_once
from tuning_registry.wording import count_of

T = TypeVar("T")
Entry = tuple[str, str, str]  # arch, kernel, key

_SLICE_S: Final = 0.001  # longest time for which the interpreter's lock is held while texts are made
_REST_S: Final = 0.0005


class _Note(NamedTuple):
    """One choice as a launch leaves it: a vote or an observation."""

    entry: Entry
    vote: str | None
    observation: Observation | None
    timed: TimedCandidates | None
    candidates: str | None
    source: str | None = None  # hash of the function's source


class Notes:
    """Votes, observations, timings and candidate sets of one process.

    Launches only append to a list, which is safe under threads, forks and signal handlers without a lock; readers
    first sort the list into entries. `texts` belongs to the one thread that calls `serialize`, which adds the
    entries that are new since the last call.
    """

    def __init__(self) -> None:
        self._fresh: deque[_Note] = deque()
        self._lock = threading.RLock()  # of readers
        self._votes: dict[Entry, str] = {}
        self._observations: dict[Entry, Observation] = {}
        self._timings: dict[Entry, TimedCandidates] = {}
        self._sets: dict[Entry, str] = {}
        self._sources: dict[str, str] = {}  # by kernel
        self._ambiguous: set[str] = set()  # kernels whose name two functions share
        self._first_spellings: dict[Entry, Entry] = {}
        self._unserialized: list[Entry] = []
        self.texts: dict[str, dict[str, dict[str, dict[str, bytes]]]] = {section: {} for section in SECTIONS}

    def vote(
        self, entry: Entry, config: str, timed: TimedCandidates | None, candidates: str | None,
        source: str | None = None,
    ) -> None:  # fmt: skip
        """Keep a winner. The first vote of an entry counts, and replaces an observation.

        If two functions of other source (a hash) share the kernel's name, nobody can tell whose winner it is: the
        votes of this kernel become observations.
        """
        self._fresh.append(_Note(entry, config, None, timed, candidates, source))

    def observe(
        self, entry: Entry, observation: Observation, timed: TimedCandidates | None, source: str | None = None
    ) -> None:
        """Keep a choice that does not vote, unless there is a vote or observation for the entry."""
        self._fresh.append(_Note(entry, None, observation, timed, None, source))

    def _sort_in(self) -> None:
        """Sort what launches have appended into entries; the caller holds the lock."""
        while self._fresh:
            guarded("storing a choice", self._keep, self._fresh.popleft())

    def _keep(self, note: _Note) -> None:
        arch, kernel, key = note.entry
        try:
            read_entries({arch: {kernel: {key: None}}}, lambda value: value)
        except FormatError as fault:
            warn_once(("name", kernel), "a recording cannot hold %s: %s", kernel, fault.what)
            return
        place = self._first_spelling(note.entry)
        note = self._without_doubtful_vote(note, kernel)
        if note.observation is not None:
            if place in self._votes or place in self._observations:
                return
            self._observations[place] = note.observation
        elif note.vote is not None:
            if place in self._votes:  # the first vote counts, with its timings: a recording only grows
                if self._votes[place] != note.vote:
                    warn_once(("two votes", place), "%s was tuned twice for key %s, with different winners; only the "
                              "first winner counts", kernel, key)  # fmt: skip
                return
            self._votes[place] = note.vote
            self._observations.pop(place, None)
        if note.timed is not None:
            self._timings[place] = note.timed
        if note.candidates is not None:
            self._sets[place] = note.candidates
        self._unserialized.append(place)

    def _without_doubtful_vote(self, note: _Note, kernel: str) -> _Note:
        """The note, its vote turned into an observation if two functions have the kernel's name."""
        if note.source is not None and self._sources.setdefault(kernel, note.source) != note.source:
            self._doubt(kernel)
        if kernel not in self._ambiguous or note.vote is None:
            return note
        return note._replace(vote=None, observation=Observation(note.vote, TWO_SOURCES), timed=None, candidates=None)

    def _doubt(self, kernel: str) -> None:
        """Turn the votes of a kernel into observations."""
        if kernel in self._ambiguous:
            return
        self._ambiguous.add(kernel)
        warn_once(("two sources", kernel), "two functions with different source code are named %s, so its winners are recorded as "
                  "observations, which do not vote; give each function a unique name", kernel)  # fmt: skip
        for place in [place for place in self._votes if place[1] == kernel]:
            self._observations[place] = Observation(self._votes.pop(place), TWO_SOURCES)
            self._unserialized.append(place)

    def sources(self) -> dict[str, str]:
        """The hash of the first function's source, by kernel."""
        with self._lock:
            self._sort_in()
            return dict(self._sources)

    def sections(self) -> dict[str, Any]:
        """The present state, by field of `Recording`."""
        with self._lock:
            self._sort_in()
            return {
                "votes": _nested(self._votes),
                "observations": _nested(self._observations),
                "timings": _nested(self._timings),
                "candidate_sets": _nested(self._sets),
            }

    def __str__(self) -> str:
        """The number of votes and observations, for the log."""
        with self._lock:
            self._sort_in()
            counts = {"vote": len(self._votes), "observation": len(self._observations)}
        shown = [count_of(count, noun) for noun, count in counts.items() if count]
        return " and ".join(shown) or "no choices"

    def kernels(self) -> set[str]:
        """The kernels that have an entry."""
        with self._lock:
            self._sort_in()
            return {kernel for _, kernel, _ in [*self._votes, *self._observations]}

    def serialize(self, beat: Callable[[], None]) -> None:
        """Bring `texts` up to date, in slices between which other threads can run."""
        with self._lock:
            self._sort_in()
            fresh, self._unserialized = self._unserialized, []
        began = time.perf_counter()
        for place in fresh:
            guarded("writing an entry", self._serialize_entry, place)
            if time.perf_counter() - began > _SLICE_S:
                beat()
                time.sleep(_REST_S)
                began = time.perf_counter()

    def _serialize_entry(self, place: Entry) -> None:
        with self._lock:
            vote, observation = self._votes.get(place), self._observations.get(place)
            timed, candidates = self._timings.get(place), self._sets.get(place)
        self._put("votes", place, None if vote is None else vote.encode("ascii"))
        self._put("observations", place, None if observation is None else observation_text(observation))
        self._put("timings", place, None if timed is None else timings_text(timed))
        self._put("candidate_sets", place, None if candidates is None else set_text(candidates))

    def _put(self, section: str, place: Entry, text: bytes | None) -> None:
        arch, kernel, key = place
        if text is not None:
            self.texts[section].setdefault(arch, {}).setdefault(kernel, {})[key] = text
        elif key in self.texts[section].get(arch, {}).get(kernel, {}):
            kernels = self.texts[section][arch]
            del kernels[kernel][key]
            if not kernels[kernel]:
                del kernels[kernel]
            if not kernels:
                del self.texts[section][arch]

    def _first_spelling(self, entry: Entry) -> Entry:
        """The spelling in which an entry was first seen: True, 1 and 1.0 are one key."""
        return self._first_spellings.setdefault((entry[0], entry[1], lookup_key(entry[2])), entry)


def _nested(entries: Mapping[Entry, T]) -> dict[str, dict[str, dict[str, T]]]:
    nested: dict[str, dict[str, dict[str, T]]] = {}
    for (arch, kernel, key), value in entries.items():
        nested.setdefault(arch, {}).setdefault(kernel, {})[key] = value
    return nested
