"""Every SELECT, in a module named after the table that it is about; `selected` has the filters. Nothing is executed here: see `db.reading`."""

from tuning_registry.db.queries import (
    audits,
    contents,
    entries,
    environments,
    exports,
    hand_ins,
    observations,
    origins,
    overrides,
    recordings,
    selected,
    sources,
    specializations,
    tables,
    timings,
    votes,
)

__all__ = [
    "audits",
    "contents",
    "entries",
    "environments",
    "exports",
    "hand_ins",
    "observations",
    "origins",
    "overrides",
    "recordings",
    "selected",
    "sources",
    "specializations",
    "tables",
    "timings",
    "votes",
]
