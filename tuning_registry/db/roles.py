"""SQL for Postgres roles with the least privileges that their job needs. Nothing is executed here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from tuning_registry.db import schema
from tuning_registry.errors import UsageError

# What an ingest reads and adds to. It also updates recordings, to complete or supersede them, and deletes rows that a
# later state of a recording states anew.
_INGESTED: Final = (
    "environments",
    "environment_modules",
    "source_sets",
    "kernel_sources",
    "hardware",
    "recorded_runs",
    "recordings",
    "recording_archs",
    "entries",
    "configs",
    "votes",
    "timings",
    "packed_timings",
    "observations",
    "candidate_sets",
    "packed_candidate_sets",
    "audit_blocks",
    "audits",
    "specializations",
    "entry_specializations",
    "origins",
    "curated_choices",
)
_DELETED: Final = (
    "recording_archs",
    "votes",
    "timings",
    "packed_timings",
    "observations",
    "candidate_sets",
    "packed_candidate_sets",
    "hand_ins",
)
# Columns of `recordings` that an ingest may not change: whose it is, and whether somebody withdrew it.
_FIXED: Final = frozenset({"id", "run_id", "rank", "ingested_at", "withdrawn_at"})
_HAND_INS: Final = "hand_ins"
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
    return f"{who} needs a role (see registry db roles). Ask an administrator to run: GRANT {role} TO {grantee}"


def _job_for(statement: str, purpose: str) -> str:
    """The least privileged of the roles that may run a statement. A recorder never gets here: it only appends."""
    tables = set(_TABLE_IN_SQL.findall(statement))
    if purpose == READ or tables == {"exports"}:
        return "reader"
    return "ingester" if purpose == WRITE else "owner"


def _has_sequence(table: sa.Table) -> bool:
    return "id" in table.c and isinstance(table.c.id.type, sa.Integer)


def role_statements(prefix: str = PREFIX, namespace: str = "public") -> list[str]:
    """SQL that creates a recorder, an ingester, a reader and an owner in a database that already has the schema.

    It is one transaction, which may be repeated. A superuser can run it, or the owner of the tables with CREATEROLE.
    The roles cannot log in; grant them to users that can. The owner role owns the tables from then on, and whoever
    owned them before becomes a member of it. A recorder may append hand-ins, and nothing else. An ingester may read
    everything, ingest and fold; it may not withdraw, pin or ban. A reader may read everything, and add its exports to the
    log of exports.

    Args:
        prefix: The roles are named `<prefix>_recorder`, `<prefix>_ingester`, `<prefix>_reader` and `<prefix>_owner`.
        namespace: Postgres schema that holds the tables.

    Raises:
        UsageError: A name is not a plain SQL identifier.
    """
    for option, name in (("prefix", prefix), ("schema", namespace)):
        if _PLAIN_NAME.fullmatch(name) is None:
            raise UsageError(
                f"--{option} {name!r} is not a plain name; expected at most 41 letters, digits and _, not beginning with a digit"
            )
    names = owner, recorder, ingester, reader = [
        f"{prefix}_{job}" for job in ("owner", "recorder", "ingester", "reader")
    ]
    updated = [column.name for column in schema.recordings.c if column.name not in _FIXED]
    tables = [table.name for table in schema.metadata.sorted_tables]
    everything = [*tables, schema.VERSION_TABLE]
    quoted = ", ".join(f'\'"{namespace}"."{name}"\'' for name in everything)

    def listed(names: Sequence[str]) -> str:
        return ", ".join(f'"{namespace}"."{name}"' for name in names)

    def sequences(names: Sequence[str]) -> str:
        return listed([f"{name}_id_seq" for name in names if _has_sequence(schema.metadata.tables[name])])

    return [
        "BEGIN",
        *(_MADE_IF_MISSING.format(role=name) for name in names),
        _GRANTED_TO_OWNERS.format(role=owner, tables=quoted),
        f'GRANT USAGE, CREATE ON SCHEMA "{namespace}" TO "{owner}"',
        f'GRANT USAGE ON SCHEMA "{namespace}" TO "{recorder}", "{ingester}", "{reader}"',
        *(f'ALTER TABLE "{namespace}"."{name}" OWNER TO "{owner}"' for name in everything),
        f'ALTER VIEW "{namespace}"."counted_votes" OWNER TO "{owner}"',
        # Before hand-ins, a recorder read and inserted recordings.
        f'REVOKE ALL ON {listed([*everything, "counted_votes"])} FROM "{recorder}"',
        f'REVOKE ALL ON SEQUENCE {sequences(tables)} FROM "{recorder}"',
        f'GRANT INSERT ON {listed([_HAND_INS])} TO "{recorder}"',
        f'GRANT SELECT ON {listed([*everything, "counted_votes"])} TO "{ingester}", "{reader}"',
        f'GRANT INSERT ON {listed(_INGESTED)} TO "{ingester}"',
        f'GRANT USAGE ON SEQUENCE {sequences(_INGESTED)} TO "{ingester}"',
        f'GRANT DELETE ON {listed(_DELETED)} TO "{ingester}"',
        f'GRANT UPDATE ({", ".join(updated)}) ON {listed(["recordings"])} TO "{ingester}"',
        f'GRANT UPDATE (superseded_at) ON {listed(["origins"])} TO "{ingester}"',
        f'GRANT UPDATE (state, error) ON {listed([_HAND_INS])} TO "{ingester}"',
        f'GRANT INSERT ON {listed(["exports"])} TO "{reader}"',
        f'GRANT USAGE ON SEQUENCE {sequences(["exports"])} TO "{reader}"',
        "COMMIT",
    ]
