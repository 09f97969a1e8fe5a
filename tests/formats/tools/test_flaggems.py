"""The database of FlagGems' tuner."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.formats.tools.helpers import TOOLS, read
from tuning_registry.errors import RecordingError
from tuning_registry.formats.plugin import ToolFile
from tuning_registry.formats.tools.flaggems import FlagGemsDatabase
from tuning_registry.model.canonical import load_config

FLAGGEMS = FlagGemsDatabase()
REAL = TOOLS / "flaggems" / "TunedConfig_nvidia_triton_3_6.db"
NAME = "TunedConfig_nvidia_triton_3_6.db"
WINNERS = f"k_{'0' * 32}-{'1' * 32}"
TIMES = f"k_{'0' * 64}_benchmark_v2-{'1' * 32}"
ROW = {"key_0": 64, "key_1": "torch.float16", "BLOCK": 32, "num_warps": 4, "num_ctas": 1, "num_stages": 3}
TIMED = ROW | {"key_2": "triton_do_bench", "key_3": 5, "p50": 2.0, "p20": 1.0, "p80": 3.0}


def make(path: Path, **tables: list[dict[str, Any]]) -> ToolFile:
    connection = sqlite3.connect(path)
    for table, rows in tables.items():
        columns = ", ".join(f'"{name}"' for name in rows[0])
        connection.execute(f'CREATE TABLE "{table}" ({columns})')
        for row in rows:
            connection.execute(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(row))})', list(row.values()))
    connection.commit()
    connection.close()
    return ToolFile(path)


def test_every_winner_and_candidate_of_a_real_database() -> None:
    (recording,) = read(FLAGGEMS, REAL)
    (kernels,) = recording.votes.values()
    assert {kernel: len(entries) for kernel, entries in kernels.items()} == {
        "mm_kernel_general": 3,
        "softmax_kernel_non_inner": 2,
    }
    key, text = next(iter(kernels["mm_kernel_general"].items()))
    assert key.startswith("?=")
    assert key.endswith("|torch.bfloat16|torch.bfloat16|torch.bfloat16")
    assert set(load_config(text)["kwargs"]) == {"BLOCK_M", "BLOCK_N", "BLOCK_K"}
    (timed,) = recording.timings.values()
    counts = {kernel: sum(map(len, entries.values())) for kernel, entries in timed.items()}
    assert counts == {"mm_kernel_general": 24, "softmax_kernel_non_inner": 12}
    assert (
        "?=512|?=4096|?=4096|?=4096|?=4096|torch.bfloat16|torch.bfloat16|torch.bfloat16" in timed["mm_kernel_general"]
    )
    assert all("do_bench" not in key for entries in timed.values() for key in entries)


def test_what_is_not_stated_stays_unstated() -> None:
    (recording,) = read(FLAGGEMS, REAL)
    assert (recording.device, list(recording.votes), recording.header.rank, recording.header.triton) == (
        "", ["unknown"], None, None,
    )  # fmt: skip


def test_the_file_is_not_changed(tmp_path: Path) -> None:
    path = Path(shutil.copy(REAL, tmp_path / NAME))
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    read(FLAGGEMS, path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "end", ["", "_flagtune_default", "_benchmark_0123456789ab", "_flagtune_x_benchmark_0123456789ab"]
)
def test_names_of_winners_tables(tmp_path: Path, end: str) -> None:
    (recording,) = FLAGGEMS.read([make(tmp_path / NAME, **{f"my_k_{'a' * 32}{end}-{'b' * 32}": [ROW]})])
    assert list(recording.votes["unknown"]) == ["my_k"]
    assert list(recording.votes["unknown"]["my_k"]) == ["?=64|torch.float16"]


def test_times_keep_their_percentiles_and_drop_the_protocol(tmp_path: Path) -> None:
    rows = [TIMED, TIMED | {"BLOCK": 64, "p50": None}]
    (recording,) = FLAGGEMS.read([make(tmp_path / NAME, **{TIMES: rows})])
    (timed,) = recording.timings["unknown"]["k"].values()
    assert [tuple(timing)[1:] for timing in timed] == [(2.0, 1.0, 3.0), (None, None, None)]
    assert list(recording.timings["unknown"]["k"]) == ["?=64|torch.float16"]


def test_keys_without_dtypes_end_at_the_timer(tmp_path: Path) -> None:
    (recording,) = FLAGGEMS.read([make(tmp_path / NAME, **{TIMES: [TIMED | {"key_1": "fp8"}]})])
    assert list(recording.timings["unknown"]["k"]) == ["?=64|?=fp8"]


def test_columns_are_ordered_by_number(tmp_path: Path) -> None:
    row = {f"key_{number}": number for number in (10, 2, 0, 1)} | {"num_warps": 4, "num_stages": 3}
    (recording,) = FLAGGEMS.read([make(tmp_path / NAME, **{WINNERS: [row]})])
    assert list(recording.votes["unknown"]["k"]) == ["?=0|?=1|?=2|?=10"]


def test_long_keys_keep_their_digest(tmp_path: Path) -> None:
    row = {"key_hash": "ab12", "key_blob": "1_2", "num_warps": 4, "num_stages": 3}
    (recording,) = FLAGGEMS.read([make(tmp_path / NAME, **{WINNERS: [row]})])
    assert list(recording.votes["unknown"]["k"]) == ["key_hash=ab12"]


def test_tables_of_two_versions_of_a_kernel_lose_nothing(tmp_path: Path) -> None:
    other = WINNERS.replace("1", "2")
    tables = {WINNERS: [ROW], other: [ROW | {"BLOCK": 64}], TIMES: [TIMED, TIMED | {"key_3": 25}]}
    first, second = FLAGGEMS.read([make(tmp_path / NAME, **tables)])
    blocks = [
        load_config(text)["kwargs"]["BLOCK"] for one in (first, second) for text in one.votes["unknown"]["k"].values()
    ]
    assert blocks == [32, 64]
    assert [len(one.timings["unknown"]["k"]) for one in (first, second)] == [1, 1]
    assert first.origin != second.origin


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"other": [ROW]}, "this database has no table of FlagGems"),
        ({WINNERS: [ROW, ROW]}, f"at {WINNERS}/row 2: another row has the same key"),
        ({WINNERS: [ROW | {"key_0": None}]}, "row 1/key: expected a number or a string, found null"),
        ({WINNERS: [ROW | {"key_0": b"x"}]}, "row 1/key: expected a number or a string, found binary data"),
        ({WINNERS: [ROW | {"BLOCK": b"x"}]}, "row 1/BLOCK: expected a number or a string, found binary data"),
        ({WINNERS: [ROW | {"num_warps": "4"}]}, "row 1/num_warps: expected an integer or null"),
        ({WINNERS: [{"key_0": 1, "num_stages": 3}]}, "required config field 'num_warps' is missing"),
        ({WINNERS: [{"key_hash": "a b", "num_warps": 4, "num_stages": 3}]}, "key_hash: expected a digest"),
        ({TIMES: [TIMED | {"p50": "x"}]}, "expected milliseconds, or null for a failed candidate"),
        ({TIMES: [TIMED, TIMED]}, "one candidate is timed twice"),
    ],
)
def test_damaged_databases_are_refused_by_name(tmp_path: Path, tables: Any, said: str) -> None:
    file = make(tmp_path / NAME, **tables)
    assert FLAGGEMS.recognizes(file)
    with pytest.raises(RecordingError) as found:
        list(FLAGGEMS.read([file]))
    assert str(found.value).startswith(f"{file.path}: ")
    assert said in str(found.value)


def test_a_cut_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(REAL.read_bytes()[:9000])
    assert FLAGGEMS.recognizes(ToolFile(path))
    with pytest.raises(RecordingError, match=f"{NAME}: cannot be read"):
        list(FLAGGEMS.read([ToolFile(path)]))


def test_a_view_is_not_a_table(tmp_path: Path) -> None:
    path = make(tmp_path / NAME, other=[ROW]).path
    connection = sqlite3.connect(str(path))
    endless = "WITH RECURSIVE n(key_0) AS (SELECT 1 UNION ALL SELECT key_0 + 1 FROM n) SELECT * FROM n"
    connection.execute(f'CREATE VIEW "{WINNERS}" AS {endless}')
    connection.close()
    with pytest.raises(RecordingError, match="has no table of FlagGems"):
        list(FLAGGEMS.read([ToolFile(path)]))


def test_other_files_are_not_recognized(tmp_path: Path) -> None:
    assert not FLAGGEMS.recognizes(make(tmp_path / "registry.db", runs=[{"id": 1}]))
    (tmp_path / NAME).write_text("{}")
    assert not FLAGGEMS.recognizes(ToolFile(tmp_path / NAME))
    assert FLAGGEMS.recognizes(make(tmp_path / "own.db", **{WINNERS: [ROW]}))
    assert not FLAGGEMS.has_name("registry.db")
