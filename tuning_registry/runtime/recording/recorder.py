"""Recording the choices of this rank to one valid version 2 recording, which is handed in to a database if there is one."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from tuning_registry.formats.hand_ins import pack_hand_in
from tuning_registry.formats.loader import installed_triton
from tuning_registry.formats.recording_writer import recording_chunks
from tuning_registry.formats.stores import place_of
from tuning_registry.locations import DRIVERS, absolute_location, is_url, shown_url, user_folder
from tuning_registry.log import warn
from tuning_registry.model.audits import AuditedEntry
from tuning_registry.model.canonical import live_config_text, text_digest
from tuning_registry.model.names import top_module
from tuning_registry.model.records import (
    IMPOSSIBLE_TIME,
    IN_SHARE,
    NO_TEXT,
    Hardware,
    Header,
    Observation,
    Recording,
    TimedCandidates,
    Timing,
    candidate_set_digest,
    miss_text,
)
from tuning_registry.runtime.guard import count_fault, guarded, warn_once
from tuning_registry.runtime.job.devices import UNKNOWN, Device
from tuning_registry.runtime.job.place import (
    announce,
    current_place,
    host_name,
    launched_attempt,
    launched_local_rank,
)
from tuning_registry.runtime.recording.audits import Audits
from tuning_registry.runtime.recording.background_writer import INTERVAL_S, BackgroundWriter
from tuning_registry.runtime.recording.compiled import Compiled
from tuning_registry.runtime.recording.facts import find_hardware
from tuning_registry.runtime.recording.hand_in import BUDGET_S, HandIn
from tuning_registry.runtime.recording.identity import Identity
from tuning_registry.runtime.recording.notes import Entry, Notes
from tuning_registry.runtime.recording.owners import Owners, is_importable
from tuning_registry.runtime.recording.recording_file import RecordingFile
from tuning_registry.runtime.recording.split import Split, earlier_recordings
from tuning_registry.runtime.recording.tunings import (
    NOT_FOLLOWED,
    REASONS,
    REASONS_WITHOUT_AUDIT,
    differ_in_hooks,
    texts_of,
    timings_of,
)
from tuning_registry.runtime.recording.uploads import Uploads
from tuning_registry.runtime.triton.keys import source_hash
from tuning_registry.runtime.triton.share import Share
from tuning_registry.runtime.triton.watch import SINGLE, TIMED, Tuning

_STALL_S: Final = 10.0  # how long the exit waits for a file system that makes no progress
_LAST_TRY_S: Final = 3.0  # beyond the budget of the last hand-in, for a database driver to give up


class Recorder:
    """Votes, observations and timings of this process. Safe under threads; once made, it never raises.

    A forked child continues with an empty recorder that has a separate file and thread.

    Args:
        record_path: Prefix of the file, or the URL of a database, or that of a prefix in a store; the file is then in
            the user's folder until the database or store has the recording.
        run: The run's name in the policy.
        source: Free text for the header.
        interval_s: Least time between two writes of the file, in seconds.

    Raises:
        PolicyError: The job has several processes, and nothing names the run.
        OSError: The path is relative and the current folder is gone.
        RuntimeError: The path begins with `~` and there is no such home.
    """

    def __init__(self, record_path: str, run: str | None, source: str | None, interval_s: float = INTERVAL_S) -> None:
        # Absolute, since a training script may change its folder before the first write.
        self._url = absolute_location(record_path) if is_url(record_path) else None
        self._is_in_store = is_url(record_path) and record_path.partition("://")[0] not in DRIVERS
        name = place_of(record_path).name if self._is_in_store else "rec"
        self._prefix = _waiting_folder(self._url) / name if self._url else Path(record_path).expanduser().absolute()
        if self._url is None:
            guarded("checking the folder of the recording", _warn_if_not_writable, self._prefix.parent)
        self._source = source
        self._interval_s = interval_s
        self.device = Device()  # that the last choice was made on; set by the caller
        self._split = Split()
        self._owners = Owners()
        self._identity = Identity(run)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._id = os.urandom(16).hex()  # of the process and attempt: a recording of this id only grows
        self._hardware: Hardware | None = None
        self._modules_seen: set[str] = set()
        self._notes = Notes()
        self._audits = Audits()
        self._compiled = Compiled()
        self._writer = BackgroundWriter(self._write, self._interval_s, self._complete, stall_s=_STALL_S)
        # A restarted pod has an empty disk and may have the same process id: its objects need other names.
        mark = f"-{self._id[:8]}" if self._is_in_store else ""
        self._file = RecordingFile(self._prefix, self._beat, mark)
        self._finished = False
        self._is_present = False
        uploads = Uploads(lambda: self._file.path) if self._is_in_store else None
        self._hand_in = HandIn(self._url, self._payload, self._may_change_place, uploads) if self._url else None
        self._split = self._split.afresh()

    def start_in_child(self) -> None:
        """In a forked child, start over: nothing recorded, no thread, no file."""
        if self._process != os.getpid():
            self._identity = Identity.of_forked_child(self._identity)
            self._begin()

    def resume(self) -> None:
        """Continue after `finish`: the same file is written again, with its earlier content."""
        self.start_in_child()
        if self._finished:
            self._writer = BackgroundWriter(self._write, self._interval_s, self._complete, self._writer, _STALL_S)
            self._finished = False

    def share_work(self, ranks: int | str | None, repeats: int) -> None:
        """Let ranks share the work from now on, or let each do all of it (None). See `Split`."""
        self._split.deal_to(ranks, repeats)

    def share(self, entry: Entry, autotuner: Any, pruned: Iterable[Any]) -> Share | None:
        """What this rank times of a key's candidates; None for all of them."""
        self.start_in_child()
        run, _ = self._identity.now()
        source = guarded("reading the source of a kernel", source_hash, autotuner)
        return self._split.share(entry, source, pruned, earlier_recordings(self._prefix, run))

    @property
    def file(self) -> Path | None:
        """The file; None before the first write, and once a database has the recording."""
        return self._file.path

    def attend(self) -> None:
        """Write a recording even if it is empty, so that a pinned run without misses leaves a trace.

        Does nothing in a forked child without a rank, such as a DataLoader's worker.
        """
        self.start_in_child()
        if not self._is_present and not self._finished and not self._identity.is_separate:
            self._is_present = True
            self._writer.touch()

    def vote(
        self, entry: Entry, config: str, timings: Sequence[Timing], candidates: Sequence[str],
        source: str | None = None,
    ) -> None:  # fmt: skip
        """Record a timed winner; the first vote of an entry counts.

        Args:
            entry: Arch, kernel, key.
            config: The winner's canonical text.
            timings: The timings of every candidate.
            candidates: Canonical texts of the candidates that it was chosen from.
            source: Hash of the source of the kernel's function.
        """
        self.start_in_child()
        timed = TimedCandidates.from_timings(timings) if timings else None
        self._notes.vote(entry, config, timed, candidate_set_digest(candidates) if candidates else None,
                         source)  # fmt: skip
        self._note_change(entry)
        if top_module(entry[1]) == "__main__" and current_place().rank == 0:
            warn_once("in main", "%s and other kernels of the script are recorded under __main__, where kernels of different "
                      "scripts can share a name; move them to a module", entry[1])  # fmt: skip

    def observe(
        self, entry: Entry, config: str | None, reason: str, timings: Sequence[Timing] = (), source: str | None = None
    ) -> None:
        """Record a choice that does not vote, unless the entry has a vote; the first observation counts."""
        self.start_in_child()
        timed = TimedCandidates.from_timings(timings) if timings else None
        self._notes.observe(entry, Observation(config, reason), timed, source)
        self._note_change(entry)

    def _note_change(self, entry: Entry) -> None:
        if self._finished:  # exit handlers that were registered before ours run after it
            warn_once("late", "%s was launched after the recording was finished (at uninstall or at exit) and may be "
                      "missing from it", entry[1])  # fmt: skip
            return
        self._writer.touch()
        guarded("looking for the process group", self._identity.join_group)

    def miss(self, entry: Entry, config: str | None, reason: str, nearest: str = "") -> None:
        """Record, as an observation, that no entry of the table decided a pinned launch (`records.miss_text`)."""
        self.observe(entry, config, miss_text(reason, nearest))

    def keep(self, entry: Entry, tuning: Tuning) -> None:
        """Record Triton's choice: a vote if it was timed here, otherwise an observation with the reason."""
        timings = timings_of(entry[1], tuning.timings)
        config = None if tuning.winner is None else live_config_text(tuning.winner)
        source = guarded("reading the source of a kernel", source_hash, tuning.autotuner)
        if config is not None and tuning.compiled is not None and live_config_text(tuning.compiled[0]) == config:
            # Before the vote, so that no state of the recording has one without it.
            self._compiled.keep(entry, config, tuning.compiled[1])
        has_time = any(timing.median_ms is not None for timing in timings if timing.config == config)
        if isinstance(tuning.candidates, Share):
            self.observe(entry, config, REASONS.get(tuning.origin, IN_SHARE), timings, source)
        elif tuning.origin != TIMED or (config is not None and not has_time):
            self.observe(entry, config, REASONS.get(tuning.origin, IMPOSSIBLE_TIME), timings, source)
        elif config is None:
            warn_once(("no text", entry[1]), "%s chose a config with a field or value that a recording cannot hold; the choice is "
                      "recorded as an observation, which does not vote", entry[1])  # fmt: skip
            self.observe(entry, None, NO_TEXT, timings, source)
        else:
            candidates = tuning.candidates if tuning.candidates is not None else list(tuning.timings)
            texts = texts_of(candidates)
            if len(texts) < len(candidates) and guarded("comparing candidates", differ_in_hooks, candidates):
                warn_once(("hooks", entry[1]), "two candidates of %s differ in their pre_hook alone, which neither a recording nor "
                          "a table holds: pinning cannot tell them apart. Make them differ in a parameter.",
                          entry[1])  # fmt: skip
            self.vote(entry, config, timings, texts, source)

    def keep_audit(self, entry: Entry, tuning: Tuning) -> None:
        """Record what the audit of a tuning found, or why there was none; the first audit of an entry counts."""
        if tuning.origin == SINGLE:
            return
        self.start_in_child()
        audited = tuning.audited or AuditedEntry(skipped=REASONS_WITHOUT_AUDIT.get(tuning.origin, NOT_FOLLOWED))
        if audited.skipped:
            warn_once(("audit", entry[1], audited.skipped), "%s is not audited: %s", entry[1], audited.skipped)
        self._audits.keep(entry, audited)

    def recording(self) -> Recording:
        """The present state as a recording."""
        return Recording("", self._header(), **self._notes.sections())

    def finish(self, wait_s: float | None = None) -> None:
        """Write the last state, and hand in what is new if there is a database; later calls wait for that.

        Args:
            wait_s: Return after this many seconds; the rest happens in the background. None waits for as long
                as the work makes progress.
        """
        if self._process != os.getpid():
            return
        self._finished = True
        if not self._writer.finish(self._write_last, wait_s) and wait_s is None:
            warn("the recording was not finished, because writing made no progress; last complete state: %s",
                 self.file or "none")  # fmt: skip

    def _beat(self) -> None:
        self._writer.beat()

    def _complete(self) -> bool:
        """Find the packages of new kernels and the process group, without delaying a write.

        Returns:
            Whether a process group may still appear, or a hand-in is due later.
        """
        kernels = self._notes.kernels()
        if self._owners.miss(kernels):
            guarded("finding the owners of kernels", self._owners.find, kernels, self._beat)
            self._writer.touch()
        if self._find_hardware():
            self._writer.touch()
        self._look_at_modules(kernels)
        self._identity.join_group()
        is_waiting = self._hand_in is not None and guarded("handing in", self._hand_in.attend)
        return self._identity.is_open or bool(is_waiting)

    def _look_at_modules(self, kernels: Iterable[str]) -> None:
        """Warn about kernels whose module other processes cannot have under the same name."""
        for kernel in sorted(kernels):
            top = top_module(kernel)
            if top in self._modules_seen or top in {"", "__main__"}:
                continue
            self._modules_seen.add(top)
            if guarded("importing a module", is_importable, top) is False and current_place().rank == 0:
                warn_once(("module", top), "module %s cannot be imported by its name (generated code?), so other ranks and later "
                          "jobs may record %s under other names; name it with the policy's module_names", top, kernel)  # fmt: skip

    def _find_hardware(self) -> bool:
        """Ask for the hardware once a choice was made on a device; whether something new was found."""
        if self._hardware is not None or self.device == Device():
            return False
        self._hardware = guarded("querying the hardware", find_hardware, self.device) or Hardware()
        return self._hardware != Hardware()

    def _header(self) -> Header:
        run, place = self._identity.now()
        packages, modules = self._owners.known(self._notes.kernels())
        device = self.device
        return Header(
            run=run, rank=place.rank, world_size=place.world_size, host=host_name(), device_name=device.name,
            device_arch=None if device.arch == UNKNOWN else device.arch,
            multiprocessor_count=device.multiprocessor_count,
            triton=installed_triton() or None, packages=packages, modules=modules, source=self._source,
            id=self._id, attempt=launched_attempt(), local_rank=launched_local_rank(), device_uuid=device.uuid,
            hardware=self._hardware or Hardware(), sources=self._notes.sources(),
            extra=self._audits.extra() | self._split.extra()
            | (guarded("writing compile data", self._compiled.extra) or {}),
        )  # fmt: skip

    def _write(self) -> bool:
        """Bring the file up to date; returns True."""
        self._write_to(self._file)
        if self._hand_in is not None:
            self._hand_in.note_change()
        return True

    def _write_to(self, file: RecordingFile, has_neighbours: bool = True) -> None:
        self._notes.serialize(self._beat)
        header = self._header()
        assert header.run is not None
        assert header.rank is not None
        is_first = file.path is None
        file.write(header.run, header.rank, recording_chunks(header, self._notes.texts))
        if not has_neighbours:
            return  # the temporary folder holds files of other jobs, which say nothing about this one
        if is_first and header.rank == 0 and not self._identity.is_guessed and file.has_rival(header.run, 0):
            warn_once("rival", "another process also recorded rank 0 of run %s (a job of the same name, or an earlier attempt?); "
                      "only one of them can be ingested. Name each job with run or TUNING_REGISTRY_RUN.",
                      header.run)  # fmt: skip
        if self._identity.is_guessed and file.has_rival(header.run, header.rank):
            self._identity.start_separate_run()
            self._write_to(file)

    def _write_last(self) -> None:
        self._find_hardware()
        self._look_at_modules(self._notes.kernels())
        guarded("finding the owners of kernels", self._owners.find, self._notes.kernels(), self._beat)
        file = self._file
        try:
            self._write()
        except Exception as error:  # noqa: BLE001 - whatever the error, try another folder
            count_fault("writing the recording", error)
            file = RecordingFile(Path(tempfile.gettempdir()) / self._prefix.name, self._beat)
            self._write_to(file, has_neighbours=False)
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            earlier = f" ({self.file} holds an earlier state: ingest only one of them)" if self.file else ""
            warn("cannot write %s: %s; the recording is in %s%s", self._prefix, reason, file.path, earlier)
        if self._url is None:
            announce("recorded %s to %s", self._notes, file.path)
            return
        self._writer.beat(BUDGET_S + _LAST_TRY_S)
        assert self._hand_in is not None
        if guarded("handing in", self._hand_in.finish):
            file.delete()
            announce("recorded %s to %s", self._notes, shown_url(self._url))
        else:
            into = "" if self._is_in_store else f" --db {shlex.quote(shown_url(self._url))}"
            if self._url.startswith("postgres"):
                into += " (its user needs the role ingester)"
            warn("the recording stays in its file; to ingest it later, run: registry ingest %s%s",
                 shlex.quote(str(file.path)), into)  # fmt: skip

    def _payload(self) -> bytes:
        """The present state as a hand-in, or as an object."""
        self._notes.serialize(self._beat)
        if self._is_in_store:
            return b"".join(recording_chunks(self._header(), self._notes.texts))
        separate_run = self._identity.separate_run if self._identity.is_guessed else None
        return pack_hand_in(recording_chunks(self._header(), self._notes.texts), separate_run)

    def _may_change_place(self) -> bool:
        return self._identity.is_open


def _warn_if_not_writable(folder: Path) -> None:
    """Warn if a folder, or the nearest one above it that exists, cannot be written."""
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        warn("record_path: cannot write to the folder %s, because %s %s; the recording would be written to the temporary "
             "folder instead. Give a prefix in a writable folder.", folder, nearest,
             "is not writable" if nearest.is_dir() else "is not a folder")  # fmt: skip


def _waiting_folder(url: str) -> Path:
    """The folder of recordings that wait for this database, in the user's or the temporary folder."""
    user = user_folder() or Path(tempfile.gettempdir()) / f"tuning-registry-{os.getuid()}"
    return user / "recordings" / text_digest(shown_url(url))[:8]
