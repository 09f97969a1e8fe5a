"""Choices of other tools: kinds of config, devices that select, origins of choices, and choices that somebody committed.

Revision: 0009
After: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# Frozen here on purpose: a migration must not change when the package's schema moves on.
BYTE_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add columns and tables; what is there is a Triton config, of no device in particular."""
    op.add_column("configs", sa.Column("kind", BYTE_TEXT, nullable=False, server_default="triton"))
    op.add_column("entries", sa.Column("device", BYTE_TEXT, nullable=False, server_default=sa.text("''")))
    op.add_column("entries", sa.Column("is_recorded", sa.Boolean(), nullable=False, server_default=sa.text("true")))
    op.create_index("ix_entries_is_recorded", "entries", ["is_recorded"])
    op.add_column("recordings", sa.Column("origin_id", ID))
    op.create_table(
        "origins",
        sa.Column("id", ID, nullable=False),
        sa.Column("digest", BYTE_TEXT, nullable=False),
        sa.Column("tool", BYTE_TEXT, nullable=False),
        sa.Column("project", BYTE_TEXT, nullable=False),
        sa.Column("version", BYTE_TEXT, nullable=False),
        sa.Column("source", BYTE_TEXT, nullable=False),
        sa.Column("file", BYTE_TEXT, nullable=False),
        sa.Column("environment_id", ID, nullable=False),
        sa.Column("choices_digest", BYTE_TEXT, nullable=False),
        sa.Column("choice_count", sa.Integer(), nullable=False),
        sa.Column("ingested_at", BYTE_TEXT, nullable=False),
        sa.Column("superseded_at", BYTE_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_origins"),
        sa.UniqueConstraint("digest", name="uq_origins_digest"),
    )
    op.create_table(
        "curated_choices",
        sa.Column("entry_id", ID, nullable=False),
        sa.Column("origin_id", ID, nullable=False),
        sa.Column("config_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("entry_id", "origin_id", name="pk_curated_choices"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Remove the tables with what they hold, and every choice that an earlier revision cannot tell apart."""
    op.drop_table("curated_choices")
    op.drop_table("origins")
    foreign: sa.Select[int] = (
        sa.select(sa.column("id")).select_from(sa.table("entries")).where(sa.column("device") != "")
    )
    others: sa.Select[int] = (
        sa.select(sa.column("id")).select_from(sa.table("configs")).where(sa.column("kind") != "triton")
    )
    of_entry, of_config = sa.column("entry_id").in_(foreign), sa.column("config_id").in_(others)
    for table in ("votes", "timings", "observations"):
        op.execute(sa.delete(sa.table(table)).where(of_entry | of_config))
    for table in ("packed_timings", "packed_candidate_sets", "candidate_sets", "audits"):
        op.execute(sa.delete(sa.table(table)).where(of_entry))
    op.execute(sa.delete(sa.table("override_events")).where(of_config))
    op.execute(sa.delete(sa.table("entries")).where((sa.column("device") != "") | sa.column("is_recorded").is_(False)))
    op.execute(sa.delete(sa.table("configs")).where(sa.column("kind") != "triton"))
    op.drop_index("ix_entries_is_recorded", "entries")
    for table, column in (
        ("recordings", "origin_id"),
        ("entries", "is_recorded"),
        ("entries", "device"),
        ("configs", "kind"),
    ):
        op.drop_column(table, column)
