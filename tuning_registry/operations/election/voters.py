"""Who chose what. A fleet's votes are millions, so each takes eight bytes here."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import in_chunks
from tuning_registry.db.schema import NO_RANK
from tuning_registry.operations.election.votes_by_shape import Shape, VotesByShape, by_environment, recording_ids


class Voters:
    """The ranks behind each config of some entries.

    Args:
        votes: The votes.
        shapes: The entries.
    """

    def __init__(self, votes: VotesByShape, shapes: Iterable[Shape]) -> None:
        reading = votes.reading
        counting = list(reading.bulk(queries.recordings.whose_recordings(votes.selection)))
        # By run and rank: the places of recordings, the ranks at these places, and the place after those of each run.
        self._places = {recording: place for place, (_, _, recording, _) in enumerate(counting)}
        self._ranks = [rank for _, rank, _, _ in counting]  # a list, so that all answers share its numbers
        self._run_ends = {run: place for place, (run, _, _, _) in enumerate(counting, 1)}
        self._runs = [run for run, _, _, _ in counting]
        self._chosen: dict[tuple[Any, ...], array[int]] = {}
        environments = {recording: environment for _, _, recording, environment in counting}
        for part in in_chunks(votes.entry_ids(shapes)):
            for entry, config, text in reading.bulk(queries.votes.who_voted(votes.selection, part)):
                ids = array("q", recording_ids(text))
                for environment, these in by_environment(ids, list(map(environments.get, ids))).items():
                    shape = votes.shape_in(entry, environment)
                    self._chosen.setdefault((*shape, config), array("q")).extend(these)

    def recordings(self, shape: Shape, config_id: int | None) -> Sequence[int]:
        """Ids of the recordings that chose a config; empty if none did."""
        return self._chosen.get((*shape, config_id), ())

    def each(self, shape: Shape, config_id: int | None) -> Iterator[tuple[str, int | None]]:
        """Run and rank of each vote for a config, in order; the rank is None for a curated choice that counts."""
        for place in sorted(map(self._places.__getitem__, self.recordings(shape, config_id))):
            rank = self._ranks[place]
            yield self._runs[place], None if rank == NO_RANK else rank

    def ranks_by_run(self, shape: Shape, config_id: int | None) -> dict[str, list[int]]:
        """Their ranks by run, both sorted; a project whose curated choices count has no ranks."""
        places = sorted(map(self._places.__getitem__, self.recordings(shape, config_id)))
        runs: dict[str, list[int]] = {}
        start = 0
        while start < len(places):
            run = self._runs[places[start]]
            end = bisect.bisect_left(places, self._run_ends[run], start)
            runs[run] = [rank for rank in map(self._ranks.__getitem__, places[start:end]) if rank != NO_RANK]
            start = end
        return runs
