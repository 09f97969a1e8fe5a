"""Recordings on their way into the database: every name once, votes as integers.

One vote takes these forms between its file and its row. Each exists because the one before is too slow or too large
for a fleet (benchmarks/README.md has the figures):

    file         {"sm90": {"fla.k": {"M=1": {"kwargs": ...}}}}         one per rank
    Recording    votes["sm90"]["fla.k"]["M=1"] = canonical text        formats.fast_reader, formats.recordings
    Batch        entries[e] = ("sm90", "fla.k", "M=1")                 every name once, numbered as it appears
                 configs[c] = canonical text
                 votes[e, c] = array of positions in `pending`         4 bytes per vote
    IngestPlan   inserts[position] = {"votes": position, ...}          which files are new: operations.ingest.placement
    groups       (entry id, config id, [recording id, ...])            db.ingestion
    rows         (entry_id, config_id, recording_id) in `votes`        one json_each or COPY per group: db.dialects
"""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from tuning_registry.db.ingestion.pending import Content, Curated, Environment, Pending, TimedEntry
from tuning_registry.errors import FormatError, RecordingError
from tuning_registry.formats.audits import read_audits
from tuning_registry.formats.sections import check_twin_keys
from tuning_registry.formats.specializations import read_compiled, without_compiled
from tuning_registry.model.audits import AuditedEntry
from tuning_registry.model.canonical import dump_json, text_digest
from tuning_registry.model.names import lookup_key, top_module
from tuning_registry.model.packages import module_owners
from tuning_registry.model.records import ByEntry, Header, Recording, TimedCandidates
from tuning_registry.model.specializations import Specialization


