"""The timings behind a selection's entries, one entry at a time."""

from __future__ import annotations

from collections.abc import Sequence

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading
from tuning_registry.model.records import Times
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.shapes import Shape, Shapes

# {config id: {recording id: (median, p20, p80) in ms, None where the candidate failed}}
Measured = dict[int, dict[int, Times | None]]


class Measurements:
    """Timings of counting recordings, by shape; only what is asked for is read.

    Args:
        reading: The database.
        selection: Which recordings.
        shapes: The shapes that will be asked for.
    """

    def __init__(self, reading: Reading, selection: Selection, shapes: Shapes) -> None:
        self._reading = reading
        self._shapes = shapes
        self._environments = dict(reading.once(queries.recordings.counting_recordings(selection)))

    def of(self, shape: Shape, config_ids: Sequence[int] | None = None) -> Measured:
        """The timings of one shape.

        Args:
            shape: Of `shapes`.
            config_ids: Only these configs; by default all that were timed.
        """
        environments, of = self._environments, self._shapes.of
        belongs: dict[tuple[int, int], bool] = {}
        measured: Measured = {}
        entry_ids = self._shapes.spellings.get(shape[:3], [])
        timed = self._reading.bulk(queries.timings.of_entries(entry_ids, config_ids))
        for entry, config, recording, median, p20, p80 in timed:
            environment = environments.get(recording)
            if environment is None:
                continue  # superseded, withdrawn, or filtered out
            here = belongs.get((entry, environment))
            if here is None:
                here = belongs[entry, environment] = of(entry, environment) == shape
            if here:
                times = None if median is None or p20 is None or p80 is None else (median, p20, p80)
                measured.setdefault(config, {})[recording] = times
        return measured
