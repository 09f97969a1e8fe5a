"""SQLite files of strangers: read-only, bounded, and nothing in them is run."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tuning_registry.errors import RecordingError
from tuning_registry.formats import sqlite_input
from tuning_registry.formats.plugin import ToolFile


def make(path: Path, *statements: str) -> ToolFile:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return ToolFile(path)


def test_tables_columns_and_rows(tmp_path: Path) -> None:
    file = make(tmp_path / "a b?#%.db", 'CREATE TABLE "odd "" name-1" (key_0, B)', 'INSERT INTO "odd "" name-1" VALUES (1, \'x\')',
                "CREATE VIEW v AS SELECT 1")  # fmt: skip
    with sqlite_input.opened(file) as connection:
        (table,) = sqlite_input.table_names(connection)
        assert sqlite_input.columns_of(connection, table) == ["key_0", "B"]
        assert list(sqlite_input.rows_of(connection, table)) == [{"key_0": 1, "B": "x"}]


def test_nothing_is_written_even_next_to_the_file(tmp_path: Path) -> None:
    file = make(tmp_path / "x.db", "PRAGMA journal_mode = WAL", "CREATE TABLE t (a)")
    for other in tmp_path.glob("x.db-*"):
        other.unlink()
    before = Path(str(file.path)).read_bytes()
    with sqlite_input.opened(file) as connection:
        assert sqlite_input.table_names(connection) == ["t"]
    assert Path(str(file.path)).read_bytes() == before
    assert list(tmp_path.iterdir()) == [file.path]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (1)",
        "CREATE TABLE u (a)",
        "DROP TABLE t",
        "ATTACH ':memory:' AS other",
        "SELECT load_extension('x')",
        "CREATE TEMP TABLE u (a)",
    ],
)
def test_only_reading_is_allowed(tmp_path: Path, statement: str) -> None:
    file = make(tmp_path / "x.db", "CREATE TABLE t (a)")
    with pytest.raises(RecordingError, match="x.db: cannot be read"), sqlite_input.opened(file) as connection:
        connection.execute(statement)


def test_endless_work_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_input, "_MAX_STEPS", 1_000_000)
    rows = "INSERT INTO t WITH n(i) AS (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)) SELECT i FROM n"
    file = make(tmp_path / "x.db", "CREATE TABLE t (a)", rows)
    with pytest.raises(RecordingError, match="takes too long to read"), sqlite_input.opened(file) as connection:
        connection.execute("SELECT count(*) FROM t a, t b, t c, t d, t e, t f, t g, t h, t i, t j").fetchone()


def test_a_huge_value_is_refused(tmp_path: Path) -> None:
    file = make(tmp_path / "x.db", "CREATE TABLE t (a)", "INSERT INTO t VALUES (zeroblob(3000000))")
    with pytest.raises(RecordingError, match="cannot be read"), sqlite_input.opened(file) as connection:
        list(sqlite_input.rows_of(connection, "t"))


@pytest.mark.parametrize("data", [b"", b"SQLite format 3", b"SQLite format 3\0", b"SQLite format 3\0" + b"\xff" * 5000])
def test_damaged_files_are_refused_by_name(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.db").write_bytes(data)
    with pytest.raises(RecordingError, match="x.db: "), sqlite_input.opened(ToolFile(tmp_path / "x.db")) as connection:
        sqlite_input.table_names(connection)
