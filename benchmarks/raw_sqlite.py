#!/usr/bin/env python3
"""The limit: parse with a fast parser and insert the votes with bare sqlite3, checking nothing.

usage: raw_sqlite.py FOLDER DATABASE
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import msgspec


def main() -> None:
    ids: dict[object, int] = {}
    rows = []
    for rank, path in enumerate(sorted(Path(sys.argv[1]).glob("*.json"))):
        for arch, kernels in msgspec.json.decode(path.read_bytes()).items():
            for kernel, entries in kernels.items():
                for key, config in entries.items():
                    entry = ids.setdefault((arch, kernel, key), len(ids))
                    rows.append((entry, ids.setdefault(msgspec.json.encode(config), len(ids)), rank))
    connection = sqlite3.connect(sys.argv[2])
    connection.execute("CREATE TABLE votes (entry_id INTEGER, config_id INTEGER, recording_id INTEGER)")
    with connection:
        connection.executemany("INSERT INTO votes VALUES (?, ?, ?)", rows)
    connection.close()


if __name__ == "__main__":
    main()
