"""SQL for Postgres roles with as few rights as their job needs. Nothing is executed here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tuning_registry.db import schema
from tuning_registry.errors import UsageError

# What a recorder looks up before it inserts: whether a row is there already. Votes, timings and everything
# else it can only add to.
_LOOKED_UP: Final = ("environments", "environment_modules", "recorded_runs", "recordings", "entries", "configs")
_RECORDED: Final = (*_LOOKED_UP, "recording_archs", "votes", "timings", "observations", "candidate_sets")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")


_MADE_IF_MISSING: Final = """\
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN CREATE ROLE "{role}" NOLOGIN; END IF;
END $$"""
# Whoever hands tables over must be able to become their new owner, and goes on as one. Since Postgres 16 who has
# created a role may grant it, but has not its rights.
_GRANTED_TO_ME: Final = """\
DO $$ BEGIN
    IF current_user <> '{role}' THEN
        EXECUTE format('GRANT "{role}" TO %I', current_user) || CASE
            WHEN current_setting('server_version_num')::int >= 160000 THEN ' WITH INHERIT TRUE, SET TRUE' ELSE '' END;
    END IF;
END $$"""


def role_statements(prefix: str = "tuning_registry", namespace: str = "public") -> list[str]:
    """SQL that makes a recorder, a reader and an owner, for a database that has the schema already.

    One transaction, which may be repeated; for a superuser, or the database's owner with CREATEROLE, who becomes an
    owner, too. The roles cannot log in; grant them to users that can. The owner gets the tables; a recorder may insert,
    and read what it must look up (no UPDATE, no DELETE, no vote of anybody else's); a reader may read, and add what it
    exports to the log of exports.

    Args:
        prefix: The roles are called `<prefix>_recorder`, `<prefix>_reader` and `<prefix>_owner`.
        namespace: Postgres schema that holds the tables.

    Raises:
        UsageError: A name that is no plain SQL identifier.
    """
    for option, name in (("prefix", prefix), ("schema", namespace)):
        if _PLAIN_NAME.fullmatch(name) is None:
            raise UsageError(f"--{option} is letters, digits and _, at most 41 of them, found {name!r}")
    owner, recorder, reader = names = [f"{prefix}_{job}" for job in ("owner", "recorder", "reader")]
    tables = [table.name for table in schema.metadata.sorted_tables]
    everything = [*tables, schema.VERSION_TABLE]

    def listed(names: Sequence[str]) -> str:
        return ", ".join(f'"{namespace}"."{name}"' for name in names)

    def sequences(names: Sequence[str]) -> str:
        return listed([f"{name}_id_seq" for name in names if "id" in schema.metadata.tables[name].c])

    return [
        "BEGIN",
        *(_MADE_IF_MISSING.format(role=name) for name in names),
        _GRANTED_TO_ME.format(role=owner),
        f'GRANT USAGE, CREATE ON SCHEMA "{namespace}" TO "{owner}"',
        f'GRANT USAGE ON SCHEMA "{namespace}" TO "{recorder}", "{reader}"',
        *(f'ALTER TABLE "{namespace}"."{name}" OWNER TO "{owner}"' for name in everything),
        f'ALTER VIEW "{namespace}"."counted_votes" OWNER TO "{owner}"',
        f'GRANT INSERT ON {listed(_RECORDED)} TO "{recorder}"',
        f'GRANT SELECT ON {listed([*_LOOKED_UP, schema.VERSION_TABLE])} TO "{recorder}"',
        f'GRANT USAGE ON SEQUENCE {sequences(_RECORDED)} TO "{recorder}"',
        f'GRANT SELECT ON {listed([*everything, "counted_votes"])} TO "{reader}"',
        f'GRANT INSERT ON {listed(["exports"])} TO "{reader}"',
        f'GRANT USAGE ON SEQUENCE {sequences(["exports"])} TO "{reader}"',
        "COMMIT",
    ]
