"""The log of exported tables, and entries whose candidates have changed since."""

from __future__ import annotations

import datetime as dt
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import H200, Cli, config, run_registry, version_1, write_ranks, write_recording
from tests.helpers import take
from tuning_registry.db.store import Store
from tuning_registry.formats.loader import load
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.tables.export import ExportOptions, export_table
from tuning_registry.operations.tables.export_log import list_exports, remember_export

A, B = config(B=1), config(B=2)
NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


def test_a_digest_leads_back_to_the_votes(store: Store, tmp_path: Path) -> None:
    take(store, H200, triton="3.6.0", run="july")
    selection = Selection(arch="sm90", runs=("july",), triton="3.6.0")
    options = ExportOptions(min_votes=2, policy="fastest", generalize_percent=5.0)
    made = export_table(store, selection, options)
    for user in ("ada", "bob"):
        remember_export(store, made, selection, options, output="tables/sm90.json", exported_by=user, now=NOW)
    digest = made.payload["tuning_registry"]["digest"]
    newest, first = list_exports(store)
    assert (newest.exported_by, first.exported_by) == ("bob", "ada")
    assert (first.digest, first.arch, first.policy, first.runs) == (digest, "sm90", "fastest", ("july",))
    assert first.selection_digest == first.to_dict()["selection_digest"] == digest  # no bans
    assert first.filters == {"run": ["july"], "triton": "3.6.0", "min_votes": 2, "generalize": 5.0}
    assert (first.entries, first.recordings, first.output) == (made.entries, 8, "tables/sm90.json")
    assert first.exported_at == "2026-11-30T12:00:00.000000+00:00"
    assert len(list_exports(store, digest[:12].upper())) == 2
    for arch, message in (("", "--arch is empty"), ("\udcff", "a lone surrogate")):
        with pytest.raises(ValueError, match=message):
            list_exports(store, arch=arch)
    assert list_exports(store, "0" * 64) == list_exports(store, digest[1:20]) == list_exports(store, arch="sm100") == []


def test_each_export_to_a_file_is_remembered(cli: Cli, tmp_path: Path) -> None:
    assert cli("ingest", H200, "--run", "july").exit_code == 0
    file = tmp_path / "sm90.json"
    assert cli("export", "--arch", "sm90", "-o", file).exit_code == 0
    assert cli("export", "--arch", "sm90").exit_code == 0  # to stdout: nobody can load that by its digest
    (row,) = json.loads(cli("exports", "--format", "json").stdout)
    for name in ("digest", "selection_digest"):
        assert row[name] == json.loads(file.read_text())["tuning_registry"][name]
    assert (row["output"], row["filters"], row["runs"]) == (str(file), {}, ["july"])
    assert re.fullmatch(r"\S+@\S+", row["exported_by"])
    assert "1 export" in cli("exports", "--digest", row["digest"][:8]).stderr
    nothing = cli("exports", "--digest", "ffff")
    assert (nothing.exit_code, "0 exports" in nothing.stderr) == (0, True)
    assert cli("exports", "--digest", "").exit_code == 2


def test_a_selection_digest_in_a_training_log_leads_back_too(cli: Cli, tmp_path: Path) -> None:
    """A ban changes what is pinned, and not the entries that are left."""
    assert cli("ingest", *write_ranks(tmp_path, [A, A]), "--run", "r").exit_code == 0
    file = tmp_path / "sm90.json"
    ban = (
        "ban",
        "--arch",
        "sm90",
        "--kernel",
        "k",
        "--key",
        "*",
        "--config",
        "num_warps=8",
        "--reason",
        "r",
        "--force",
    )
    for words in (("export", "--arch", "sm90", "-o", file), ban, ("export", "--arch", "sm90", "-o", file)):
        assert cli(*words).exit_code == 0
    table = load("sm90", file)
    newer, older = json.loads(cli("exports", "--format", "json").stdout)
    assert newer["digest"] == older["digest"] == older["selection_digest"] == table.digest
    assert newer["selection_digest"] == table.selection_digest != table.digest
    found = json.loads(cli("exports", "--digest", table.selection_digest[:12], "--format", "json").stdout)
    assert [row["selection_digest"] for row in found] == [table.selection_digest]
    assert table.selection_digest[:16] in cli("exports").stdout


