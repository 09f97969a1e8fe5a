"""First schema: entries, configs, recordings, votes, timings, observations.

Revision: 0001
After: nothing
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Frozen here on purpose: a migration must not change when the package's schema moves on.
BYTE_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def identity(name: str = "id") -> "sa.Column[int]":
    """A generated primary key."""
    return sa.Column(name, ID, nullable=False)


def text(name: str, *, nullable: bool = False) -> "sa.Column[str]":
    """A text that compares byte by byte."""
    return sa.Column(name, BYTE_TEXT, nullable=nullable)


def reference(name: str) -> "sa.Column[int]":
    """The id of a row elsewhere, not generated here."""
    return sa.Column(name, ID, nullable=False, autoincrement=False)


def upgrade() -> None:
    """Create everything."""
    op.create_table(
        "environments",
        identity(),
        text("digest"),
        text("triton"),
        text("packages"),
        text("modules"),
        sa.PrimaryKeyConstraint("id", name="pk_environments"),
        sa.UniqueConstraint("digest", name="uq_environments_digest"),
    )
    op.create_table(
        "environment_modules",
        reference("environment_id"),
        text("module"),
        text("package"),
        text("version"),
        sa.PrimaryKeyConstraint("environment_id", "module", name="pk_environment_modules"),
        sa.ForeignKeyConstraint(["environment_id"], ["environments.id"], name="fk_environment_modules_environment_id"),
    )
    op.create_table(
        "recorded_runs",
        identity(),
        text("name"),
        sa.Column("is_named", sa.Boolean(), nullable=False),
        text("withdrawn_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_recorded_runs"),
        sa.UniqueConstraint("name", name="uq_recorded_runs_name"),
    )
    op.create_table(
        "recordings",
        identity(),
        reference("run_id"),
        sa.Column("rank", sa.Integer(), nullable=False),
        reference("environment_id"),
        text("votes_digest", nullable=True),
        text("timings_digest", nullable=True),
        sa.Column("world_size", sa.Integer()),
        text("host", nullable=True),
        text("device_name", nullable=True),
        text("device_arch", nullable=True),
        sa.Column("multiprocessor_count", sa.Integer()),
        text("source"),
        text("ingested_at"),
        text("superseded_at"),
        sa.PrimaryKeyConstraint("id", name="pk_recordings"),
        sa.ForeignKeyConstraint(["run_id"], ["recorded_runs.id"], name="fk_recordings_run_id"),
        sa.ForeignKeyConstraint(["environment_id"], ["environments.id"], name="fk_recordings_environment_id"),
        sa.UniqueConstraint("run_id", "rank", "superseded_at", name="uq_recordings_run_id_rank_superseded_at"),
    )
    op.create_index("ix_recordings_votes_digest", "recordings", ["votes_digest"])
    op.create_table(
        "recording_archs",
        reference("recording_id"),
        text("arch"),
        sa.Column("vote_count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("recording_id", "arch", name="pk_recording_archs"),
        sa.ForeignKeyConstraint(["recording_id"], ["recordings.id"], name="fk_recording_archs_recording_id"),
    )
    op.create_table(
        "entries",
        identity(),
        text("digest"),
        text("arch"),
        text("kernel"),
        text("key"),
        text("lookup_key"),
        text("module"),
        sa.PrimaryKeyConstraint("id", name="pk_entries"),
        sa.UniqueConstraint("digest", name="uq_entries_digest"),
    )
    op.create_table(
        "configs",
        identity(),
        text("digest"),
        text("text"),
        sa.PrimaryKeyConstraint("id", name="pk_configs"),
        sa.UniqueConstraint("digest", name="uq_configs_digest"),
    )
    op.create_table(
        "votes",
        reference("entry_id"),
        reference("config_id"),
        reference("recording_id"),
        sa.PrimaryKeyConstraint("entry_id", "config_id", "recording_id", name="pk_votes"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "timings",
        reference("entry_id"),
        reference("config_id"),
        reference("recording_id"),
        sa.Column("median_ms", sa.Double()),
        sa.Column("p20_ms", sa.Double()),
        sa.Column("p80_ms", sa.Double()),
        sa.PrimaryKeyConstraint("entry_id", "config_id", "recording_id", name="pk_timings"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "observations",
        reference("recording_id"),
        reference("entry_id"),
        sa.Column("config_id", ID),
        text("reason"),
        sa.PrimaryKeyConstraint("recording_id", "entry_id", name="pk_observations"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "candidate_sets",
        reference("recording_id"),
        reference("entry_id"),
        text("fingerprint"),
        sa.PrimaryKeyConstraint("recording_id", "entry_id", name="pk_candidate_sets"),
        sqlite_with_rowid=False,
    )
    op.execute(
        """\
CREATE VIEW counted_votes AS
SELECT e.arch AS arch, e.kernel AS kernel, e.key AS key, c.text AS config, r.rank AS rank, u.name AS run
FROM votes v
JOIN entries e ON e.id = v.entry_id
JOIN configs c ON c.id = v.config_id
JOIN recordings r ON r.id = v.recording_id AND r.superseded_at = ''
JOIN recorded_runs u ON u.id = r.run_id AND u.withdrawn_at IS NULL"""
    )


def downgrade() -> None:
    """Remove everything, with all data."""
    op.execute("DROP VIEW counted_votes")
    for table in (
        "candidate_sets",
        "observations",
        "timings",
        "votes",
        "configs",
        "entries",
        "recording_archs",
        "recordings",
        "recorded_runs",
        "environment_modules",
        "environments",
    ):
        op.drop_table(table)
