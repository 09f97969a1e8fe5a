"""Who chose what. A fleet's votes are millions, so each takes eight bytes here."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import in_chunks
from tuning_registry.db.schema import NO_RANK
from tuning_registry.operations.election.votes_by_shape import Shape, VotesByShape, by_environment


class Voters:
    """The ranks behind each config of some entries.

    Args:
        votes: The votes.
        shapes: The entries.
    """

    def __init__(self, votes: VotesByShape, shapes: Iterable[Shape]) -> None:
        reading = votes.reading
        counting = list(reading.bulk(queries.recordings.whose_recordings(votes.selection)))
        self._whose = {recording: (run, rank) for run, rank, recording, _ in counting}
        self._order = {recording: place for place, recording in enumerate(self._whose)}  # by run and rank
        self._chosen: dict[tuple[Any, ...], array[int]] = {}
        environments = {recording: environment for _, _, recording, environment in counting}
        for part in in_chunks(votes.entry_ids(shapes)):
            for entry, config, text in reading.bulk(queries.votes.who_voted(votes.selection, part)):
                ids = array("q", map(int, text.split(",")))
                for environment, these in by_environment(ids, list(map(environments.get, ids))).items():
                    shape = votes.shape_in(entry, environment)
                    self._chosen.setdefault((*shape, config), array("q")).extend(these)

    def recordings(self, shape: Shape, config_id: int | None) -> Sequence[int]:
        """Ids of the recordings that chose a config; empty if none did."""
        return self._chosen.get((*shape, config_id), ())

    def ranks_by_run(self, shape: Shape, config_id: int | None) -> dict[str, list[int]]:
        """Their ranks by run, both sorted; a project whose curated choices count has no ranks."""
        runs: dict[str, list[int]] = {}
        for recording in sorted(self.recordings(shape, config_id), key=self._order.__getitem__):
            run, rank = self._whose[recording]
            ranks = runs.setdefault(run, [])
            if rank != NO_RANK:
                ranks.append(rank)
        return runs
