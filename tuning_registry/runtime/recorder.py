"""What this rank chose, kept as one valid version 1 recording on disk and finished at exit."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from tuning_registry.canonical import live_config_text
from tuning_registry.files import write_atomically
from tuning_registry.loader import installed_triton
from tuning_registry.locations import user_folder
from tuning_registry.names import lookup_key
from tuning_registry.recording_writer import recording_bytes
from tuning_registry.records import (
    MISS_REASON,
    Header,
    Observation,
    Recording,
    TimedCandidates,
    Timing,
    candidate_set_digest,
)
from tuning_registry.runtime.arch import UNKNOWN, Device
from tuning_registry.runtime.guard import guarded, warn_once
from tuning_registry.runtime.job import current_place, file_name_part, host_name, resolve_run, stated_run
from tuning_registry.runtime.journal import INTERVAL_S, Journal
from tuning_registry.runtime.owners import Owners
from tuning_registry.runtime.sink import RETRY_BUDGET_S, is_database_url, shown_url, write_with_retries
from tuning_registry.runtime.tunings import REASONS, texts_of, timings_of
from tuning_registry.runtime.watch import TIMED, Tuning

logger = logging.getLogger("tuning_registry")

_FILE_TIMEOUT_S: Final = 10.0  # how long the exit of a process waits for a file system that hangs

T = TypeVar("T")
Entry = tuple[str, str, str]  # arch, kernel, key


class Recorder:
    """Votes, observations and timings of this process. Safe under threads; never raises, once made.

    Args:
        record_path: Prefix of the file, or a database URL; then the file lies in the user's folder until the
            database has taken it.
        run: The run's name in the policy.
        source: Free text for the header.
        interval_s: Least time between two writes of the file.

    Raises:
        PolicyError: Nothing names the run of a job of many processes.
    """

    def __init__(self, record_path: str, run: str | None, source: str | None, interval_s: float = INTERVAL_S) -> None:
        self._url = record_path if is_database_url(record_path) else None
        # Absolute, since a training script may change its folder before the first write.
        self._prefix = (
            Path(record_path).expanduser().absolute() if self._url is None else user_folder() / "recordings" / "rec"
        )
        self._policy_run = run
        self._run = resolve_run(run)
        self._run_is_shared = stated_run(run) is not None or (current_place().world_size or 2) > 1
        self._source = source
        self.device = Device()  # what the last choice ran on; set by whoever records it
        self._owners = Owners()
        self._lock = threading.Lock()
        self._votes: dict[Entry, str] = {}
        self._observations: dict[Entry, Observation] = {}
        self._timings: dict[Entry, TimedCandidates] = {}
        self._sets: dict[Entry, str] = {}
        self._spelling: dict[Entry, Entry] = {}
        self._process = os.getpid()
        self._file: Path | None = None
        self._interval_s = interval_s
        self._journal = Journal(self._write, interval_s)
        self._finished = False

    def resume(self) -> None:
        """Go on after `finish`: the same file is written again, with what it held before."""
        if self._finished:
            self._journal = Journal(self._write, self._interval_s)
            self._finished = False

    @property
    def file(self) -> Path | None:
        """The file as it was last written; None before, and after a database took it."""
        return self._file

    def vote(self, entry: Entry, config: str, timings: Sequence[Timing], candidates: Sequence[str]) -> None:
        """Keep a timed winner; the first vote of an entry stands.

        Args:
            entry: Arch, kernel, key.
            config: The winner's canonical text.
            timings: Of every candidate.
            candidates: Canonical texts of the candidates it was chosen from.
        """
        if self._process != os.getpid():
            return  # a forked child: the file is its parent's, and the lock may have been held while forking
        with self._lock:
            place = self._one_spelling(entry)
            if self._votes.setdefault(place, config) != config:
                warn_once(("two votes", place), "%s was tuned twice for key %s with different winners; the first one "
                          "votes", place[1], place[2])  # fmt: skip
                return
            self._observations.pop(place, None)
            if timings:
                self._timings[place] = TimedCandidates.from_timings(timings)
            if candidates:
                self._sets[place] = candidate_set_digest(candidates)
        self._journal.touch()

    def observe(self, entry: Entry, config: str | None, reason: str, timings: Sequence[Timing] = ()) -> None:
        """Keep a choice that is no vote, unless the entry has voted; the first observation stands."""
        if self._process != os.getpid():
            return
        with self._lock:
            place = self._one_spelling(entry)
            if place in self._votes or place in self._observations:
                return
            self._observations[place] = Observation(config, reason)
            if timings:
                self._timings[place] = TimedCandidates.from_timings(timings)
        self._journal.touch()

    def miss(self, entry: Entry, config: str | None, reason: str) -> None:
        """Keep that the table did not decide a pinned launch, as an observation."""
        self.observe(entry, config, MISS_REASON + reason)

    def keep(self, entry: Entry, tuning: Tuning) -> None:
        """Keep what Triton chose: a vote if it was timed here, else an observation with its reason."""
        timings = timings_of(tuning.timings)
        config = None if tuning.winner is None else live_config_text(tuning.winner)
        if tuning.origin != TIMED:
            self.observe(entry, config, REASONS[tuning.origin], timings)
        elif config is None:
            warn_once(("no text", entry[1]), "%s chose a config with fields that a recording cannot hold; not recorded",
                      entry[1])  # fmt: skip
        else:
            candidates = tuning.candidates if tuning.candidates is not None else list(tuning.timings)
            self.vote(entry, config, timings, texts_of(candidates))

    def recording(self) -> Recording:
        """The present state as a recording."""
        with self._lock:
            votes, observations = dict(self._votes), dict(self._observations)
            timings, sets = dict(self._timings), dict(self._sets)
        place = current_place()
        kernels = {kernel for _, kernel, _ in [*votes, *observations]}
        packages, modules = guarded("finding the owners of kernels", self._owners.of, kernels) or ({}, {})
        device = self.device
        header = Header(
            run=self._run, rank=place.rank, world_size=place.world_size, host=host_name(), device_name=device.name,
            device_arch=None if device.arch == UNKNOWN else device.arch,
            multiprocessor_count=device.multiprocessor_count,
            triton=installed_triton() or None, packages=packages, modules=modules, source=self._source,
        )  # fmt: skip
        return Recording("", header, _nested(votes), _nested(observations), _nested(timings), _nested(sets))

    def finish(self) -> None:
        """Write the last state and hand it to the database, if one was given; later calls do nothing."""
        if self._finished or self._process != os.getpid():
            return
        self._finished = True
        timeout_s = _FILE_TIMEOUT_S + (2 * RETRY_BUDGET_S if self._url else 0)
        if not self._journal.finish(self._write_last, timeout_s):
            logger.warning("tuning_registry: the recording was not finished within %d s; last whole state: %s",
                           timeout_s, self._file or "none")  # fmt: skip

    def _one_spelling(self, entry: Entry) -> Entry:
        """The spelling under which an entry was first seen: True, 1 and 1.0 are one key."""
        return self._spelling.setdefault((entry[0], entry[1], lookup_key(entry[2])), entry)

    def _write(self) -> None:
        if not self._run_is_shared and (current_place().world_size or 1) > 1:
            # A process group appeared after install: agree on one name before more is written.
            self._run, self._run_is_shared = resolve_run(self._policy_run), True
        recording = self.recording()
        file = self._file_of(recording)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, recording_bytes(recording))
        before, self._file = self._file, file
        if before is not None and before != file:
            with contextlib.suppress(OSError):
                before.unlink()

    def _file_of(self, recording: Recording) -> Path:
        """`<prefix>.<run>.<host>.<process>.rank<N>.json`: no two processes of any job share it."""
        header = recording.header
        parts = (file_name_part(header.run or "run") or "run", header.host, str(self._process))
        return self._prefix.with_name(".".join([self._prefix.name, *map(str, parts), f"rank{header.rank}", "json"]))

    def _write_last(self) -> None:
        try:
            self._write()
        except OSError as error:
            self._write_elsewhere(error)
        if self._url is None:
            return
        if guarded("handing the recording to the database", write_with_retries, self._url, self.recording()):
            if self._file is not None:
                self._file.unlink(missing_ok=True)
                self._file = None
        else:
            logger.warning("tuning_registry: the recording stays in %s; later: registry ingest %s --db %s",
                           self._file, self._file, shown_url(self._url))  # fmt: skip

    def _write_elsewhere(self, error: OSError) -> None:
        """The record path failed to the end: keep the recording in the folder for temporary files."""
        recording = self.recording()
        file = Path(tempfile.gettempdir()) / self._file_of(recording).name
        write_atomically(file, recording_bytes(recording))
        logger.warning("tuning_registry: %s; the recording is in %s", error, file)
        if self._url:
            self._file = file


def _nested(entries: Mapping[Entry, T]) -> dict[str, dict[str, dict[str, T]]]:
    nested: dict[str, dict[str, dict[str, T]]] = {}
    for (arch, kernel, key), value in entries.items():
        nested.setdefault(arch, {}).setdefault(kernel, {})[key] = value
    return nested
