"""Audits of candidates: which give equal bits, which differ between runs, which are outside the tolerance.

Revision: 0006
After: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# Frozen here on purpose: a migration must not change when the package's schema moves on.
BYTE_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the tables; no row changes."""
    op.create_table(
        "audit_blocks",
        sa.Column("id", ID, nullable=False),
        sa.Column("digest", BYTE_TEXT, nullable=False),
        sa.Column("skipped", BYTE_TEXT, nullable=False),
        sa.Column("inputs", BYTE_TEXT, nullable=False),
        sa.Column("is_seeded", sa.Boolean(), nullable=False),
        sa.Column("results", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_blocks"),
        sa.UniqueConstraint("digest", name="uq_audit_blocks_digest"),
    )
    op.create_table(
        "audits",
        sa.Column("entry_id", ID, nullable=False),
        sa.Column("recording_id", ID, nullable=False),
        sa.Column("block_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("entry_id", "recording_id", name="pk_audits"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Remove the tables, with what they hold."""
    op.drop_table("audits")
    op.drop_table("audit_blocks")
