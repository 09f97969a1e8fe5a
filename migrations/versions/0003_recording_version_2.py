"""What version 2 of recordings states: process and attempt, place, hardware, sources of kernels, and what comes later.

Revision: 0003
After: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Frozen here on purpose: a migration must not change when the package's schema moves on.
BYTE_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def text(name: str, *, nullable: bool = False) -> "sa.Column[str]":
    """A text that compares byte by byte."""
    return sa.Column(name, BYTE_TEXT, nullable=nullable)


def new_columns() -> "list[sa.Column[int] | sa.Column[str]]":
    """The new columns of `recordings`, all null for the rows that are there."""
    return [
        text("process_id", nullable=True),
        sa.Column("attempt", sa.Integer()),
        sa.Column("local_rank", sa.Integer()),
        text("device_uuid", nullable=True),
        sa.Column("source_set_id", ID),
        sa.Column("hardware_id", ID),
        text("extra", nullable=True),
    ]


def upgrade() -> None:
    """Add tables and columns; no row changes."""
    op.create_table(
        "source_sets",
        sa.Column("id", ID, nullable=False),
        text("digest"),
        sa.PrimaryKeyConstraint("id", name="pk_source_sets"),
        sa.UniqueConstraint("digest", name="uq_source_sets_digest"),
    )
    op.create_table(
        "kernel_sources",
        sa.Column("source_set_id", ID, nullable=False),
        text("kernel_digest"),
        text("kernel"),
        text("source"),
        sa.PrimaryKeyConstraint("source_set_id", "kernel_digest", name="pk_kernel_sources"),
        sa.ForeignKeyConstraint(["source_set_id"], ["source_sets.id"], name="fk_kernel_sources_source_set_id"),
    )
    op.create_table(
        "hardware",
        sa.Column("id", ID, nullable=False),
        text("digest"),
        text("driver", nullable=True),
        text("cuda", nullable=True),
        text("ptxas", nullable=True),
        sa.Column("sm_clock_mhz", sa.Integer()),
        sa.Column("memory_clock_mhz", sa.Integer()),
        sa.Column("power_limit_w", sa.Integer()),
        sa.PrimaryKeyConstraint("id", name="pk_hardware"),
        sa.UniqueConstraint("digest", name="uq_hardware_digest"),
    )
    for column in new_columns():
        op.add_column("recordings", column)
    op.create_index("ix_recordings_process_id", "recordings", ["process_id"])


def downgrade() -> None:
    """Remove tables and columns, with what they hold."""
    op.drop_index("ix_recordings_process_id", table_name="recordings")
    for column in reversed(new_columns()):
        op.drop_column("recordings", column.name)
    for table in ("hardware", "kernel_sources", "source_sets"):
        op.drop_table(table)
