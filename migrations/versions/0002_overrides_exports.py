"""Overrides that people decide, the log of exported tables, candidate sets in the order they are asked for.

Revision: 0002
After: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# Frozen here on purpose: a migration must not change when the package's schema moves on.
BYTE_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def text(name: str, *, nullable: bool = False) -> "sa.Column[str]":
    """A text that compares byte by byte."""
    return sa.Column(name, BYTE_TEXT, nullable=nullable)


def make_candidate_sets(key: list[str]) -> None:
    """Make `candidate_sets` anew, clustered by `key`, with the rows it had."""
    op.rename_table("candidate_sets", "candidate_sets_before")
    if op.get_context().dialect.name == "postgresql":  # where names of indexes are shared by all tables
        op.execute("ALTER INDEX pk_candidate_sets RENAME TO pk_candidate_sets_before")
    columns: dict[str, sa.Column[int] | sa.Column[str]] = {
        "entry_id": sa.Column("entry_id", ID, nullable=False, autoincrement=False),
        "fingerprint": text("fingerprint"),
        "recording_id": sa.Column("recording_id", ID, nullable=False, autoincrement=False),
    }
    others = [name for name in columns if name not in key]
    op.create_table(
        "candidate_sets",
        *(columns[name] for name in [*key, *others]),
        sa.PrimaryKeyConstraint(*key, name="pk_candidate_sets"),
        sqlite_with_rowid=False,
    )
    names = "entry_id, fingerprint, recording_id"
    op.execute(f"INSERT INTO candidate_sets ({names}) SELECT {names} FROM candidate_sets_before")  # noqa: S608  # constants of this file
    op.drop_table("candidate_sets_before")


def upgrade() -> None:
    """Create both tables and cluster the candidate sets by entry; no row changes."""
    make_candidate_sets(["entry_id", "fingerprint", "recording_id"])
    op.create_table(
        "override_events",
        sa.Column("id", ID, nullable=False),
        text("action"),
        sa.Column("lifts", ID),
        text("arch"),
        text("kernel"),
        text("key"),
        sa.Column("config_id", ID, nullable=False),
        text("reason"),
        text("author"),
        text("until", nullable=True),
        text("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_override_events"),
        sa.ForeignKeyConstraint(["lifts"], ["override_events.id"], name="fk_override_events_lifts"),
        sa.ForeignKeyConstraint(["config_id"], ["configs.id"], name="fk_override_events_config_id"),
    )
    op.create_table(
        "exports",
        sa.Column("id", ID, nullable=False),
        text("table_digest"),
        text("arch"),
        text("policy"),
        text("filters"),
        text("runs"),
        sa.Column("entry_count", sa.Integer(), nullable=False),
        sa.Column("recording_count", sa.Integer(), nullable=False),
        text("output"),
        text("exported_by"),
        text("exported_at"),
        sa.PrimaryKeyConstraint("id", name="pk_exports"),
    )
    op.create_index("ix_exports_table_digest", "exports", ["table_digest"])


def downgrade() -> None:
    """Remove both tables, with what they hold."""
    make_candidate_sets(["recording_id", "entry_id"])
    op.drop_index("ix_exports_table_digest", table_name="exports")
    op.drop_table("exports")
    op.drop_table("override_events")
