"""Caches of TensorRT-LLM's autotuner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.tools.helpers import TOOLS, read
from tuning_registry.errors import RecordingError
from tuning_registry.formats.plugin import ToolFile
from tuning_registry.formats.tools.trtllm import TrtllmCache
from tuning_registry.model.kinds import fields_of
from tuning_registry.model.records import Recording

TRTLLM = TrtllmCache()
ALL_RANKS = TOOLS / "trtllm" / "autotuner_cache.json"
OLD = TOOLS / "trtllm" / "old-per-rank"
METADATA = {"lib_version": "1.3.0", "device_name": "NVIDIA B200", "device_capability": [10, 0]}
KEY = "('trtllm::gemm', 'Runner', '(torch.bfloat16,)', ((1, 7168), (0,)))"
CHOICE = {"runner_id": 0, "tactic": "3", "min_time": 0.5}


def cache(entry: Any = None, key: str = KEY, **more: Any) -> dict[str, Any]:
    return {"metadata": METADATA, "rank_0": {key: CHOICE if entry is None else entry}} | more


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def by_entry(recording: Recording) -> dict[tuple[str, str], str]:
    (kernels,) = recording.votes.values()
    return {(kernel, key): text for kernel, entries in kernels.items() for key, text in entries.items()}


def test_every_rank_of_the_file_votes_and_ranks_meet() -> None:
    recordings = read(TRTLLM, ALL_RANKS)
    assert [recording.header.rank for recording in recordings] == [0, 1, 2, 3]
    chosen = [by_entry(recording) for recording in recordings]
    slots = chosen[0].keys()
    assert len(slots) == 16
    assert all(one.keys() == slots for one in chosen)
    disagree = [slot for slot in slots if len({one[slot] for one in chosen}) > 1]
    assert len(disagree) == 12
    assert sum(len({fields_of(one[slot])["runner"] for one in chosen}) > 1 for slot in disagree) == 2


def test_what_the_metadata_states() -> None:
    recording = read(TRTLLM, ALL_RANKS)[0]
    assert (recording.device, list(recording.votes)) == ("NVIDIA_B200", ["sm100"])
    assert recording.header.packages == {"tensorrt-llm": "1.3.0rc4"}
    assert (recording.header.triton, recording.header.world_size) == (None, None)
    times = [
        timing.median_ms for keys in recording.timings["sm100"].values() for timed in keys.values() for timing in timed
    ]
    document = json.loads(ALL_RANKS.read_text())
    assert sorted(time for time in times if time is not None) == sorted(
        entry["min_time"] for entry in document["rank_0"].values()
    )


def test_tactics_are_values_not_texts(tmp_path: Path) -> None:
    for text, value in [
        ("3", 3),
        ("-1", -1),
        ("[8, 17]", [8, 17]),
        ("((128, 64), (1, 1), True)", [[128, 64], [1, 1], True]),
    ]:
        (recording,) = read(TRTLLM, write(tmp_path / "c.json", cache(CHOICE | {"tactic": text})))
        assert [fields_of(one) for one in by_entry(recording).values()] == [{"runner": "Runner", "tactic": value}]


def test_older_files_have_the_rank_in_their_name() -> None:
    recordings = read(TRTLLM, *sorted(OLD.glob("*.json")))
    assert [recording.header.rank for recording in recordings] == [0, 1]
    assert [list(recording.votes) for recording in recordings] == [["sm90"]] * 2
    one, other = map(by_entry, recordings)
    assert one.keys() == other.keys()
    assert len(one) == len(json.loads((OLD / "tuning.rank0.json").read_text())["cache_data"])


def test_a_file_without_a_rank_is_not_given_one(tmp_path: Path) -> None:
    content = {"metadata": METADATA, "cache_data": {KEY: CHOICE}}
    (recording,) = read(TRTLLM, write(tmp_path / "tuning.json", content))
    assert recording.header.rank is None


def test_a_rank_may_be_missing_and_may_come_late(tmp_path: Path) -> None:
    content = {"metadata": METADATA, "rank_3": {KEY: CHOICE}, "rank_1": {}}
    recordings = read(TRTLLM, write(tmp_path / "c.json", content))
    assert [(one.header.rank, bool(one.votes)) for one in recordings] == [(3, True), (1, False)]


def test_a_time_is_optional(tmp_path: Path) -> None:
    (recording,) = read(TRTLLM, write(tmp_path / "c.json", json.dumps(cache()).replace("0.5", "null")))
    assert (len(recording.votes), recording.timings) == (1, {})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (cache(metadata=[]), "at metadata: expected an object, found an array"),
        (cache(metadata={"lib_version": 3}), "at metadata/lib_version: expected a string, found the integer 3"),
        (cache(metadata=METADATA | {"device_capability": [10, True]}), "device_capability: expected [major, minor]"),
        (cache(metadata=METADATA | {"device_capability": "sm90"}), "expected [major, minor], found the string 'sm90'"),
        (cache(rank_0=[]), "at rank_0: expected an object of choices, found an array"),
        (cache(other={}), "at other: expected metadata, cache_data or rank_N"),
        (cache(3), "expected an object with tactic and min_time, found the integer 3"),
        (cache({"min_time": 1}), "tactic: expected an integer or an array, found null"),
        (cache(CHOICE | {"tactic": "__import__('os').system('x')"}), "tactic: expected a string in quotes"),
        (cache(CHOICE | {"tactic": "'x'"}), "tactic: expected an integer or an array, found the string 'x'"),
        (cache(CHOICE | {"tactic": "(" * 5000}), "tactic: nested more than 32 levels deep"),
        (cache(CHOICE | {"min_time": "1"}), "min_time: expected milliseconds or null, found the string '1'"),
        (cache(key="x"), "at rank_0/x: expected a tuple as Python writes it"),
        (cache(key="('a', 'b')"), "the cache key has 2 parts"),
        (cache(key="('', 'b', '', ())"), "the op or the runner has no name"),
        (cache(key="('a', 'b', 1, 2)"), "expected a tuple as Python writes it, found the string '2'"),
        (cache(rank_99999999999={}), "at rank_99999999999: expected metadata"),
        (cache(rank_4294967296={}), "rank_4294967296"),
    ],
)
def test_damaged_caches_are_refused_by_name(tmp_path: Path, content: Any, said: str) -> None:
    file = ToolFile(write(tmp_path / "c.json", content))
    assert TRTLLM.recognizes(file)
    with pytest.raises(RecordingError) as found:
        list(TRTLLM.read([file]))
    assert str(found.value).startswith(f"{file.path}: ")
    assert said in str(found.value)


@pytest.mark.parametrize(
    "content", [[], {}, {"metadata": {}}, {"metadata": {"name": "x"}, "rank": 1}, {"rank_0": {}}, "{"]
)
def test_other_documents_are_not_recognized(tmp_path: Path, content: Any) -> None:
    assert not TRTLLM.recognizes(ToolFile(write(tmp_path / "c.json", content)))
