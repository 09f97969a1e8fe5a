"""SQL for Postgres roles with as few rights as their job needs. Nothing is executed here."""

from __future__ import annotations

import re
from typing import Final

from tuning_registry.db import schema
from tuning_registry.errors import UsageError

# What a recorder looks up before it inserts: whether a row is there already. Votes, timings and everything
# else it can only add to.
_LOOKED_UP: Final = ("environments", "environment_modules", "recorded_runs", "recordings", "entries", "configs")
_RECORDED: Final = (*_LOOKED_UP, "recording_archs", "votes", "timings", "observations", "candidate_sets")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")


def role_statements(prefix: str = "tuning_registry", namespace: str = "public") -> list[str]:
    """SQL that makes a recorder, a reader and an owner, for a database that has the schema already.

    The roles cannot log in; grant them to users that can. The owner gets the tables; a recorder may insert, and read what
    it must look up (no UPDATE, no DELETE, no vote of anybody else's); a reader may read.

    Args:
        prefix: The roles are called `<prefix>_recorder`, `<prefix>_reader` and `<prefix>_owner`.
        namespace: Postgres schema that holds the tables.

    Raises:
        UsageError: A name that is no plain SQL identifier.
    """
    for option, name in (("prefix", prefix), ("schema", namespace)):
        if _PLAIN_NAME.fullmatch(name) is None:
            raise UsageError(f"--{option} is letters, digits and _, at most 41 of them, found {name!r}")
    owner, recorder, reader = (f'"{prefix}_{job}"' for job in ("owner", "recorder", "reader"))
    tables = [table.name for table in schema.metadata.sorted_tables]
    everything = [*tables, schema.VERSION_TABLE]

    def listed(names: list[str] | tuple[str, ...]) -> str:
        return ", ".join(f'"{namespace}"."{name}"' for name in names)

    return [
        f"CREATE ROLE {owner} NOLOGIN",
        f"CREATE ROLE {recorder} NOLOGIN",
        f"CREATE ROLE {reader} NOLOGIN",
        f'GRANT USAGE, CREATE ON SCHEMA "{namespace}" TO {owner}',
        f'GRANT USAGE ON SCHEMA "{namespace}" TO {recorder}, {reader}',
        *(f'ALTER TABLE "{namespace}"."{name}" OWNER TO {owner}' for name in everything),
        f'ALTER VIEW "{namespace}"."counted_votes" OWNER TO {owner}',
        f"GRANT INSERT ON {listed(_RECORDED)} TO {recorder}",
        f"GRANT SELECT ON {listed((*_LOOKED_UP, schema.VERSION_TABLE))} TO {recorder}",
        f'GRANT USAGE ON ALL SEQUENCES IN SCHEMA "{namespace}" TO {recorder}',
        f"GRANT SELECT ON {listed([*everything, 'counted_votes'])} TO {reader}",
    ]