@dataclass(slots=True)
class Batch:
    """What one ingest will write. Entries and configs are numbered in order of appearance.

    A vote takes four bytes, so that ten thousand recordings fit in memory and the write lock is held only to write.
    """

    pending: list[Pending] = field(default_factory=list)
    entries: list[tuple[str, str, str]] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)  # of the entries; empty unless their source is per device
    configs: list[str] = field(default_factory=list)
    # (entry, config) -> positions in `pending` that chose it
    votes: dict[tuple[int, int], array[int]] = field(default_factory=lambda: defaultdict(lambda: array("i")))
    observations: list[tuple[int, int, int | None, str]] = field(default_factory=list)
    # (entry, configs of its candidates) -> who timed them
    timings: dict[tuple[int, tuple[str, ...]], TimedEntry] = field(default_factory=dict)
    # (entry, fingerprint) -> positions in `pending`
    candidate_sets: dict[tuple[int, str], array[int]] = field(default_factory=lambda: defaultdict(lambda: array("i")))
    # position in `pending` -> audited entries
    audits: dict[int, list[tuple[int, AuditedEntry]]] = field(default_factory=dict)
    curated: list[Curated] = field(default_factory=list)
    # (entry, config, specialization) -> positions in `pending`
    compiled: dict[tuple[int, str, Specialization], list[int]] = field(default_factory=dict)
    # distribution and version that own each top-level module
    owners: dict[Environment, dict[str, tuple[str, str]]] = field(default_factory=dict)
    _entry_ids: dict[tuple[str, str], dict[str, dict[str, int]]] = field(default_factory=dict)
    _shape_ids: dict[tuple[str, str, str, str], int] = field(default_factory=dict)
    _entry_shapes: list[int] = field(default_factory=list)
    _config_ids: dict[str, int] = field(default_factory=dict)
    _choice_digests: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def add(self, recording: Recording, header: Header, *, is_named: bool) -> None:
        """Add one recording, under its final header.

        Raises:
            RecordingError: It holds one key in two spellings (`M=True` and `M=1`), or an audit or
                compile data of the wrong form.
        """
        position = len(self.pending)
        chosen, counts = self._choices_of(recording)
        timed = self._timed_entries(recording)  # rejected before anything is added: the next one gets its position
        audited = self._audited_entries(recording)
        compiled = self._compiled_entries(recording)
        environment = _environment(header)
        digests = {
            "votes": self._add_votes(position, chosen),
            "observations": self._add_observations(position, recording),
            "timings": self._add_timings(position, recording, timed),
        }
        if not chosen and (digests["observations"] or digests["timings"]):
            digests["votes"] = ""  # a file of timings states nothing about votes; an empty recording states: none
        if audited:
            self.audits[position] = audited
        header = replace(header, extra=without_compiled(header.extra))  # of a fleet, it would fill the memory
        for row in compiled:
            self.compiled.setdefault(row, []).append(position)
        self.pending.append(
            Pending(
                file=recording.file,
                header=header,
                is_named=is_named,
                digests={kind: digest for kind, digest in digests.items() if digest},
                environment=environment,
                vote_counts=counts,
                timing_count=sum(len(candidates) for _, candidates, _ in timed),
                observation_count=sum(
                    len(keys) for names in recording.observations.values() for keys in names.values()
                ),
                origin=recording.origin,
            )
        )
        self.owners.setdefault(environment, {}).update(module_owners(_modules_of(recording), header))

    def add_curated(self, recording: Recording, header: Header) -> None:
        """Add the choices of a file that somebody committed; they have no rank.

        Raises:
            RecordingError: It holds one key in two spellings.
        """
        assert recording.origin is not None
        chosen, _ = self._choices_of(recording)
        environment = _environment(header)
        digest = _joint_digest([self._choice_digest(choice) for choice in chosen])
        self.curated.append(Curated(recording.file, recording.origin, header.source or "", environment, chosen, digest))
        self.owners.setdefault(environment, {}).update(module_owners(_modules_of(recording), header))

    def _choices_of(self, recording: Recording) -> tuple[list[tuple[int, int]], dict[str, int]]:
        """The votes as numbers of entry and config, and how many there are by architecture."""
        chosen: list[tuple[int, int]] = []
        counts: dict[str, int] = {}
        config_ids = self._config_ids
        for arch, kernels in recording.votes.items():
            before = len(chosen)
            for kernel, entries in kernels.items():
                known = self._entries_of(arch, kernel, recording.device)
                for key, text in entries.items():  # the loop over all votes of a fleet: no calls for known names
                    entry = known.get(key)
                    if entry is None:
                        entry = self._new_entry(arch, kernel, key, recording.device)
                    config = config_ids.get(text)
                    if config is None:
                        config = self._config(text)
                    chosen.append((entry, config))
            if len(chosen) > before:
                counts[arch] = len(chosen) - before
        self._refuse_twin_keys(recording.file, recording.votes, [entry for entry, _ in chosen])
        return chosen, counts

    def _add_votes(self, position: int, chosen: Sequence[tuple[int, int]]) -> str:
        """Add the votes; their digest."""
        for choice in chosen:
            self.votes[choice].append(position)
        known = self._choice_digests
        parts = [known.get(choice) or self._choice_digest(choice) for choice in chosen]
        return _joint_digest(parts)

    def _entries_of(self, arch: str, kernel: str, device: str) -> dict[str, int]:
        return self._entry_ids.setdefault((arch, device), {}).setdefault(kernel, {})

    def _entry(self, arch: str, kernel: str, key: str, device: str) -> int:
        known = self._entries_of(arch, kernel, device)
        return known[key] if key in known else self._new_entry(arch, kernel, key, device)

    def _new_entry(self, arch: str, kernel: str, key: str, device: str) -> int:
        entry = len(self.entries)
        self._entries_of(arch, kernel, device)[key] = entry
        self.entries.append((arch, kernel, key))
        self.devices.append(device)
        self._entry_shapes.append(self._shape_ids.setdefault((arch, kernel, lookup_key(key), device), entry))
        return entry

    def _names(self, entry: int) -> tuple[str, ...]:
        """What identifies an entry: its device only if it has one, so that digests of other entries never changed."""
        device = self.devices[entry]
        return (*self.entries[entry], device) if device else self.entries[entry]

    def _config(self, text: str) -> int:
        config = self._config_ids.setdefault(text, len(self.configs))
        if config == len(self.configs):
            self.configs.append(text)
        return config

    def _choice_digest(self, choice: tuple[int, int]) -> bytes:
        digest = self._choice_digests.get(choice)
        if digest is None:
            entry, config = choice
            digest = self._choice_digests[choice] = self._statement_digest(entry, self.configs[config])
        return digest

    def _statement_digest(self, entry: int, *texts: str) -> bytes:
        return hashlib.sha256(dump_json([*self._names(entry), *texts]).encode()).digest()

    def _new_timed_entry(self, entry: int, timed: TimedCandidates) -> TimedEntry:
        configs, fingerprint = tuple(map(self._config, timed.configs)), timed.fingerprint
        of_set = self.candidate_sets[entry, fingerprint]
        found = TimedEntry(configs, self._statement_digest(entry, *timed.configs), of_set, fingerprint)
        return self.timings.setdefault((entry, timed.configs), found)

    def _refuse_twin_keys(self, file: str, held: ByEntry[Any], entries: Sequence[int]) -> None:
        shapes = self._entry_shapes
        if len({shapes[entry] for entry in entries}) == len(entries):
            return
        for arch, kernels in held.items():
            for kernel, keys in kernels.items():
                check_twin_keys(file, arch, kernel, keys)

    def _add_observations(self, position: int, recording: Recording) -> str:
        """Add the observations; their digest, empty if there are none."""
        parts = []
        for arch, kernels in recording.observations.items():
            for kernel, entries in kernels.items():
                for key, seen in entries.items():
                    config = None if seen.config is None else self._config(seen.config)
                    entry = self._entry(arch, kernel, key, recording.device)
                    self.observations.append((position, entry, config, seen.reason))
                    parts.append(dump_json([*self._names(entry), seen.config, seen.reason]))
        return text_digest("\n".join(sorted(parts))) if parts else ""

    def _timed_entries(self, recording: Recording) -> list[tuple[int, TimedCandidates, str | None]]:
        """Every timed entry with its candidates and the fingerprint that the recording also states."""
        found: list[tuple[int, TimedCandidates, str | None]] = []
        for arch, kernels in recording.timings.items():
            for kernel, entries in kernels.items():
                stated = recording.candidate_sets.get(arch, {}).get(kernel, {})
                for key, timed in entries.items():
                    found.append((self._entry(arch, kernel, key, recording.device), timed, stated.get(key)))
        self._refuse_twin_keys(recording.file, recording.timings, [entry for entry, _, _ in found])
        return found

    def _audited_entries(self, recording: Recording) -> list[tuple[int, AuditedEntry]]:
        try:
            audits = read_audits(recording.header.extra)
        except FormatError as fault:
            raise RecordingError(recording.file, fault.what, fault.path) from fault
        return [
            (self._entry(arch, kernel, key, recording.device), audited)
            for arch, kernels in audits.items()
            for kernel, keys in kernels.items()
            for key, audited in keys.items()
        ]

    def _compiled_entries(self, recording: Recording) -> list[tuple[int, str, Specialization]]:
        try:
            compiled = read_compiled(recording.header.extra)
        except FormatError as fault:
            raise RecordingError(recording.file, fault.what, fault.path) from fault
        return [
            (self._entry(arch, kernel, key, recording.device), config, specialization)
            for arch, kernels in compiled.items()
            for kernel, keys in kernels.items()
            for key, pairs in keys.items()
            for config, specialization in pairs
        ]

    def _add_timings(
        self, position: int, recording: Recording, entries: Sequence[tuple[int, TimedCandidates, str | None]]
    ) -> str:
        """Add the timings and candidate sets; their digest, empty if there are none."""
        parts: list[bytes] = []
        columns = self.timings
        for entry, timed, stated in entries:
            known = columns.get((entry, timed.configs)) or self._new_timed_entry(entry, timed)
            known.positions.append(position)
            known.times_ms.frombytes(timed.packed_ms)
            parts.append(known.digest + timed.packed_ms)
            if stated is None or stated == known.fingerprint:
                known.of_set.append(position)
        for entry, fingerprint in self._other_sets(recording):
            self.candidate_sets[entry, fingerprint].append(position)
            parts.append(self._statement_digest(entry, fingerprint))
        return _joint_digest(parts) if parts else ""

    def _other_sets(self, recording: Recording) -> Iterator[tuple[int, str]]:
        """Entries whose candidates are not exactly the timed ones, with the fingerprint of the candidates."""
        for arch, sets in recording.candidate_sets.items():
            for kernel, fingerprints in sets.items():
                timed = recording.timings.get(arch, {}).get(kernel, {})
                for key, fingerprint in fingerprints.items():
                    if key not in timed or timed[key].fingerprint != fingerprint:
                        yield self._entry(arch, kernel, key, recording.device), fingerprint

    def contents(self, positions: set[int]) -> dict[int, Content]:
        """The content of some recordings, in one pass over the batch."""
        found = {position: Content() for position in positions}
        if not found:
            return found
        for (entry, config), voters in self.votes.items():
            for position in positions.intersection(voters):
                found[position].votes[entry] = config
        for position, entry, seen, reason in self.observations:
            if position in positions:
                found[position].observations[entry] = (seen, reason)
        self._add_timings_to(found)
        for stated, holders in self.candidate_sets.items():
            for position in positions.intersection(holders):
                found[position].candidate_sets.add(stated)
        return found

    def _add_timings_to(self, found: Mapping[int, Content]) -> None:
        for (entry, _), timed in self.timings.items():
            width = 3 * len(timed.configs)
            for place, position in enumerate(timed.positions):
                if position in found:
                    times = timed.times_ms[place * width : (place + 1) * width].tobytes()
                    found[position].timings[entry] = (timed, times)

    def entry_digest(self, entry: int) -> str:
        """The digest of an entry in the database."""
        return text_digest("\0".join(self._names(entry)))

    def votes_digest(self, votes: Mapping[int, int]) -> str:
        """The digest of a recording that holds these votes, config by entry."""
        return _joint_digest(self._choice_digest(choice) for choice in votes.items())

    def timings_digest(self, content: Content, entries: AbstractSet[int], sets: AbstractSet[tuple[int, str]]) -> str:
        """The digest of a recording that holds the timings of these entries, and these candidate sets."""
        parts = [timed.digest + times for entry, (timed, times) in content.timings.items() if entry in entries]
        for entry, fingerprint in sets:
            timed_here = content.timings.get(entry)
            if timed_here is None or timed_here[0].fingerprint != fingerprint:
                parts.append(self._statement_digest(entry, fingerprint))
        return _joint_digest(parts) if parts else ""


def _joint_digest(parts: Iterable[bytes]) -> str:
    """Digest of statements in any order."""
    return hashlib.sha256(b"".join(sorted(parts))).hexdigest()


def _modules_of(recording: Recording) -> set[str]:
    sections: list[ByEntry[Any]] = [recording.votes, recording.observations, recording.timings]
    return {top_module(kernel) for part in sections for kernels in part.values() for kernel in kernels} - {""}


def _environment(header: Header) -> Environment:
    return Environment(header.triton or "", dump_json(dict(header.packages)), dump_json(dict(header.modules)))
