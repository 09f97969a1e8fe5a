"""Parquet tables, read back with DuckDB and Polars."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet
import pytest

from tests.conftest import H200, config, write_ranks, write_recording
from tests.formats.tools.helpers import TOOLS
from tests.helpers import take
from tuning_registry.db import packing
from tuning_registry.db.store import Store
from tuning_registry.errors import PluginError
from tuning_registry.formats.tools import parquet
from tuning_registry.model.canonical import config_text
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election import timings
from tuning_registry.operations.election.winners import find_winners
from tuning_registry.operations.tables.outgoing import write_format

A, B = config(B=16), config(B=8)


def export(store: Store, folder: Path, **filters: Any) -> Path:
    write_format(store, Selection(**filters), "parquet", folder)
    assert sorted(file.name for file in folder.iterdir()) == ["entries.parquet", "timings.parquet", "votes.parquet"]
    return folder


def test_duckdb_finds_what_the_registry_elects(store: Store, tmp_path: Path) -> None:
    take(store, H200, triton="3.6.0")
    folder = export(store, tmp_path / "out")
    elected = {(one.arch, one.kernel, one.key, one.config): one for one in find_winners(store, Selection())}
    with duckdb.connect() as database:
        rows = database.execute(
            f"""SELECT e.arch, e.kernel, e.key, e.config, e.votes, e.total_votes, count(v.rank), e.triton, e.device
            FROM '{folder}/entries.parquet' e JOIN '{folder}/votes.parquet' v USING (arch, kernel, key, config)
            GROUP BY ALL"""
        ).fetchall()
        counted = database.execute(f"SELECT count(*), count(median_ms) FROM '{folder}/timings.parquet'").fetchone()
    assert {tuple(row[:4]) for row in rows} == elected.keys()
    for row in rows:
        winner = elected[row[:4]]
        assert row[4:] == (winner.choices[0].count, winner.votes, winner.choices[0].count, "3.6.0", None)
    assert counted == (3488, 3456)


def test_polars_reads_every_vote_and_time(store: Store, tmp_path: Path) -> None:
    take(store, *write_ranks(tmp_path / "in", [A, A, B]), triton="3.6.0", packages={"k": "1.0"})
    for rank, median in enumerate([1.0, 3.0, 2.0]):
        timed = {"sm90": {"k": {"M=1": [[A, [median, 0.5, 4.0]], [B, None]]}}}
        write_recording(tmp_path / "in" / f"timings.rank{rank}.json", timed)
    take(store, tmp_path / "in")
    folder = export(store, tmp_path / "out")
    (entry,) = pl.read_parquet(folder / "entries.parquet").to_dicts()
    assert entry == {
        "arch": "sm90", "device": None, "kernel": "k", "key": "M=1", "config": config_text(A), "triton": "3.6.0",
        "package": None, "version": None, "votes": 2, "total_votes": 3, "median_ms": 2.0, "p20_ms": 0.5, "p80_ms": 4.0,
    }  # fmt: skip
    votes = pl.read_parquet(folder / "votes.parquet").sort("rank")
    assert votes.select("run", "rank", "config").rows() == [
        ("demo", rank, config_text(one)) for rank, one in enumerate([A, A, B])
    ]
    times = pl.read_parquet(folder / "timings.parquet").sort("config", "rank")
    assert times.select("config", "rank", "median_ms", "p20_ms", "p80_ms").rows() == [
        *((config_text(A), rank, median, 0.5, 4.0) for rank, median in enumerate([1.0, 3.0, 2.0])),
        *((config_text(B), rank, None, None, None) for rank in range(3)),
    ]  # fmt: skip


def test_a_fleet_is_written_whole_and_in_groups(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its timings are packed, and queries read a sample of them."""
    monkeypatch.setattr(packing, "LEAST", 8)
    monkeypatch.setattr(timings, "MOST_RECORDINGS", 4)
    monkeypatch.setattr(parquet, "_GROUP_ROWS", 10)
    ranks = 20
    for rank in range(ranks):
        timed = {"sm90": {"k": {"M=1": [[A, [rank + 1.0] * 3], [B, None if rank == 7 else [0.5] * 3]]}}}
        write_recording(tmp_path / "in" / f"timings.rank{rank}.json", timed)
    take(store, *write_ranks(tmp_path / "in", [A] * ranks), tmp_path / "in")
    with store.reading() as reading:
        assert reading.row_counts()["packed_timings"]
    folder = export(store, tmp_path / "out")
    times = pl.read_parquet(folder / "timings.parquet").filter(pl.col("config") == config_text(A)).sort("rank")
    assert times.select("rank", "median_ms").rows() == [(rank, rank + 1.0) for rank in range(ranks)]
    written = pyarrow.parquet.ParquetFile(folder / "timings.parquet").metadata
    assert (written.num_rows, written.num_row_groups) == (2 * ranks, 4)
    assert written.row_group(0).column(0).compression == "ZSTD"


def test_percentiles_that_were_dropped_are_null(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nan = float("nan")
    monkeypatch.setattr(timings.Timings, "every", lambda *_: [(1, 1, (1.0, nan, nan))])
    write_recording(tmp_path / "in" / "timings.rank0.json", {"sm90": {"k": {"M=1": [[A, [1.0] * 3]]}}})
    take(store, *write_ranks(tmp_path / "in", [A]), tmp_path / "in")
    (row,) = pl.read_parquet(export(store, tmp_path / "out") / "timings.parquet").to_dicts()
    assert (row["median_ms"], row["p20_ms"], row["p80_ms"]) == (1.0, None, None)


def test_curated_choices_have_no_rank(store: Store, tmp_path: Path) -> None:
    take(store, TOOLS / "vllm", run=None)
    take(store, TOOLS / "vllm", run=None, source="fork")
    folder = export(store, tmp_path / "out", curated=True, device="NVIDIA_H200")
    votes = pl.read_parquet(folder / "votes.parquet")
    assert set(votes["rank"]) == {None}
    assert set(votes["device"]) == {"NVIDIA_H200"}
    assert len(votes) == 2 * len(pl.read_parquet(folder / "entries.parquet"))  # one row for each file's vote
    assert json.loads(votes["config"][0]).keys() == {"launch"}


def test_without_pyarrow_the_error_says_what_to_install(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(store, *write_ranks(tmp_path / "in", [A]))
    real = builtins.__import__

    def fail(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(PluginError, match="needs pyarrow, .*; run: pip install pyarrow"):
        write_format(store, Selection(), "parquet", tmp_path / "out")
    assert not (tmp_path / "out").exists()
