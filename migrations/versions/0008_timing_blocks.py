"""Blocks of timings and of candidate sets: many recordings in one row, without loss.

Rows stay where they are. `registry db upgrade` and later ingests pack them, an entry at a time.

Revision: 0008
After: 0007
"""

from __future__ import annotations

import math

import sqlalchemy as sa
from alembic import op

# Packed times state their version, and every version can be read for ever.
from tuning_registry.model.packed_times import PackedColumns, unpack_ids, unpack_numbers

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

# Frozen here on purpose: a migration must not change when the package's schema moves on.
BYTE_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the tables; no row changes."""
    op.create_table(
        "timing_blocks",
        sa.Column("entry_id", ID, autoincrement=False, nullable=False),
        sa.Column("first_recording", ID, autoincrement=False, nullable=False),
        sa.Column("last_recording", ID, nullable=False),
        sa.Column("recording_count", sa.Integer(), nullable=False),
        sa.Column("timing_count", sa.Integer(), nullable=False),
        sa.Column("recordings", sa.LargeBinary(), nullable=False),
        sa.Column("configs", sa.LargeBinary(), nullable=False),
        sa.Column("medians", sa.LargeBinary(), nullable=False),
        sa.Column("percentiles", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("entry_id", "first_recording", name="pk_timing_blocks"),
    )
    op.create_table(
        "candidate_set_blocks",
        sa.Column("entry_id", ID, autoincrement=False, nullable=False),
        sa.Column("fingerprint", BYTE_TEXT, nullable=False),
        sa.Column("first_recording", ID, autoincrement=False, nullable=False),
        sa.Column("last_recording", ID, nullable=False),
        sa.Column("recording_count", sa.Integer(), nullable=False),
        sa.Column("recordings", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("entry_id", "fingerprint", "first_recording", name="pk_candidate_set_blocks"),
    )


def downgrade() -> None:
    """Unpack every block into rows, then remove the tables. Nothing is lost."""
    connection = op.get_bind()
    timing = "entry_id, first_recording, recording_count, recordings, configs, medians, percentiles"
    keys = connection.execute(sa.text("SELECT entry_id, first_recording FROM timing_blocks")).all()
    for entry, first in keys:
        block = connection.execute(
            sa.text(f"SELECT {timing} FROM timing_blocks WHERE entry_id = :entry AND first_recording = :first"),  # noqa: S608
            {"entry": entry, "first": first},
        ).one()
        insert = sa.text("INSERT INTO timings VALUES (:entry, :config, :recording, :median, :p20, :p80)")
        connection.execute(insert, rows_of(*block))
    blocks = connection.execute(
        sa.text("SELECT entry_id, fingerprint, first_recording, recording_count, recordings FROM candidate_set_blocks")
    ).all()
    for entry, fingerprint, first, count, recordings in blocks:
        connection.execute(
            sa.text("INSERT INTO candidate_sets VALUES (:entry, :fingerprint, :recording)"),
            [
                {"entry": entry, "fingerprint": fingerprint, "recording": one}
                for one in unpack_ids(first, count, recordings)
            ],
        )
    op.drop_table("candidate_set_blocks")
    op.drop_table("timing_blocks")


def rows_of(
    entry: int, first: int, count: int, recordings: bytes, configs: bytes, medians: bytes, percentiles: bytes
) -> list[dict[str, float | None]]:
    """The rows of `timings` that a block holds."""
    middle = PackedColumns(medians, count)
    ranges = PackedColumns(percentiles, count, middle)
    ids = unpack_ids(first, count, recordings)
    return [
        {"entry": entry, "config": config, "recording": recording,
         "median": known(median), "p20": known(p20), "p80": known(p80)}
        for place, config in enumerate(unpack_numbers(configs))
        for recording, median, p20, p80 in zip(
            ids, middle.column(place), ranges.column(place), ranges.column(place + len(middle)), strict=True
        )
    ]  # fmt: skip


def known(time: float) -> float | None:
    """A time; None for a candidate that failed."""
    return None if math.isnan(time) else time
