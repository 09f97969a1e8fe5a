"""Undoing the ingest of curated choices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, config, write_ranks
from tests.helpers import all_rows, on_sqlite, take
from tuning_registry.db.store import Store
from tuning_registry.errors import ConflictError, SelectionError
from tuning_registry.model.kinds import launch_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.sources import delete_source, describe_source, restore_source, withdraw_source

FIRST, SECOND = {"num_warps": 4}, {"num_warps": 8}
NAME = "E=8,N=64,device_name=NVIDIA_H200.json"
OTHER = "E=8,N=128,device_name=NVIDIA_H200.json"


def write(folder: Path, content: Any = FIRST, name: str = NAME) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps({"16": content}))
    return folder / name


def chosen(store: Store) -> list[str]:
    return [one.config for one in find_winners(store, Selection(curated=True))]


def test_a_withdrawn_source_does_not_count_until_it_is_restored(store: Store, tmp_path: Path) -> None:
    take(store, write(tmp_path), write(tmp_path, name=OTHER), run=None)
    before = all_rows(store)
    assert withdraw_source(store, "vllm")
    assert not withdraw_source(store, "vllm")
    assert chosen(store) == []
    assert str(describe_source(store, "vllm")) == "vllm: 2 files with 2 curated choices, 2 withdrawn"
    assert restore_source(store, "vllm")
    assert not restore_source(store, "vllm")
    assert all_rows(store) == before


def test_other_sources_are_left_alone(store: Store, tmp_path: Path) -> None:
    take(store, write(tmp_path), run=None, packages={"vllm": "0.33.0"}, source="node1")
    take(store, write(tmp_path, SECOND), run=None, packages={"vllm": "0.33.0"}, source="node2")
    with pytest.raises(SelectionError, match="no curated choices of 'vllm 0.33.0'; .*: 'vllm node1', 'vllm node2'"):
        withdraw_source(store, "vllm 0.33.0")
    assert withdraw_source(store, "vllm node1")
    assert chosen(store) == [launch_text(SECOND)]


def test_a_withdrawn_file_is_not_ingested_again_by_mistake(store: Store, tmp_path: Path) -> None:
    take(store, write(tmp_path), run=None)
    withdraw_source(store, "vllm")
    again = take(store, tmp_path / NAME, run=None)
    assert (again.files, again.already, again.withdrawn) == (0, 0, 1)
    assert "1 withdrawn (not changed; to count them again, use registry runs restore)" in str(again)
    with pytest.raises(ConflictError, match="the database has different choices for this file; use --replace"):
        take(store, write(tmp_path, SECOND), run=None)
    assert chosen(store) == []
    replacing = take(store, tmp_path / NAME, run=None, replace=True)
    assert (replacing.files, replacing.replaced) == (1, 0)
    assert chosen(store) == [launch_text(SECOND)]
    assert not restore_source(store, "vllm")  # the file that counts took the place of the withdrawn one


def test_what_was_replaced_before_stays_replaced(store: Store, tmp_path: Path) -> None:
    take(store, write(tmp_path), run=None)
    take(store, write(tmp_path, SECOND), run=None, replace=True)
    withdraw_source(store, "vllm")
    restore_source(store, "vllm")
    assert chosen(store) == [launch_text(SECOND)]


def test_deleting_leaves_what_others_need(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "in", [config()], kernel="fused_moe_kernel"))
    before = all_rows(store)
    take(store, write(tmp_path), run=None)
    take(store, write(tmp_path, SECOND), run=None, replace=True)
    assert delete_source(store, "vllm") == 1
    kept = {"configs", "environments"}  # shared, and few
    assert {name: rows for name, rows in all_rows(store).items() if name not in kept} == {
        name: rows for name, rows in before.items() if name not in kept
    }
    with pytest.raises(SelectionError, match="no curated choices of 'vllm'; sources of curated choices: none"):
        describe_source(store, "vllm")
    assert take(store, tmp_path / NAME, run=None).files == 1  # as if it had never been there
    assert launch_text(SECOND) in chosen(store)


@on_sqlite
def test_the_commands(cli: Cli, database: str, tmp_path: Path) -> None:
    cli("ingest", write(tmp_path))
    assert "vllm: withdrawn; its curated choices no longer count" in cli("runs", "withdraw", "vllm", "--curated").stderr
    assert "vllm: already withdrawn" in cli("runs", "withdraw", "vllm", "--curated").stderr
    assert "vllm: restored; its curated choices count again" in cli("runs", "restore", "vllm", "--curated").stderr
    assert "vllm: not withdrawn" in cli("runs", "restore", "vllm", "--curated").stderr
    refused = cli("runs", "withdraw", "vllm", "--curated", "--rank", "0")
    assert (refused.exit_code, "curated choices have no rank" in refused.stderr) == (2, True)
    asked = cli("runs", "delete", "vllm", "--curated")
    assert asked.exit_code == 2
    assert "will be deleted: vllm: 1 file with 1 curated choice\n" in asked.stderr
    assert "vllm: deleted 1 file" in cli("runs", "delete", "vllm", "--curated", "--yes").stderr
