"""SQL for Postgres roles with the least privileges that their job needs. Nothing is executed here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tuning_registry.db import schema
from tuning_registry.errors import UsageError

# What a recorder reads before it inserts, to see whether a row exists. To votes, timings and everything else it can
# only add.
_LOOKED_UP: Final = (
    "environments",
    "environment_modules",
    "source_sets",
    "kernel_sources",
    "hardware",
    "recorded_runs",
    "recordings",
    "entries",
    "configs",
    "audit_blocks",
    "audits",
)
_RECORDED: Final = (
    *_LOOKED_UP,
    "kernel_sources",
    "recording_archs",
    "votes",
    "timings",
    "packed_timings",
    "observations",
    "candidate_sets",
    "packed_candidate_sets",
)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")
_TABLE_IN_SQL = re.compile(r'\b(?:FROM|JOIN|INTO|COPY|UPDATE|TABLE)\s+"?(\w+)', re.IGNORECASE)
PREFIX: Final = "tuning_registry"
READ, WRITE, DECIDE, MIGRATE = "read", "write", "decide", "migrate"  # why a database is opened

_MADE_IF_MISSING: Final = """\
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN RETURN; END IF;
    IF NOT (SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user) THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('%I may not create the role {role}: it lacks CREATEROLE', current_user),
            HINT = format('Run this SQL as a superuser, or let one run first: ALTER ROLE %I CREATEROLE', current_user);
    END IF;
    CREATE ROLE "{role}" NOLOGIN;
END $$"""
# Whoever owned the tables goes on using and upgrading them. To hand tables over, a user other than a superuser must also
# be a member of their new owner; since Postgres 16, the creator of a role does not have its privileges.
_GRANTED_TO_OWNERS: Final = """\
DO $$ DECLARE member name; BEGIN
    FOR member IN
        SELECT rolname FROM pg_roles WHERE NOT rolsuper AND rolname <> '{role}' AND (rolname = current_user OR oid IN
            (SELECT relowner FROM pg_class WHERE oid = ANY (ARRAY[{tables}]::regclass[])))
    LOOP
        EXECUTE format('GRANT "{role}" TO %I', member) || CASE
            WHEN current_setting('server_version_num')::int >= 160000 THEN ' WITH INHERIT TRUE, SET TRUE' ELSE '' END;
    END LOOP;
END $$"""


def missing_right(statement: str, user: str | None, purpose: str) -> str:
    """The end of the error for a statement that the server forbids: the role that may run it, and how to get it.

    Args:
        statement: The SQL that failed.
        user: Who ran it; None if the URL does not state it.
        purpose: Why the database was opened: `READ`, `WRITE`, `DECIDE` (overrides and withdrawals) or `MIGRATE`.
    """
    who = user or "the user"
    grantee = "USER" if user is None else user if _PLAIN_NAME.fullmatch(user) else '"' + user.replace('"', '""') + '"'
    if statement.lstrip().upper().startswith("CREATE"):
        owner = f"; or GRANT {PREFIX}_owner TO {grantee} if registry db roles was run" if purpose == MIGRATE else ""
        return f"{who} may not create tables. Ask an administrator to run: GRANT CREATE ON SCHEMA public TO {grantee}{owner}"
    role = f"{PREFIX}_{_job_for(statement, purpose)}"
    return (
        f"{who} needs the role {role} (see registry db roles). Ask an administrator to run: GRANT {role} TO {grantee}"
    )


def _job_for(statement: str, purpose: str) -> str:
    """The least privileged of the three roles that may run a statement."""
    tables = set(_TABLE_IN_SQL.findall(statement))
    if purpose == READ or tables == {"exports"}:
        return "reader"
    if purpose in {DECIDE, MIGRATE}:
        return "owner"
    verb = statement.split(None, 1)[0].upper() if statement.strip() else ""
    may = {"SELECT": {*_LOOKED_UP, schema.VERSION_TABLE}, "INSERT": {*_RECORDED}, "COPY": {*_RECORDED}}.get(verb, set())
    return "recorder" if tables and tables <= may else "owner"


def role_statements(prefix: str = PREFIX, namespace: str = "public") -> list[str]:
    """SQL that creates a recorder, a reader and an owner in a database that already has the schema.

    It is one transaction, which may be repeated. A superuser can run it, or the owner of the tables with CREATEROLE.
    The roles cannot log in; grant them to users that can. The owner role owns the tables from then on, and whoever
    owned them before becomes a member of it. A recorder may insert, and read what it must look up; it may not update or delete, or read
    the votes of others. A reader may read everything, and add its exports to the log of exports.

    Args:
        prefix: The roles are named `<prefix>_recorder`, `<prefix>_reader` and `<prefix>_owner`.
        namespace: Postgres schema that holds the tables.

    Raises:
        UsageError: A name is not a plain SQL identifier.
    """
    for option, name in (("prefix", prefix), ("schema", namespace)):
        if _PLAIN_NAME.fullmatch(name) is None:
            raise UsageError(
                f"--{option} {name!r} is not a plain name; expected at most 41 letters, digits and _, not beginning with a digit"
            )
    owner, recorder, reader = names = [f"{prefix}_{job}" for job in ("owner", "recorder", "reader")]
    tables = [table.name for table in schema.metadata.sorted_tables]
    everything = [*tables, schema.VERSION_TABLE]
    quoted = ", ".join(f'\'"{namespace}"."{name}"\'' for name in everything)

    def listed(names: Sequence[str]) -> str:
        return ", ".join(f'"{namespace}"."{name}"' for name in names)

    def sequences(names: Sequence[str]) -> str:
        return listed([f"{name}_id_seq" for name in names if "id" in schema.metadata.tables[name].c])

    return [
        "BEGIN",
        *(_MADE_IF_MISSING.format(role=name) for name in names),
        _GRANTED_TO_OWNERS.format(role=owner, tables=quoted),
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
