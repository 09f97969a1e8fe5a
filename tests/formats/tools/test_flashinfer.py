"""Caches of FlashInfer's autotuner, and those of SGLang's and vLLM's ranks."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.tools.helpers import TOOLS, read
from tuning_registry.errors import RecordingError
from tuning_registry.formats.plugin import ToolFile
from tuning_registry.formats.tools.flashinfer import FlashInferCache
from tuning_registry.model.kinds import fields_of
from tuning_registry.model.records import Recording

FLASHINFER = FlashInferCache()
V1 = TOOLS / "flashinfer" / "v1"
V2 = TOOLS / "flashinfer" / "v2root" / "v2"
RANKS = TOOLS / "flashinfer" / "sglang" / "0.7.4" / "sm100" / "a7a7a8a50809e4e0"
METADATA = {"flashinfer_version": "0.7.4", "gpu": "NVIDIA B200"}
KEY = "('fp4_gemm', 'Cutlass', ((1, 7168), (0,)), (torch.bfloat16, True))"
SHAPE = "profile=((1, 7168), (0,))"
V2_ENTRY = {"key": KEY, "runner": "Cutlass", "tactic": 1}


def v1(entries: Any = None, **more: Any) -> dict[str, Any]:
    return {"_metadata": METADATA, **({KEY: ["Cutlass", 7]} if entries is None else entries), **more}


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def by_entry(recording: Recording) -> dict[tuple[str, str], str]:
    (kernels,) = recording.votes.values()
    return {(kernel, key): text for kernel, entries in kernels.items() for key, text in entries.items()}


@pytest.mark.parametrize("version", ["0.6.9_H100", "0.7.4_B200"])
def test_every_choice_of_a_v1_cache_is_read(version: str) -> None:
    file = V1 / f"flashinfer-{version}.json"
    (recording,) = read(FLASHINFER, file)
    entries = [value for key, value in json.loads(file.read_text()).items() if not key.startswith("_")]
    found = [fields_of(text) for text in by_entry(recording).values()]
    assert len(entries) == 30
    assert sorted((one["runner"], str(one["tactic"])) for one in found) == sorted((v[0], str(v[1])) for v in entries)
    assert recording.header.rank is None
    assert recording.header.packages == {"flashinfer-python": version[:5]}
    timed = [one for kernels in recording.timings.values() for keys in kernels.values() for one in keys.values()]
    times = [timing.median_ms for one in timed for timing in one]
    assert sorted(time for time in times if time is not None) == sorted(
        value[3]["time_ms"] for value in entries if len(value) > 3
    )
    assert all(("extras" in one) == (version == "0.7.4_B200") for one in found)


def test_device_and_architecture_are_those_of_the_metadata() -> None:
    (recording,) = read(FLASHINFER, V1 / "flashinfer-0.6.9_H100.json")
    assert (recording.device, list(recording.votes)) == ("NVIDIA_H100_80GB_HBM3", ["sm90"])
    assert recording.header.device_name == "NVIDIA H100 80GB HBM3"
    assert recording.header.hardware.cuda == "13.0"


def test_ranks_meet_although_their_cache_keys_differ() -> None:
    recordings = read(FLASHINFER, *sorted(RANKS.glob("*.json")))
    assert [recording.header.rank for recording in recordings] == [0, 1, 2, 3]
    chosen = [by_entry(recording) for recording in recordings]
    slots = set().union(*chosen)
    assert len(slots) == 24
    assert all(slots == one.keys() for one in chosen)
    disagree = [slot for slot in slots if len({one[slot] for one in chosen}) > 1]
    assert len(disagree) == 18
    runners = [slot for slot in disagree if len({fields_of(one[slot])["runner"] for one in chosen}) > 1]
    assert len(runners) == 2


def test_a_v2_environment_is_one_set_of_choices_without_times() -> None:
    files = sorted(V2.rglob("*.json"))
    (recording,) = read(FLASHINFER, *files)
    entries = [json.loads(file.read_text()) for file in files if file.name != "manifest.json"]
    found = by_entry(recording)
    assert len(found) == len(entries) == 9
    assert sorted(str(fields_of(text)["tactic"]) for text in found.values()) == sorted(
        str(e["tactic"]) for e in entries
    )
    assert (recording.device, list(recording.votes), recording.timings) == ("NVIDIA_B200", ["sm100"], {})
    assert recording.origin is not None
    assert (recording.origin.version, recording.origin.file) == ("0.7.4", "bacc9c4540f17b70")
    (v1_recording,) = read(FLASHINFER, V1 / "flashinfer-0.7.4_B200.json")
    assert found.keys() < by_entry(v1_recording).keys()


def test_vllm_names_ranks_too(tmp_path: Path) -> None:
    folder = tmp_path / "0.7.4" / "100a" / ("0" * 64)
    content = {**v1(), "_metadata": {"flashinfer_version": "0.7.4", "gpu": "*"}}
    files = [write(folder / f"autotune_configs_dp0_rank{rank}.json", content) for rank in (0, 3)]
    recordings = read(FLASHINFER, *files)
    assert [recording.header.rank for recording in recordings] == [0, 3]
    assert [(one.device, list(one.votes)) for one in recordings] == [("", ["sm100"])] * 2  # that of the folder


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (["tp0_pp0_dp0", "tp1_pp0_dp0"], [0, 1]),
        (["tp0_pp0_dp0", "tp1_pp0_dp0", "tp0_pp1_dp0", "tp1_pp1_dp0"], [0, 1, 2, 3]),
        (["tp0_pp0_dp0", "tp1_pp0_dp0", "tp2_pp0_dp1", "tp3_pp0_dp1"], [0, 1, 2, 3]),  # data-parallel attention
        (["tp0_pp0_dp0", "tp1_pp0_dp0", "tp0_pp0_dp1", "tp1_pp0_dp1"], [0, 1, 2, 3]),  # two replicas
        (["tp0_pp0_dp0_gpuabc", "tp1_pp0_dp0_gpudef"], [0, 1]),
    ],
)
def test_ranks_are_numbered_as_the_job_numbers_them(tmp_path: Path, names: list[str], ranks: list[int]) -> None:
    recordings = read(FLASHINFER, *[write(tmp_path / f"rank_{name}.json", v1()) for name in names])
    assert [recording.header.rank for recording in recordings] == ranks
    assert [one.header.device_uuid for one in recordings if "gpu" in names[0]] in ([], ["abc", "def"])


def test_files_of_two_runs_are_refused(tmp_path: Path) -> None:
    files = [ToolFile(write(tmp_path / f"rank_tp0_pp0_dp0.{time}.abc.json", v1())) for time in (1, 2)]
    with pytest.raises(RecordingError, match="1.abc.json has the same rank; ingest the caches of one run at a time"):
        list(FLASHINFER.read(files))


def test_extras_with_the_rank_do_not_make_ranks_disagree(tmp_path: Path) -> None:
    files = [
        write(tmp_path / f"rank_tp{rank}_pp0_dp0.json", v1({f"('moe', 'MoE', ((1, 8),), (8, {rank}))": ["MoE", 3]}))
        for rank in range(2)
    ]
    one, other = map(by_entry, read(FLASHINFER, *files))
    assert one == other
    assert list(one) == [("flashinfer.moe", "profile=((1, 8),)")]


def test_one_cache_with_several_choices_for_a_profile_keeps_all(tmp_path: Path) -> None:
    entries = {
        "('a', 'X', ((1,),), (1,))": ["X", 1],
        "('a', 'X', ((1,),), (2,))": ["X", 2],
        "('b', 'X', ((1,),), ())": ["X", 1],
        "('b', 'Y', ((1,),), ())": ["Y", 1],
    }
    (recording,) = read(FLASHINFER, write(tmp_path / "c.json", v1(entries)))
    assert list(by_entry(recording)) == [
        ("flashinfer.a", "profile=((1,),)|extras=(1,)"),
        ("flashinfer.a", "profile=((1,),)|extras=(2,)"),
        ("flashinfer.b", "profile=((1,),)|runner=X"),
        ("flashinfer.b", "profile=((1,),)|runner=Y"),
    ]


def test_a_time_is_optional(tmp_path: Path) -> None:
    file = write(tmp_path / "c.json", v1({KEY: ["Cutlass", -1, None, {"time_ms": None, "runner_up_ms": None}]}))
    (recording,) = read(FLASHINFER, file)
    assert not recording.timings
    assert fields_of(by_entry(recording)["flashinfer.fp4_gemm", SHAPE])["tactic"] == -1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (v1(_metadata=[]), "at _metadata: expected an object, found an array"),
        (
            v1(_metadata={"flashinfer_version": 7}),
            "at _metadata/flashinfer_version: expected a string, found the integer 7",
        ),
        (v1({KEY: "x"}), "expected [runner, tactic] with an optional policy and times, found the string 'x'"),
        (v1({KEY: ["Cutlass"]}), "expected [runner, tactic]"),
        (v1({KEY: ["Other", 1]}), "the runner is the string 'Other', but the key is for 'Cutlass'"),
        (v1({KEY: [None, 1]}), "runner: expected a string, found null"),
        (v1({KEY: ["Cutlass", {"a": 1}]}), "tactic: expected an integer or an array, found an object"),
        (v1({KEY: ["Cutlass", True]}), "tactic: expected an integer or an array, found true"),
        (v1({KEY: ["Cutlass", [float("nan")]]}), "nan is not a finite number"),
        (v1({KEY: ["Cutlass", 1, [], 3]}), "expected an object of times, found the integer 3"),
        (
            v1({KEY: ["Cutlass", 1, [], {"time_ms": "1"}]}),
            "time_ms: expected milliseconds or null, found the string '1'",
        ),
        (v1({KEY.replace("'fp4_gemm'", "__import__('os')"): ["Cutlass", 1]}), "expected a string in quotes"),
        (v1({KEY.replace("'fp4_gemm'", "''"): ["Cutlass", 1]}), "the op or the runner has no name"),
        (v1({KEY[:-1]: ["Cutlass", 1]}), "a bracket or quote is not closed in"),
        (v1({KEY + ")": ["Cutlass", 1]}), "a bracket or quote is not closed in"),
        (v1({KEY.replace("'Cutlass'", "'Cutlass"): ["Cutlass", 1]}), "a bracket or quote is not closed in"),
        (v1({"(" * 5000: ["Cutlass", 1]}), "nested more than 32 levels deep"),
        (v1({"('a', 'b')": ["b", 1]}), "the cache key has 2 parts"),
        (v1({"x": ["b", 1], KEY: ["Cutlass", 1]}), "at x: expected a tuple"),
    ],
)
def test_damaged_caches_are_refused_by_name(tmp_path: Path, content: Any, said: str) -> None:
    file = ToolFile(write(tmp_path / "c.json", content))
    assert FLASHINFER.recognizes(file)
    with pytest.raises(RecordingError) as found:
        list(FLASHINFER.read([file]))
    assert str(found.value).startswith(f"{file.path}: ")
    assert said in str(found.value)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (V2_ENTRY | {"key": 3}, "at key: expected the text of a cache key, found the integer 3"),
        (V2_ENTRY | {"key": KEY + " "}, "at key: the file's name is not that of its key"),
        (V2_ENTRY | {"tactic": None}, "at tactic: expected an integer or an array, found null"),
        (V2_ENTRY | {"runner": "x"}, "the runner is the string 'x', but the key is for 'Cutlass'"),
    ],
)
def test_damaged_entries_are_refused_by_name(tmp_path: Path, entry: Any, said: str) -> None:
    folder = tmp_path / "0123456789abcdef"
    manifest = write(folder / "manifest.json", {"cache_schema": "v2", **METADATA})
    name = hashlib.sha256(KEY.encode()).hexdigest()[:24]
    good = write(folder / "entries" / f"{name}.json", V2_ENTRY)
    (recording,) = read(FLASHINFER, manifest, good)
    assert list(by_entry(recording)) == [("flashinfer.fp4_gemm", SHAPE)]
    file = ToolFile(write(good, entry))
    with pytest.raises(RecordingError) as found:
        list(FLASHINFER.read([ToolFile(manifest), file]))
    assert str(found.value).startswith(f"{file.path}: ")
    assert said in str(found.value)


@pytest.mark.parametrize("content", [[], {}, {"_metadata": {"a": 1}}, {"kernels": {}}, {"key": 1}, "{", "3"])
def test_other_documents_are_not_recognized(tmp_path: Path, content: Any) -> None:
    assert not FLASHINFER.recognizes(ToolFile(write(tmp_path / "c.json", content)))
