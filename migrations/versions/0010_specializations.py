"""What Triton needs to compile winners without a launch.

Revision: 0010
After: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

# Frozen here on purpose: a migration must not change when the package's schema moves on.
BYTE_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the tables; no row changes."""
    op.create_table(
        "specializations",
        sa.Column("id", ID, nullable=False),
        sa.Column("digest", BYTE_TEXT, nullable=False),
        sa.Column("text", BYTE_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_specializations"),
        sa.UniqueConstraint("digest", name="uq_specializations_digest"),
    )
    op.create_table(
        "entry_specializations",
        sa.Column("entry_id", ID, nullable=False),
        sa.Column("config_id", ID, nullable=False),
        sa.Column("environment_id", ID, nullable=False),
        sa.Column("specialization_id", ID, nullable=False),
        sa.PrimaryKeyConstraint(
            "entry_id", "config_id", "environment_id", "specialization_id", name="pk_entry_specializations"
        ),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Remove the tables, with what they hold."""
    op.drop_table("entry_specializations")
    op.drop_table("specializations")
