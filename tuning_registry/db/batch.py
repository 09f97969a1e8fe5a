"""Recordings on their way into the database: names once, votes as integers."""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tuning_registry.canonical import dump_json, text_digest
from tuning_registry.errors import RecordingError
from tuning_registry.names import lookup_key, top_module
from tuning_registry.packages import module_owners
from tuning_registry.records import Header, Recording


@dataclass(frozen=True, slots=True)
class Environment:
    """What a recording says of its software; equal ones share a row."""

    triton: str
    packages: str
    modules: str

    @property
    def digest(self) -> str:
        """Identity of the row."""
        return text_digest(f"{self.triton}\0{self.packages}\0{self.modules}")


@dataclass(frozen=True, slots=True)
class Pending:
    """One recording of a batch.

    Attributes:
        file: Where it was read.
        header: Final header: run and rank are set.
        is_named: Whether the run's name was given rather than derived from the folder.
        votes_digest: Identity of its votes and observations, whatever the spelling of the file.
        timings_digest: Identity of its timings; None without any.
        environment: Its software.
        vote_counts: Number of votes by architecture.
    """

    file: str
    header: Header
    is_named: bool
    votes_digest: str
    timings_digest: str | None
    environment: Environment
    vote_counts: Mapping[str, int]

    @property
    def identity(self) -> tuple[str, int]:
        """Run and rank."""
        assert self.header.run is not None
        assert self.header.rank is not None
        return self.header.run, self.header.rank


@dataclass(slots=True)
class Batch:
    """What one ingest will write. Entries and configs are numbered in order of appearance.

    A vote costs four bytes here, so that ten thousand recordings fit in memory before the write lock is
    taken, and the lock is held for the writing only.
    """

    pending: list[Pending] = field(default_factory=list)
    entries: list[tuple[str, str, str]] = field(default_factory=list)
    configs: list[str] = field(default_factory=list)
    # (entry, config) -> positions in `pending` that chose it
    votes: dict[tuple[int, int], array[int]] = field(default_factory=lambda: defaultdict(lambda: array("i")))
    observations: list[tuple[int, int, int | None, str]] = field(default_factory=list)
    timings: list[tuple[int, int, int, float | None, float | None, float | None]] = field(default_factory=list)
    candidate_sets: list[tuple[int, int, str]] = field(default_factory=list)
    # Which distribution, in which version, owns each top-level module
    owners: dict[Environment, dict[str, tuple[str, str]]] = field(default_factory=dict)
    _entry_ids: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    _shape_ids: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _entry_shapes: list[int] = field(default_factory=list)
    _config_ids: dict[str, int] = field(default_factory=dict)
    _choice_digests: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def add(self, recording: Recording, header: Header, *, is_named: bool) -> None:
        """Take one recording in, under its final header.

        Raises:
            RecordingError: It holds two votes on one key in two spellings (`M=True` and `M=1`).
        """
        position = len(self.pending)
        chosen: list[tuple[int, int]] = []
        counts: dict[str, int] = {}
        config_ids = self._config_ids
        for arch, kernels in recording.votes.items():
            before = len(chosen)
            for kernel, entries in kernels.items():
                known = self._entries_of(arch, kernel)
                for key, text in entries.items():
                    entry = known.get(key)
                    if entry is None:
                        entry = self._new_entry(arch, kernel, key)
                    config = config_ids.get(text)
                    if config is None:
                        config = self._config(text)
                    chosen.append((entry, config))
            if len(chosen) > before:
                counts[arch] = len(chosen) - before
        self._refuse_twin_keys(recording, chosen)
        environment = _environment(header)
        digests = [self._choice_digests.get(choice) or self._choice_digest(choice) for choice in chosen]
        observed = self._add_observations(position, recording)
        for choice in chosen:
            self.votes[choice].append(position)
        votes_digest = hashlib.sha256(b"".join(sorted(digests)) + b"".join(sorted(observed))).hexdigest()
        timings_digest = self._add_timings(position, recording)
        self.pending.append(
            Pending(recording.file, header, is_named, votes_digest, timings_digest, environment, counts)
        )
        modules = {top_module(kernel) for kernels in recording.votes.values() for kernel in kernels} - {""}
        self.owners.setdefault(environment, {}).update(module_owners(modules, header))

    def _entries_of(self, arch: str, kernel: str) -> dict[str, int]:
        return self._entry_ids.setdefault(arch, {}).setdefault(kernel, {})

    def _entry(self, arch: str, kernel: str, key: str) -> int:
        known = self._entries_of(arch, kernel)
        return known[key] if key in known else self._new_entry(arch, kernel, key)

    def _new_entry(self, arch: str, kernel: str, key: str) -> int:
        entry = len(self.entries)
        self._entries_of(arch, kernel)[key] = entry
        self.entries.append((arch, kernel, key))
        self._entry_shapes.append(self._shape_ids.setdefault((arch, kernel, lookup_key(key)), entry))
        return entry

    def _config(self, text: str) -> int:
        config = self._config_ids.setdefault(text, len(self.configs))
        if config == len(self.configs):
            self.configs.append(text)
        return config

    def _choice_digest(self, choice: tuple[int, int]) -> bytes:
        text = dump_json([*self.entries[choice[0]], self.configs[choice[1]]])
        return self._choice_digests.setdefault(choice, hashlib.sha256(text.encode()).digest())

    def _refuse_twin_keys(self, recording: Recording, chosen: list[tuple[int, int]]) -> None:
        shapes = self._entry_shapes
        if len({shapes[entry] for entry, _ in chosen}) == len(chosen):
            return
        seen: dict[int, int] = {}
        for entry, _ in chosen:
            other = seen.setdefault(shapes[entry], entry)
            if other != entry:
                first = self.entries[other][2]
                raise RecordingError(
                    recording.file, f"Triton cannot tell this key from {first!r}; expected one", self.entries[entry]
                )

    def _add_observations(self, position: int, recording: Recording) -> list[bytes]:
        observed = []
        for arch, kernels in recording.observations.items():
            for kernel, entries in kernels.items():
                for key, seen in entries.items():
                    entry = self._entry(arch, kernel, key)
                    config = None if seen.config is None else self._config(seen.config)
                    self.observations.append((position, entry, config, seen.reason))
                    text = dump_json([arch, kernel, key, seen.config, seen.reason])
                    observed.append(hashlib.sha256(text.encode()).digest())
        return observed

    def _add_timings(self, position: int, recording: Recording) -> str | None:
        """Take the timings and candidate sets in; their digest, None when there are none."""
        parts = []
        for arch, kernels in recording.timings.items():
            for kernel, entries in kernels.items():
                for key, timings in entries.items():
                    entry = self._entry(arch, kernel, key)
                    for timing in timings:
                        row = (timing.median_ms, timing.p20_ms, timing.p80_ms)
                        self.timings.append((position, entry, self._config(timing.config), *row))
                        parts.append(dump_json([arch, kernel, key, timing.config, row]))
        for arch, sets in recording.candidate_sets.items():
            for kernel, fingerprints in sets.items():
                for key, fingerprint in fingerprints.items():
                    self.candidate_sets.append((position, self._entry(arch, kernel, key), fingerprint))
                    parts.append(dump_json([arch, kernel, key, fingerprint]))
        return text_digest("\n".join(sorted(parts))) if parts else None


def _environment(header: Header) -> Environment:
    return Environment(header.triton or "", dump_json(dict(header.packages)), dump_json(dict(header.modules)))
