"""The selection digest of exported tables, by which logs and checkpoints name a table.

Revision: 0004
After: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# Frozen here on purpose: a migration must not change when the package's schema moves on.
BYTE_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column; it is null for the exports that are there."""
    op.add_column("exports", sa.Column("selection_digest", BYTE_TEXT))


def downgrade() -> None:
    """Remove the column, with what it holds."""
    op.drop_column("exports", "selection_digest")