def test_whoever_may_only_read_exports_all_the_same(tmp_path: Path) -> None:
    database, file = tmp_path / "db" / "r.db", tmp_path / "sm90.json"
    database.parent.mkdir()
    assert run_registry("--db", database, "ingest", *write_ranks(tmp_path, [A]), "--run", "r").returncode == 0
    with sqlite3.connect(database) as connection:  # a table that nobody can write to
        connection.execute("CREATE TRIGGER t BEFORE INSERT ON exports BEGIN SELECT RAISE(ABORT, 'no'); END")
    connection.close()
    done = run_registry("--db", database, "export", "--arch", "sm90", "-o", file)
    assert (done.returncode, file.exists()) == (0, True)
    assert "note: the table was written, but registry exports will not list it" in done.stderr


def test_max_regression_reads_the_table_it_replaces(cli: Cli, tmp_path: Path) -> None:
    timings = {"sm90": {"k": {"M=1": [[A, [1.0, 1, 1]], [B, [1.5, 1.5, 1.5]]]}}}
    write_recording(tmp_path / "0.json", version_1({"sm90": {"k": {"M=1": A}}}, timings=timings))
    for rank in (1, 2):
        write_recording(tmp_path / "2" / f"{rank}.json", version_1({"sm90": {"k": {"M=1": B}}}, rank=rank))
    file = tmp_path / "sm90.json"
    export = ("export", "--arch", "sm90", "-o", file, "--max-regression", "10")
    assert cli("ingest", tmp_path / "0.json").exit_code == 0
    assert cli(*export).exit_code == 0  # replaces nothing
    before = file.read_bytes()
    assert cli("ingest", tmp_path / "2").exit_code == 0
    refused = cli(*export)
    assert (refused.exit_code, file.read_bytes()) == (1, before)
    assert "more than 10 % slower for 1 entry (worst: k, 50.0 % slower)" in refused.stderr
    file.write_text("{}")
    assert "not a per-arch table" in cli(*export).stderr
    assert cli("export", "--arch", "sm90", "--max-regression", "10").exit_code == 2


def recorded(rank: int, run: str, sets: dict[str, str | None], **more: Any) -> Any:
    said = {key: fingerprint for key, fingerprint in sets.items() if fingerprint}
    return version_1(
        {"sm90": {"k": dict.fromkeys(sets, A)}}, rank=rank, run=run, candidate_sets={"sm90": {"k": said}}, **more
    )


def stale(store: Store, **filters: Any) -> dict[str, int]:
    return {entry.key: entry.stale for entry in find_winners(store, Selection(**filters))}


def test_entries_chosen_from_other_candidates_than_the_newest_are_stale(store: Store, tmp_path: Path) -> None:
    def add(*documents: Any) -> None:
        for document in documents:
            take(store, write_recording(tmp_path / "r.json", json.dumps(document)), run=None)

    add(*(recorded(rank, "old", {"M=1": "f1", "M=2": "f1", "M=3": "f1"}) for rank in range(3)))
    assert stale(store) == {"M=1": 0, "M=2": 0, "M=3": 0}
    add(recorded(0, "new", {"M=1": "f2", "M=2": "f1", "M=3": None}))
    assert stale(store) == {"M=1": 3, "M=2": 0, "M=3": 0}
    made = export_table(store, Selection(arch="sm90"))
    assert made.stale == 1
    assert stale(store, runs=("old",)) == {"M=1": 0, "M=2": 0, "M=3": 0}
    add(recorded(0, "other", {"M=1": "f3"}, triton="3.7.0"))  # another version group is another story
    assert stale(store, triton="none") == {"M=1": 3, "M=2": 0, "M=3": 0}
    assert stale(store, triton="3.7.0") == {"M=1": 0}


def test_commands_mark_stale_entries(cli: Cli, tmp_path: Path) -> None:
    for rank, fingerprint in enumerate(("f1", "f2")):
        write_recording(tmp_path / f"{rank}.json", json.dumps(recorded(rank, "r", {"M=1": fingerprint})))
    assert cli("ingest", tmp_path).exit_code == 0
    assert "[stale: 1 recording chose from other candidates]" in cli("winners").stdout
    assert "note: 1 entry stale: some recordings chose from other candidates" in cli("export", "--arch", "sm90").stderr
    assert json.loads(cli("winners", "--format", "json").stdout)[0]["stale_recordings"] == 1
