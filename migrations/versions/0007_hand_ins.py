"""Hand-ins: recordings that ranks append during training, until they are folded into votes.

Revision: 0007
After: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# Frozen here on purpose: a migration must not change when the package's schema moves on.
BYTE_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the table; no row changes."""
    op.create_table(
        "hand_ins",
        sa.Column("id", BYTE_TEXT, nullable=False),
        sa.Column("received_at", BYTE_TEXT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("state", BYTE_TEXT, nullable=False),
        sa.Column("error", BYTE_TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_hand_ins"),
    )
    op.create_index("ix_hand_ins_state_received_at", "hand_ins", ["state", "received_at"])


def downgrade() -> None:
    """Remove the table, with what was not folded."""
    op.drop_table("hand_ins")
