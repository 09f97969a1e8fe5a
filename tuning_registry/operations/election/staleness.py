"""Entries that were chosen from other candidates than the newest recording of them had."""

from __future__ import annotations

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.shapes import Shape, Shapes


def find_stale(reading: Reading, selection: Selection) -> dict[Shape, int]:
    """How many recordings of each stale entry chose from another set of candidates than the newest one.

    An entry is one shape within one version group; the newest recording is the one that came into the database
    last, among those that count and say from which candidates the entry was chosen. Recordings that do not say
    are neither old nor new.
    """
    rows = reading.rows(queries.votes.candidate_set_tally(selection, reading.environments_that_count(selection)))
    if not rows:
        return {}
    shapes = Shapes(reading, selection)
    sets: dict[Shape, dict[str, tuple[int, int]]] = {}  # fingerprint -> newest recording, how many
    for row in rows:
        known = sets.setdefault(shapes.of(row["entry_id"], row["environment_id"]), {})
        newest, count = known.get(row["fingerprint"], (0, 0))
        known[row["fingerprint"]] = (max(newest, row["newest"]), count + row["n"])
    stale = {}
    for shape, known in sets.items():
        current = max(known.values())
        older = sum(count for _, count in known.values()) - current[1]
        if older:
            stale[shape] = older
    return stale
