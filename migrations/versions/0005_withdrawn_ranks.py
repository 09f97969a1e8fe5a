"""One rank of a run can be withdrawn: its recording states when.

Revision: 0005
After: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# Frozen here on purpose: a migration must not change when the package's schema moves on.
BYTE_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ALL_RANKS = """\
CREATE VIEW counted_votes AS
SELECT e.arch AS arch, e.kernel AS kernel, e.key AS key, c.text AS config, r.rank AS rank, u.name AS run
FROM votes v
JOIN entries e ON e.id = v.entry_id
JOIN configs c ON c.id = v.config_id
JOIN recordings r ON r.id = v.recording_id AND r.superseded_at = ''
JOIN recorded_runs u ON u.id = r.run_id AND u.withdrawn_at IS NULL"""
COUNTED_RANKS = ALL_RANKS.replace("r.superseded_at = ''", "r.superseded_at = '' AND r.withdrawn_at IS NULL")


def replace_view(text: str) -> None:
    """Redefine the view. On Postgres it keeps its owner and its grants."""
    if op.get_context().dialect.name == "postgresql":
        op.execute(text.replace("CREATE VIEW", "CREATE OR REPLACE VIEW"))
        return
    op.execute("DROP VIEW counted_votes")
    op.execute(text)


def upgrade() -> None:
    """Add a column, null for the rows that are there; the view leaves withdrawn ranks out."""
    op.add_column("recordings", sa.Column("withdrawn_at", BYTE_TEXT))
    replace_view(COUNTED_RANKS)


def downgrade() -> None:
    """Remove the column: withdrawn ranks count again."""
    replace_view(ALL_RANKS)
    op.drop_column("recordings", "withdrawn_at")
