#!/usr/bin/env python3
"""The limit: parse with a fast parser and insert the votes with bare sqlite3 or COPY, without any checks.

usage: raw_insert.py FOLDER DATABASE_FILE_OR_POSTGRES_URL
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import msgspec

TABLE = "raw_votes (entry_id INTEGER, config_id INTEGER, recording_id INTEGER)"
Row = tuple[int, int, int]


def read(folder: Path) -> list[Row]:
    ids: dict[object, int] = {}
    rows = []
    for rank, path in enumerate(sorted(folder.glob("*.json"))):
        for arch, kernels in msgspec.json.decode(path.read_bytes()).items():
            for kernel, entries in kernels.items():
                for key, config in entries.items():
                    entry = ids.setdefault((arch, kernel, key), len(ids))
                    rows.append((entry, ids.setdefault(msgspec.json.encode(config), len(ids)), rank))
    return rows


def insert(rows: list[Row], file: str) -> None:
    connection = sqlite3.connect(file)
    connection.execute(f"CREATE TABLE {TABLE}")
    with connection:
        connection.executemany("INSERT INTO raw_votes VALUES (?, ?, ?)", rows)
    connection.close()


def copy(rows: list[Row], url: str) -> None:
    import psycopg  # only for a Postgres URL

    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE TABLE {TABLE}".encode())
        with connection.cursor() as cursor, cursor.copy("COPY raw_votes FROM STDIN") as stream:
            stream.write("".join([f"{entry}\t{config}\t{rank}\n" for entry, config, rank in rows]))


def main() -> None:
    rows, database = read(Path(sys.argv[1])), sys.argv[2]
    (copy if database.startswith("postgresql:") else insert)(rows, database)


if __name__ == "__main__":
    main()
