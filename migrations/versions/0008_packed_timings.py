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
        "packed_timings",
        sa.Column("entry_id", ID, autoincrement=False, nullable=False),
        sa.Column("first_recording", ID, autoincrement=False, nullable=False),
        sa.Column("last_recording", ID, nullable=False),
        sa.Column("recording_count", sa.Integer(), nullable=False),
        sa.Column("timing_count", sa.Integer(), nullable=False),
        sa.Column("recordings", sa.LargeBinary(), nullable=False),
        sa.Column("configs", sa.LargeBinary(), nullable=False),
        sa.Column("medians", sa.LargeBinary(), nullable=False),
        sa.Column("percentiles", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("entry_id", "first_recording", name="pk_packed_timings"),
    )
    op.create_table(
        "packed_candidate_sets",
        sa.Column("entry_id", ID, autoincrement=False, nullable=False),
        sa.Column("fingerprint", BYTE_TEXT, nullable=False),
        sa.Column("first_recording", ID, autoincrement=False, nullable=False),
        sa.Column("last_recording", ID, nullable=False),
        sa.Column("recording_count", sa.Integer(), nullable=False),
        sa.Column("recordings", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("entry_id", "fingerprint", "first_recording", name="pk_packed_candidate_sets"),
    )


def downgrade() -> None:
    """Unpack every block into rows, then remove the tables. Nothing is lost."""
    connection = op.get_bind()
    timing = "entry_id, first_recording, recording_count, recordings, configs, medians, percentiles"
    keys = connection.execute(sa.text("SELECT entry_id, first_recording FROM packed_timings")).all()
    for entry, first in keys:
        block = connection.execute(
            sa.text(f"SELECT {timing} FROM packed_timings WHERE entry_id = :entry AND first_recording = :first"),  # noqa: S608
            {"entry": entry, "first": first},
        ).one()
        insert = sa.text("INSERT INTO timings VALUES (:entry, :config, :recording, :median, :p20, :p80)")
        connection.execute(insert, rows_of(*block))
    blocks = connection.execute(
        sa.text("SELECT entry_id, fingerprint, first_recording, recording_count, recordings FROM packed_candidate_sets")
    ).all()
    for entry, fingerprint, first, count, recordings in blocks:
        connection.execute(
            sa.text("INSERT INTO candidate_sets VALUES (:entry, :fingerprint, :recording)"),
            [
                {"entry": entry, "fingerprint": fingerprint, "recording": one}
                for one in unpack_ids(first, count, recordings)
            ],
        )
    op.drop_table("packed_candidate_sets")
    op.drop_table("packed_timings")


def rows_of(
    entry: int, first: int, count: int, recordings: bytes, configs: bytes, medians: bytes, percentiles: bytes
) -> list[dict[str, float | None]]:
    """The rows of `timings` that a block holds."""
    middle = PackedColumns(medians, count)
    # A compacted run has no percentiles. Earlier programs take a missing one for a failure, so it becomes the median.
    ranges = PackedColumns(percentiles, count, middle) if percentiles else None
    ids = unpack_ids(first, count, recordings)
    return [
        {"entry": entry, "config": config, "recording": recording,
         "median": known(median), "p20": known(p20), "p80": known(p80)}
        for place, config in enumerate(unpack_numbers(configs))
        for recording, median, p20, p80 in zip(
            ids,
            middle.column(place),
            middle.column(place) if ranges is None else ranges.column(place),
            middle.column(place) if ranges is None else ranges.column(place + len(middle)),
            strict=True,
        )
    ]  # fmt: skip


def known(time: float) -> float | None:
    """A time; None for a candidate that failed."""
    return None if math.isnan(time) else time
