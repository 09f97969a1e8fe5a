"""The tables and the view at the head revision, in SQLAlchemy Core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import sqlalchemy as sa

# Not Alembic's default name, which MLflow and Optuna use in a shared database.
VERSION_TABLE: Final = "tuning_registry_alembic_version"
# Every revision ever released, oldest first; the last is what this schema declares.
REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010")
HEAD: Final = REVISIONS[-1]

CURRENT: Final = ""  # in `recordings.superseded_at`: it counts
NO_RANK: Final = -1  # in `recordings.rank`: the rank is unknown, as of a Triton cache

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Text that compares byte by byte on both databases, so that ties and ORDER BY have the same result. SQLite's default
# is BINARY; Postgres needs "C", since ICU collations sort `|` and `_` differently.
ByteText = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
# SQLite makes only INTEGER PRIMARY KEY an alias of its row id.
Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# The software that a recording states. `digest` is the SHA-256 of the three other columns: unique indexes are on
# digests, since Postgres cannot index texts longer than 2,704 bytes.
environments = sa.Table(
    "environments",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("digest", ByteText, nullable=False, unique=True),
    sa.Column("triton", ByteText, nullable=False),  # empty: not known
    sa.Column("packages", ByteText, nullable=False),  # {distribution: version}, canonical JSON
    sa.Column("modules", ByteText, nullable=False),  # {top-level module: distribution}, canonical JSON
)

# Which distribution owned a top-level module in an environment: the second half of a version group.
environment_modules = sa.Table(
    "environment_modules",
    metadata,
    sa.Column("environment_id", Id, sa.ForeignKey("environments.id"), primary_key=True),
    sa.Column("module", ByteText, primary_key=True),
    sa.Column("package", ByteText, nullable=False),
    sa.Column("version", ByteText, nullable=False),
)

# The sources of the kernels' functions that a recording states. A fleet normally has one set, so that a recording
# costs one integer. `digest` is the SHA-256 of the pairs.
source_sets = sa.Table(
    "source_sets",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("digest", ByteText, nullable=False, unique=True),
)

kernel_sources = sa.Table(
    "kernel_sources",
    metadata,
    sa.Column("source_set_id", Id, sa.ForeignKey("source_sets.id"), primary_key=True),
    sa.Column("kernel_digest", ByteText, primary_key=True),  # of its name, which may be too long for an index
    sa.Column("kernel", ByteText, nullable=False),
    sa.Column("source", ByteText, nullable=False),  # SHA-256 of the function's source
)

# What devices and their software report; equal rows are shared. `digest` is the SHA-256 of the other columns.
hardware = sa.Table(
    "hardware",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("digest", ByteText, nullable=False, unique=True),
    sa.Column("driver", ByteText),
    sa.Column("cuda", ByteText),
    sa.Column("ptxas", ByteText),
    sa.Column("sm_clock_mhz", sa.Integer),
    sa.Column("memory_clock_mhz", sa.Integer),
    sa.Column("power_limit_w", sa.Integer),
)

recorded_runs = sa.Table(
    "recorded_runs",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("name", ByteText, nullable=False, unique=True),
    sa.Column("is_named", sa.Boolean, nullable=False),  # false: the name was derived from the files' folder
    sa.Column("withdrawn_at", ByteText),  # the whole run: UTC, ISO 8601; null if its votes count
)

recordings = sa.Table(
    "recordings",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("run_id", Id, sa.ForeignKey("recorded_runs.id"), nullable=False),
    sa.Column("rank", sa.Integer, nullable=False),
    sa.Column("environment_id", Id, sa.ForeignKey("environments.id"), nullable=False),
    sa.Column("votes_digest", ByteText),  # identity of the content, per kind; null if there is none
    sa.Column("observations_digest", ByteText),
    sa.Column("timings_digest", ByteText),
    sa.Column("world_size", sa.Integer),
    sa.Column("host", ByteText),
    sa.Column("device_name", ByteText),
    sa.Column("device_arch", ByteText),
    sa.Column("multiprocessor_count", sa.Integer),
    sa.Column("source", ByteText, nullable=False),
    sa.Column("ingested_at", ByteText, nullable=False),  # UTC, ISO 8601
    # When a later recording of the same rank superseded it; CURRENT for the one that counts. Not NULL, which a
    # unique constraint would allow twice.
    sa.Column("superseded_at", ByteText, nullable=False),
    # Since version 2 of recordings; null in version 1.
    sa.Column("process_id", ByteText),  # the recording's `id`
    sa.Column("attempt", sa.Integer),
    sa.Column("local_rank", sa.Integer),
    sa.Column("device_uuid", ByteText),
    # Without foreign keys, which SQLite cannot add to a table that exists.
    sa.Column("source_set_id", Id),
    sa.Column("hardware_id", Id),
    sa.Column("extra", ByteText),  # canonical JSON
    sa.Column("withdrawn_at", ByteText),  # this rank alone: UTC, ISO 8601; null if its votes count
    sa.Column("origin_id", Id),  # whose file it was read from; null for recordings of our own format
    sa.UniqueConstraint("run_id", "rank", "superseded_at"),
    sa.Index(None, "votes_digest"),
    sa.Index(None, "process_id"),
)

# How many votes a recording holds on each architecture, so that lists of runs and the header of a table need not
# read the votes.
recording_archs = sa.Table(
    "recording_archs",
    metadata,
    sa.Column("recording_id", Id, sa.ForeignKey("recordings.id"), primary_key=True),
    sa.Column("arch", ByteText, primary_key=True),
    sa.Column("vote_count", sa.Integer, nullable=False),
)

entries = sa.Table(
    "entries",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("digest", ByteText, nullable=False, unique=True),  # of arch, kernel, key, and device if there is one
    sa.Column("arch", ByteText, nullable=False),
    sa.Column("kernel", ByteText, nullable=False),
    sa.Column("key", ByteText, nullable=False),
    sa.Column("lookup_key", ByteText, nullable=False),  # the same for keys that Triton cannot tell apart
    sa.Column("module", ByteText, nullable=False),  # top-level module of the kernel; empty for a bare name
    # The device that the entry is for; empty unless the source of its choices is per device.
    sa.Column("device", ByteText, nullable=False, server_default=sa.text("''")),
    # False while only curated choices name it: there may be tens of thousands, and queries about votes skip them.
    sa.Column("is_recorded", sa.Boolean, nullable=False, server_default=sa.text("true")),
    sa.Index(None, "is_recorded"),
)

configs = sa.Table(
    "configs",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("digest", ByteText, nullable=False, unique=True),
    sa.Column("text", ByteText, nullable=False),  # the canonical text
    sa.Column("kind", ByteText, nullable=False, server_default="triton"),  # `model.kinds.Kind`; the text states it, too
)

# Where choices come from: a file of another tool, with the software that it is for. `digest` is the SHA-256 of the
# other columns but the last three.
origins = sa.Table(
    "origins",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("digest", ByteText, nullable=False, unique=True),
    sa.Column("tool", ByteText, nullable=False),  # the name of its format
    sa.Column("project", ByteText, nullable=False),  # distribution that ships the file; empty if not known
    sa.Column("version", ByteText, nullable=False),  # of that distribution; empty if not known
    sa.Column("source", ByteText, nullable=False),  # free text
    sa.Column("file", ByteText, nullable=False),  # its name within the project; empty for recordings
    # Without a foreign key: on Postgres, a table that a later migration made may have another owner.
    sa.Column("environment_id", Id, nullable=False),
    sa.Column("choices_digest", ByteText, nullable=False),  # identity of the content; empty for recordings
    sa.Column("choice_count", sa.Integer, nullable=False),
    sa.Column("ingested_at", ByteText, nullable=False),  # UTC, ISO 8601
    sa.Column("superseded_at", ByteText, nullable=False),  # CURRENT, or when another state of the file replaced it
)

# Choices that somebody committed. They are compared, and never vote unless a query asks for it.
curated_choices = sa.Table(
    "curated_choices",
    metadata,
    sa.Column("entry_id", Id, primary_key=True, autoincrement=False),
    sa.Column("origin_id", Id, primary_key=True, autoincrement=False),
    sa.Column("config_id", Id, nullable=False),
    sqlite_with_rowid=False,
)

# One row per vote. Foreign keys would cost three lookups per row, and the one statement that writes here gets all
# three ids from the same transaction. Clustered by entry and config, so that counting reads the index in order,
# without a sort.
votes = sa.Table(
    "votes",
    metadata,
    sa.Column("entry_id", Id, primary_key=True, autoincrement=False),
    sa.Column("config_id", Id, primary_key=True, autoincrement=False),
    sa.Column("recording_id", Id, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

timings = sa.Table(
    "timings",
    metadata,
    sa.Column("entry_id", Id, primary_key=True, autoincrement=False),
    sa.Column("config_id", Id, primary_key=True, autoincrement=False),
    sa.Column("recording_id", Id, primary_key=True, autoincrement=False),
    sa.Column("median_ms", sa.Double),  # all three are null if the candidate failed
    sa.Column("p20_ms", sa.Double),
    sa.Column("p80_ms", sa.Double),
    sqlite_with_rowid=False,
)

# Timings of many recordings of an entry that timed the same candidates: 4 bytes each, without loss
# (`model.packed_times`). A recording has its timings of an entry either here or in `timings`.
packed_timings = sa.Table(
    "packed_timings",
    metadata,
    sa.Column("entry_id", Id, primary_key=True, autoincrement=False),
    sa.Column("first_recording", Id, primary_key=True, autoincrement=False),
    sa.Column("last_recording", Id, nullable=False),
    sa.Column("recording_count", sa.Integer, nullable=False),
    sa.Column("timing_count", sa.Integer, nullable=False),
    sa.Column("recordings", sa.LargeBinary, nullable=False),  # their ids; empty if they are consecutive
    sa.Column("configs", sa.LargeBinary, nullable=False),  # 8 bytes per config id
    sa.Column("medians", sa.LargeBinary, nullable=False),
    sa.Column("percentiles", sa.LargeBinary, nullable=False),  # all 20th, then all 80th; empty after compaction
)

# Choices that are not votes: an echo of a disk cache, a single candidate, a kernel that failed.
observations = sa.Table(
    "observations",
    metadata,
    sa.Column("recording_id", Id, primary_key=True, autoincrement=False),
    sa.Column("entry_id", Id, primary_key=True, autoincrement=False),
    sa.Column("config_id", Id),  # null if nothing ran
    sa.Column("reason", ByteText, nullable=False),
    sqlite_with_rowid=False,
)

# Clustered like the votes: the sets that an entry was chosen from are next to each other in the index.
candidate_sets = sa.Table(
    "candidate_sets",
    metadata,
    sa.Column("entry_id", Id, primary_key=True, autoincrement=False),
    sa.Column("fingerprint", ByteText, primary_key=True),
    sa.Column("recording_id", Id, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

# Many recordings of an entry that chose from the same candidates. A recording is either here or in `candidate_sets`.
packed_candidate_sets = sa.Table(
    "packed_candidate_sets",
    metadata,
    sa.Column("entry_id", Id, primary_key=True, autoincrement=False),
    sa.Column("fingerprint", ByteText, primary_key=True),
    sa.Column("first_recording", Id, primary_key=True, autoincrement=False),
    sa.Column("last_recording", Id, nullable=False),
    sa.Column("recording_count", sa.Integer, nullable=False),
    sa.Column("recordings", sa.LargeBinary, nullable=False),  # as in `packed_timings`
)

# What audits found: ranks that found the same share a row. `digest` is the SHA-256 of the content, with the configs'
# texts. `results` is packed (`model.audits.pack_results`).
audit_blocks = sa.Table(
    "audit_blocks",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("digest", ByteText, nullable=False, unique=True),
    sa.Column("skipped", ByteText, nullable=False),  # why the call was not audited; empty if it was
    sa.Column("inputs", ByteText, nullable=False),  # digest: results compare if it is equal
    sa.Column("is_seeded", sa.Boolean, nullable=False),
    sa.Column("results", sa.LargeBinary, nullable=False),
)

audits = sa.Table(
    "audits",
    metadata,
    sa.Column("entry_id", Id, primary_key=True, autoincrement=False),
    sa.Column("recording_id", Id, primary_key=True, autoincrement=False),
    sa.Column("block_id", Id, nullable=False),
    sqlite_with_rowid=False,
)

# Recordings that ranks have appended and that are not folded into votes yet. A row is deleted by the transaction that
# writes its votes. A rank needs the right to insert here, and no other.
PENDING: Final = "pending"
REFUSED: Final = "refused"
hand_ins = sa.Table(
    "hand_ins",
    metadata,
    sa.Column("id", ByteText, primary_key=True),  # made by the rank, so that a retry cannot append twice
    sa.Column("received_at", ByteText, nullable=False),  # UTC, ISO 8601
    sa.Column("version", sa.Integer, nullable=False),  # of the payload's form (`formats.hand_ins`)
    sa.Column("payload", sa.LargeBinary, nullable=False),  # the compressed recording
    sa.Column("state", ByteText, nullable=False),  # PENDING or REFUSED
    sa.Column("error", ByteText),  # why it was refused
    sa.Index(None, "state", "received_at"),
)

# What Triton needs to compile kernels without a launch. `text` is the canonical JSON of a `Specialization`.
specializations = sa.Table(
    "specializations",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("digest", ByteText, nullable=False, unique=True),
    sa.Column("text", ByteText, nullable=False),
)

# Which of them a config needs on an entry, per environment: ranks that agree share a row, and none is removed.
entry_specializations = sa.Table(
    "entry_specializations",
    metadata,
    sa.Column("entry_id", Id, primary_key=True, autoincrement=False),
    sa.Column("config_id", Id, primary_key=True, autoincrement=False),
    sa.Column("environment_id", Id, primary_key=True, autoincrement=False),
    sa.Column("specialization_id", Id, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

# Decisions that override the votes. Append-only: a later event on the same entry and config replaces an earlier one,
# and a `lift` ends one.
override_events = sa.Table(
    "override_events",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("action", ByteText, nullable=False),  # pin, ban, lift
    sa.Column("lifts", Id, sa.ForeignKey("override_events.id")),  # the event that a lift ends; else null
    sa.Column("arch", ByteText, nullable=False),
    sa.Column("kernel", ByteText, nullable=False),
    sa.Column("key", ByteText, nullable=False),  # `*`: every key of the kernel
    sa.Column("config_id", Id, sa.ForeignKey("configs.id"), nullable=False),
    sa.Column("reason", ByteText, nullable=False),
    sa.Column("author", ByteText, nullable=False),
    sa.Column("until", ByteText),  # UTC, ISO 8601; null if it does not expire
    sa.Column("created_at", ByteText, nullable=False),  # UTC, ISO 8601
)

# The log of exported tables: it leads from a digest in a training log back to the votes.
exports = sa.Table(
    "exports",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("table_digest", ByteText, nullable=False),
    sa.Column("arch", ByteText, nullable=False),
    sa.Column("policy", ByteText, nullable=False),
    sa.Column("filters", ByteText, nullable=False),  # the options of the export, canonical JSON
    sa.Column("runs", ByteText, nullable=False),  # names, canonical JSON
    sa.Column("entry_count", sa.Integer, nullable=False),
    sa.Column("recording_count", sa.Integer, nullable=False),
    sa.Column("output", ByteText, nullable=False),  # the path as it was given
    sa.Column("exported_by", ByteText, nullable=False),
    sa.Column("exported_at", ByteText, nullable=False),  # UTC, ISO 8601
    sa.Column("selection_digest", ByteText),  # null if the table was exported before revision 0004
    sa.Index(None, "table_digest"),
)

# Alembic's table, as Alembic creates it. Not in `metadata`, which the tests compare with the migrations.
version_table = sa.Table(
    VERSION_TABLE,
    sa.MetaData(naming_convention={"pk": "%(table_name)s_pkc"}),
    sa.Column("version_num", sa.String(32), primary_key=True),
)

# The votes that count, one row each, for sqlite3, psql, Datasette or Grafana.
COUNTED_VOTES_VIEW: Final = """\
CREATE VIEW counted_votes AS
SELECT e.arch AS arch, e.kernel AS kernel, e.key AS key, c.text AS config, r.rank AS rank, u.name AS run
FROM votes v
JOIN entries e ON e.id = v.entry_id
JOIN configs c ON c.id = v.config_id
JOIN recordings r ON r.id = v.recording_id AND r.superseded_at = '' AND r.withdrawn_at IS NULL
JOIN recorded_runs u ON u.id = r.run_id AND u.withdrawn_at IS NULL"""

_ddl = cast("Callable[[str], sa.DDL]", sa.DDL)  # its constructor is not annotated
sa.event.listen(metadata, "after_create", _ddl(COUNTED_VOTES_VIEW))
sa.event.listen(metadata, "before_drop", _ddl("DROP VIEW IF EXISTS counted_votes"))
