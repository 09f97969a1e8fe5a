"""What this rank chose, kept as one valid version 1 recording on disk and finished at exit."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tuning_registry.formats.loader import installed_triton
from tuning_registry.formats.recording_writer import recording_chunks
from tuning_registry.locations import absolute_location, is_url, shown_url, user_folder
from tuning_registry.log import inform, warn
from tuning_registry.model.canonical import live_config_text, text_digest
from tuning_registry.model.names import top_module
from tuning_registry.model.records import (
    MISS_REASON,
    Header,
    Observation,
    Recording,
    TimedCandidates,
    Timing,
    candidate_set_digest,
)
from tuning_registry.runtime.guard import count_fault, guarded, warn_once
from tuning_registry.runtime.job.devices import UNKNOWN, Device
from tuning_registry.runtime.job.place import current_place, host_name
from tuning_registry.runtime.recording.background_writer import INTERVAL_S, Journal
from tuning_registry.runtime.recording.identity import Identity
from tuning_registry.runtime.recording.notes import Entry, Notes
from tuning_registry.runtime.recording.owners import Owners
from tuning_registry.runtime.recording.recording_file import RecordingFile
from tuning_registry.runtime.recording.sink import RETRY_BUDGET_S, write_with_retries
from tuning_registry.runtime.recording.tunings import REASONS, texts_of, timings_of
from tuning_registry.runtime.triton.watch import TIMED, Tuning

_STALL_S: Final = 10.0  # how long the exit of a process waits for a file system that shows no progress
_LAST_TRY_S: Final = 3.0  # beyond its budget, for the driver of a database to give up


class Recorder:
    """Votes, observations and timings of this process. Safe under threads; never raises, once made.

    A child by `fork` goes on with a recorder that is empty and has its own file and thread.

    Args:
        record_path: Prefix of the file, or a database URL; then the file lies in the user's folder until the
            database has taken it.
        run: The run's name in the policy.
        source: Free text for the header.
        interval_s: Least time between two writes of the file.

    Raises:
        PolicyError: Nothing names the run of a job of many processes.
        OSError: The path is relative and the current folder is gone.
        RuntimeError: The path begins with `~` and there is no such home.
    """

    def __init__(self, record_path: str, run: str | None, source: str | None, interval_s: float = INTERVAL_S) -> None:
        # Absolute, since a training script may change its folder before the first write.
        self._url = absolute_location(record_path) if is_url(record_path) else None
        self._prefix = _waiting_folder(self._url) / "rec" if self._url else Path(record_path).expanduser().absolute()
        self._source = source
        self._interval_s = interval_s
        self.device = Device()  # what the last choice ran on; set by whoever records it
        self._owners = Owners()
        self._identity = Identity(run)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._notes = Notes()
        self._journal = Journal(self._write, self._interval_s, self._watch, stall_s=_STALL_S)
        self._file = RecordingFile(self._prefix, self._beat)
        self._finished = False
        self._is_present = self._is_delivered = False

    def start_in_child(self) -> None:
        """Begin anew in a forked child: nothing recorded, no thread, no file."""
        if self._process != os.getpid():
            self._identity = Identity.of_forked_child(self._identity)
            self._begin()

    def resume(self) -> None:
        """Go on after `finish`: the same file is written again, with what it held before."""
        self.start_in_child()
        if self._finished:
            self._journal = Journal(self._write, self._interval_s, self._watch, self._journal, _STALL_S)
            self._finished = False

    @property
    def file(self) -> Path | None:
        """The file as it was last written; None before, and after a database took it."""
        return self._file.path

    def attend(self) -> None:
        """Leave a recording also where there is nothing to keep: a pinned run without a miss was a run.

        Not in a forked child that nobody gave a rank: a DataLoader's worker is no run.
        """
        self.start_in_child()
        if not self._is_present and not self._finished and not self._identity.is_of_its_own:
            self._is_present = True
            self._journal.touch()

    def vote(self, entry: Entry, config: str, timings: Sequence[Timing], candidates: Sequence[str]) -> None:
        """Keep a timed winner; the first vote of an entry stands.

        Args:
            entry: Arch, kernel, key.
            config: The winner's canonical text.
            timings: Of every candidate.
            candidates: Canonical texts of the candidates it was chosen from.
        """
        self.start_in_child()
        timed = TimedCandidates.from_timings(timings) if timings else None
        self._notes.vote(entry, config, timed, candidate_set_digest(candidates) if candidates else None)
        self._note_change(entry)
        if top_module(entry[1]) == "__main__" and current_place().rank == 0:
            warn_once("in main", "%s and other kernels of the script itself are recorded under __main__, as those of "
                      "any other script are; in a module they have a name of their own", entry[1])  # fmt: skip

    def observe(self, entry: Entry, config: str | None, reason: str, timings: Sequence[Timing] = ()) -> None:
        """Keep a choice that is no vote, unless the entry has voted; the first observation stands."""
        self.start_in_child()
        timed = TimedCandidates.from_timings(timings) if timings else None
        self._notes.observe(entry, Observation(config, reason), timed)
        self._note_change(entry)

    def _note_change(self, entry: Entry) -> None:
        if self._finished:  # exit handlers that were registered before ours run after it
            warn_once("late", "%s was launched when the recording was finished (at uninstall, or at the exit of the "
                      "process) and may be missing from it", entry[1])  # fmt: skip
            return
        self._journal.touch()
        guarded("looking for the process group", self._identity.look)

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
        return Recording("", self._header(), **self._notes.sections())

    def finish(self, wait_s: float | None = None) -> None:
        """Write the last state and hand it to the database, if one was given; later calls wait for the end of it.

        Args:
            wait_s: Go on without waiting longer; the rest happens in the background. None waits for as long
                as the work makes progress.
        """
        if self._process != os.getpid():
            return
        self._finished = True
        if not self._journal.finish(self._write_last, wait_s) and wait_s is None:
            warn("the recording was not finished, since nothing moved any more; last whole "
                 "state: %s", self.file or "none")  # fmt: skip

    def _beat(self) -> None:
        self._journal.beat()

    def _watch(self) -> bool:
        """Do what no write should wait for: find owners of new kernels, a process group; whether one may still come."""
        kernels = self._notes.kernels()
        if self._owners.miss(kernels):
            guarded("finding the owners of kernels", self._owners.find, kernels, self._beat)
            self._journal.touch()
        self._identity.look()
        return self._identity.is_open

    def _header(self) -> Header:
        run, place = self._identity.now()
        packages, modules = self._owners.known(self._notes.kernels())
        device = self.device
        return Header(
            run=run, rank=place.rank, world_size=place.world_size, host=host_name(), device_name=device.name,
            device_arch=None if device.arch == UNKNOWN else device.arch,
            multiprocessor_count=device.multiprocessor_count,
            triton=installed_triton() or None, packages=packages, modules=modules, source=self._source,
        )  # fmt: skip

    def _write(self) -> bool:
        """Bring the file up to date; whether it was."""
        self._write_to(self._file)
        return True

    def _write_to(self, file: RecordingFile, has_neighbours: bool = True) -> None:
        self._notes.spell(self._beat)
        header = self._header()
        assert header.run is not None
        assert header.rank is not None
        is_first = file.path is None
        file.write(header.run, header.rank, recording_chunks(header, self._notes.texts))
        if not has_neighbours:
            return  # the folder for temporary files holds what other jobs left: nobody is told apart by it
        if is_first and header.rank == 0 and not self._identity.is_guessed and file.has_rival(header.run, 0):
            warn_once("rival", "another process has recorded rank 0 of run %s, too, as a job of the same name or an earlier "
                      "attempt would; the registry takes one of them (give each a name: run, TUNING_REGISTRY_RUN)",
                      header.run)  # fmt: skip
        if self._identity.is_guessed and file.has_rival(header.run, header.rank):
            self._identity.set_apart()
            self._write_to(file)

    def _write_last(self) -> None:
        guarded("finding the owners of kernels", self._owners.find, self._notes.kernels(), self._beat)
        file = self._file
        try:
            self._write()
        except Exception as error:  # noqa: BLE001 - whatever it is, there is another place to try
            count_fault("writing the recording", error)
            file = RecordingFile(Path(tempfile.gettempdir()) / self._prefix.name, self._beat)
            self._write_to(file, has_neighbours=False)
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            earlier = f" (an earlier state of it is in {self.file}: ingest only one)" if self.file else ""
            warn("%s cannot be written: %s; the recording is in %s%s", self._prefix, reason, file.path, earlier)
        if self._url is None:
            inform("%s in %s", self._notes, file.path)
            return
        self._journal.beat(RETRY_BUDGET_S + _LAST_TRY_S)
        if guarded("handing the recording to the database", write_with_retries, self._url, self.recording(),
                   apart=self._set_apart if self._identity.is_guessed and not self._is_delivered else None,
                   replace=self._is_delivered):  # fmt: skip
            self._is_delivered = True
            file.delete()
            inform("%s in %s", self._notes, shown_url(self._url))
        else:
            warn("the recording stays in %s; later: registry ingest %s --db %s", file.path,
                 shlex.quote(str(file.path)), shlex.quote(shown_url(self._url)))  # fmt: skip

    def _set_apart(self) -> Recording:
        self._identity.set_apart()
        return self.recording()


def _waiting_folder(url: str) -> Path:
    """Where recordings lie until this database has them: in the user's folder, or that for temporary files."""
    user = user_folder() or Path(tempfile.gettempdir()) / f"tuning-registry-{os.getuid()}"
    return user / "recordings" / text_digest(shown_url(url))[:8]
