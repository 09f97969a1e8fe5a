"""A choice whose own time cannot be a measurement is an observation, whichever tool wrote it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.formats.tools.helpers import read
from tuning_registry.formats.tools.dejavu import DejavuStorage
from tuning_registry.formats.tools.fla import FlaFolder
from tuning_registry.formats.tools.flaggems import FlagGemsDatabase
from tuning_registry.formats.tools.flashinfer import FlashInferCache
from tuning_registry.formats.tools.trtllm import TrtllmCache
from tuning_registry.model.records import IMPOSSIBLE_TIME, Recording


def dejavu(folder: Path, time: Any) -> Recording:
    key = "('128', 'torch.bfloat16')"
    content = {
        "signature": "JITFunction(pkg:k)",
        "keys": ["D"],
        "cache": {key: "BLOCK: 8, num_warps: 2, num_stages: 3"},
        "timings": {key: [time]},
        "timings_data": {"labels": ["ms"]},
    }
    (folder / "cache.json").write_text(json.dumps(content))
    return read(DejavuStorage(), folder / "cache.json")[0]


def fla(folder: Path, time: Any) -> Recording:
    entry = {
        "autotune_key": [128, "torch.bfloat16"],
        "config": {"kwargs": {"BT": 8}, "num_warps": 1, "num_stages": 3},
        "best_timing": [time, time, time],
    }
    (folder / "k.json").write_text(json.dumps({"kernel_name": "k", "autotune_entries": {"0" * 32: entry}}))
    return read(FlaFolder(), folder / "k.json")[0]


def flaggems(folder: Path, time: Any) -> Recording:
    file = folder / "TunedConfig_nvidia_triton_3_6.db"
    keys, config = "key_0 INTEGER, key_1 TEXT", "BLOCK INTEGER, num_warps INTEGER, num_stages INTEGER"
    with sqlite3.connect(file) as connection:
        winners, timed = f"k_{'0' * 32}-{'1' * 32}", f"k_{'2' * 64}_benchmark_v2-{'1' * 32}"
        connection.execute(f'CREATE TABLE "{winners}" ({keys}, {config})')
        connection.execute(f"INSERT INTO \"{winners}\" VALUES (64, 'torch.float32', 8, 4, 3)")
        connection.execute(f'CREATE TABLE "{timed}" ({keys}, {config}, p50 REAL, p20 REAL, p80 REAL)')
        connection.execute(f"INSERT INTO \"{timed}\" VALUES (64, 'torch.float32', 8, 4, 3, ?, ?, ?)", [time] * 3)
    connection.close()
    return read(FlagGemsDatabase(), file)[0]


def flashinfer(folder: Path, time: Any) -> Recording:
    choice = ["Cutlass", 7, None, {"time_ms": time}]
    content = {"_metadata": {"flashinfer_version": "0.7.4"}, "('gemm', 'Cutlass', ((1, 2),), ())": choice}
    (folder / "rank_tp0_pp0_dp0.json").write_text(json.dumps(content))
    return read(FlashInferCache(), folder / "rank_tp0_pp0_dp0.json")[0]


def trtllm(folder: Path, time: Any) -> Recording:
    choice = {"runner_id": 0, "tactic": "3", "min_time": time}
    content = {"metadata": {"lib_version": "1.3.0"}, "rank_0": {"('gemm', 'Runner', '1', ((1, 2),))": choice}}
    (folder / "cache.json").write_text(json.dumps(content))
    return read(TrtllmCache(), folder / "cache.json")[0]


ALL = [dejavu, fla, flaggems, flashinfer, trtllm]


@pytest.mark.parametrize("time", [-1.0, 0, float("inf"), 1e-9, 1e12])
@pytest.mark.parametrize("tool", ALL)
def test_a_choice_with_an_impossible_time_is_an_observation(
    tmp_path: Path, tool: Callable[[Path, Any], Recording], time: float
) -> None:
    recording = tool(tmp_path, time)
    assert not any(keys for kernels in recording.votes.values() for keys in kernels.values())
    ((observation,),) = (keys.values() for kernels in recording.observations.values() for keys in kernels.values())
    assert observation.reason == IMPOSSIBLE_TIME


@pytest.mark.parametrize("tool", ALL)
def test_a_choice_with_a_time_is_a_choice(tmp_path: Path, tool: Callable[[Path, Any], Recording]) -> None:
    recording = tool(tmp_path, 0.5)
    assert [len(keys) for kernels in recording.votes.values() for keys in kernels.values()] == [1]
    assert not recording.observations
