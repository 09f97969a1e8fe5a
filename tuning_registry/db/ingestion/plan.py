"""What of a batch to write: decided by `operations.ingest.placement`, carried out by `db.ingestion`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tuning_registry.errors import RegistryError

# Positions in `Batch.pending`, by the kind of content that the file at each gives a recording.
Files = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A later state of a recording that the database has.

    Attributes:
        position: Position of its file in `Batch.pending`.
        votes: Entries whose vote is there already, as the batch numbers them.
        timings: Entries whose timings are there already.
        candidate_sets: Entries and fingerprints that are there already.
        replaces_timings: Whether the timings and candidate sets that are there are deleted first, since an entry that
            was only observed has been timed anew.
        retracted: Ids of entries whose vote has become an observation.
        new_votes: Number of votes that are not there.
        new_timings: Number of candidates' timings that are not there.
        new_observations: Number of observations that are not there.
    """

    position: int
    votes: AbstractSet[int]
    timings: AbstractSet[int] = frozenset()
    candidate_sets: AbstractSet[tuple[int, str]] = frozenset()
    replaces_timings: bool = False
    retracted: Sequence[int] = ()
    new_votes: int = 0
    new_timings: int = 0
    new_observations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """What of a batch to write, decided under the write lock.

    Attributes:
        inserts: New recordings: position of the first file -> the files of its content.
        completes: Recordings that the database has: id -> the files of the content that it lacks.
        grows: Recordings that the database has in an earlier state, by id.
        supersedes: Ids of recordings that no longer count, because new ones take their place.
        refused: Why files were left out, by position.
        withdrawn: Positions of files left out because their recording, or its run, is withdrawn.
        already: Number of recordings that the database holds completely.
        same_content: Number of copies that count, by the name of the other run.
    """

    inserts: Mapping[int, Files]
    completes: Mapping[int, Files]
    grows: Mapping[int, Growth] = field(default_factory=dict)
    supersedes: Sequence[int] = ()
    refused: Mapping[int, RegistryError] = field(default_factory=dict)
    withdrawn: Sequence[int] = ()
    already: int = 0
    same_content: Mapping[str, int]

    def files_of(self, kind: str) -> list[int]:
        """Positions of the files whose content of one kind is written."""
        targets = [*self.inserts.values(), *self.completes.values()]
        return sorted(files[kind] for files in targets if kind in files)
