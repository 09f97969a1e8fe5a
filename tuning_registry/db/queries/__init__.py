"""Every SELECT, each named after the question it answers and kept with the table that it asks. Nothing is executed here."""

from tuning_registry.db.queries import (
    entries,
    environments,
    exports,
    observations,
    overrides,
    recordings,
    tables,
    timings,
    votes,
)

__all__ = [
    "entries",
    "environments",
    "exports",
    "observations",
    "overrides",
    "recordings",
    "tables",
    "timings",
    "votes",
]
