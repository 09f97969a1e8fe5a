"""The launch tables that vLLM and SGLang ship."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.tools.helpers import TOOLS, choices, read
from tuning_registry.errors import RecordingError
from tuning_registry.formats.plugin import ToolFile
from tuning_registry.formats.tools.sglang import SglangTables
from tuning_registry.formats.tools.vllm import VllmTables
from tuning_registry.model.kinds import fields_of

VLLM, SGLANG = VllmTables(), SglangTables()
MOE = "E=64,N=1536,device_name=NVIDIA_H100_80GB_HBM3.json"
CONFIG = {"BLOCK_SIZE_M": 16, "num_warps": 4, "num_stages": 3}


def write(folder: Path, name: str, content: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("file", sorted((TOOLS / "vllm").rglob("*.json")), ids=lambda file: file.name)
def test_every_file_of_vllm_gives_what_it_states(file: Path) -> None:
    (recording,) = read(VLLM, file)
    document = json.loads(file.read_text())
    version = document.pop("triton_version", None)
    assert [fields_of(text) for text in choices(recording).values()] == list(document.values())
    assert (recording.header.triton, recording.header.rank) == (version, None)
    assert recording.device in file.name
    assert not SGLANG.recognizes(ToolFile(file))


@pytest.mark.parametrize("file", sorted((TOOLS / "sglang").rglob("*.json")), ids=lambda file: str(file)[-60:])
def test_every_file_of_sglang_gives_what_it_states(file: Path) -> None:
    (recording,) = read(SGLANG, file)
    document = json.loads(file.read_text())
    assert [fields_of(text) for text in choices(recording).values()] == list(document.values())
    folder = file.parent.name
    assert recording.header.triton == (folder[7:].replace("_", ".") if folder.startswith("triton_") else None)
    assert not VLLM.recognizes(ToolFile(file))


def test_the_key_is_the_name_and_the_batch_size() -> None:
    file = (
        TOOLS
        / "vllm/w8a8_block/N=1536,K=1536,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8,block_shape=[128,128].json"
    )
    (recording,) = read(VLLM, file)
    assert (list(recording.votes), recording.device) == (["gfx942"], "AMD_Instinct_MI300X")
    key, text = next(iter(choices(recording).items()))
    assert key == "N=1536|K=1536|dtype=fp8_w8a8|block_shape=[128,128]|M=1"
    assert "num_stages" not in fields_of(text)  # the file has none, so the config has none


def test_the_second_product_has_keys_of_its_own() -> None:
    folder = TOOLS / "sglang/fused_moe/configs/triton_3_5_1"
    up, down = (
        read(SGLANG, folder / f"E=257,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128]{end}.json")[0]
        for end in ("", "_down")
    )
    assert not choices(up).keys() & choices(down).keys()
    assert "E=257|N=256|dtype=fp8_w8a8|block_shape=[128,128]|down=True|M=1" in choices(down)


def test_the_same_name_in_both_projects_gives_the_same_entries() -> None:
    (ours,) = read(
        VLLM, TOOLS / "vllm/w8a8_block/N=24576,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"
    )
    (theirs,) = read(
        SGLANG,
        TOOLS / "sglang/gemm_configs/N=24576,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json",
    )
    assert (ours.device, list(ours.votes), choices(ours).keys()) == (
        theirs.device,
        list(theirs.votes),
        choices(theirs).keys(),
    )
    assert sum(choices(ours)[key] != choices(theirs)[key] for key in choices(ours)) == 14


def test_the_mamba_keys_count_batch_times_heads() -> None:
    file = next((TOOLS / "vllm/selective_state_update").glob("*H200*"))
    (recording,) = read(VLLM, file)
    assert list(recording.votes["sm90"]) == ["selective_state_update"]
    assert "headdim=64|dstate=128|cache_dtype=float32|effective_batch=1024" in choices(recording)


def test_what_is_not_stated_stays_unstated(tmp_path: Path) -> None:
    (recording,) = read(VLLM, write(tmp_path, "E=8,N=64,device_name=.json", {"1": CONFIG}))
    assert (recording.device, list(recording.votes), recording.header.triton) == ("", ["unknown"], None)
    assert recording.origin is not None
    assert (recording.origin.project, recording.origin.version) == ("", "")


def test_the_project_and_its_version_are_those_of_the_place(tmp_path: Path) -> None:
    (tmp_path / "vllm-0.33.0.dist-info").mkdir()
    (recording,) = read(VLLM, write(tmp_path / "vllm" / "configs", MOE, {"1": CONFIG}))
    assert recording.origin is not None
    assert (recording.origin.project, recording.origin.version, recording.origin.file) == ("vllm", "0.33.0", MOE)


@pytest.mark.parametrize(
    ("folder", "name", "ours", "theirs"),
    [
        ("plain", MOE, True, False),
        ("sglang", MOE, False, True),
        ("triton_3_6_0", MOE, False, True),
        ("vllm/triton_3_6_0", MOE, True, False),
        ("plain", "E=8,N=64,device_name=X,dtype=fp8_w8a8,block_shape=[128, 128].json", False, True),
        ("plain", "E=8,N=64,device_name=X,dtype=fp8_w8a8,block_shape=[128,128].json", True, False),
        ("plain", "E=8,N=64.json", False, False),
        ("plain", "E=8,E=8,N=64,device_name=X.json", False, False),
        ("plain", "N=64,E=8,device_name=X.json", False, False),
        ("plain", "package.json", False, False),
    ],
)
def test_whose_file_it_is(tmp_path: Path, folder: str, name: str, ours: bool, theirs: bool) -> None:
    file = ToolFile(write(tmp_path / folder, name, {"1": CONFIG}))
    assert (VLLM.recognizes(file), SGLANG.recognizes(file)) == (ours, theirs)


@pytest.mark.parametrize("content", [[], {}, 3, {"1": [1]}, {"1": "x"}, "{", '{"1": {}, "1": {}}'])
def test_other_documents_are_not_recognized(tmp_path: Path, content: Any) -> None:
    assert not VLLM.recognizes(ToolFile(write(tmp_path, MOE, content)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"1.5": CONFIG}, "at 1.5: expected an integer of at most 18 digits (M)"),
        ({"-1": CONFIG}, "at -1: expected an integer"),
        ({"1" * 5000: CONFIG}, "expected an integer of at most 18 digits"),
        ({"1": {}}, "at 1: expected an object of launch parameters, found an empty object"),
        ({"1": CONFIG, "01": CONFIG}, "at 01: this batch size appears twice"),
        ({"triton_version": 3, "1": CONFIG}, "at triton_version: expected a string, found the integer 3"),
        ('{"1": {"num_warps": NaN}}', "at 1/num_warps: nan is not a finite number"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path: Path, content: Any, said: str) -> None:
    file = ToolFile(write(tmp_path, MOE, content))
    with pytest.raises(RecordingError) as found:
        list(VLLM.read([file]))
    assert str(found.value).startswith(str(file.path)[:200])
    assert said in str(found.value)


def test_batch_sizes_without_a_config_are_left_out(tmp_path: Path) -> None:
    (recording,) = read(SGLANG, write(tmp_path / "sglang", MOE, {"1": CONFIG, "512": None}))
    assert list(choices(recording)) == ["E=64|N=1536|M=1"]
