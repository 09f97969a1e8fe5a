"""Tuned files for vLLM and SGLang, read back with the functions of these tools."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.formats.tools.helpers import read
from tests.formats.tools.loaders import read_with_sglang, read_with_vllm, shipped_files
from tuning_registry.errors import SelectionError
from tuning_registry.formats.files import write_together
from tuning_registry.formats.plugin import ElectedEntry, Format, Outgoing
from tuning_registry.formats.tools.sglang import SglangTables
from tuning_registry.formats.tools.vllm import VllmTables
from tuning_registry.model.canonical import config_text
from tuning_registry.model.kinds import launch_text
from tuning_registry.registry import Registry

VLLM, SGLANG = VllmTables(), SglangTables()
CONFIG = {"BLOCK_SIZE_M": 16, "num_warps": 4, "num_stages": 3}
MOE = "E=8|N=64|dtype=fp8_w8a8|block_shape=[128,128]|M="
GEMM = "N=64|K=128|dtype=fp8_w8a8|block_shape=[128,128]|M="


def elected(key: str, config: Any = CONFIG, **changes: Any) -> ElectedEntry:
    given = {"arch": "sm90", "device": "NVIDIA_H200", "kernel": "fused_moe_kernel", "triton": "3.6.0"} | changes
    return ElectedEntry(key=key, config=launch_text(config), **given)


def gemm(key: str, config: Any = CONFIG, **changes: Any) -> ElectedEntry:
    return elected(key, config, **{"kernel": "w8a8_block_fp8_matmul"} | changes)


def write(one: Format, folder: Path, *entries: ElectedEntry) -> Path:
    files = one.write(Outgoing(entries=entries)).files
    write_together({folder / name: content for name, content in files.items()})
    return folder


def parts_of(name: str) -> dict[str, str]:
    """The parts of a file's name."""
    stem = name.removesuffix(".json")
    ending = {"down": "True"} if stem.endswith("_down") else {}
    return dict(part.split("=", 1) for part in re.split(r",(?![^\[]*\])", stem.removesuffix("_down"))) | ending


def export(project: str, files: list[Path], out: Path) -> None:
    with Registry(":memory:") as registry:
        registry.ingest(files, format=project)
        registry.write_format(project, out, curated=True)


def test_vllm_reads_what_its_files_state(tmp_path: Path) -> None:
    files = shipped_files("vllm", tmp_path / "wheel")
    export("vllm", files, tmp_path / "out")
    for file in files:
        name = parts_of(file.name)
        if "K" in name and name["dtype"] == "int8_w8a8":
            continue  # vLLM 0.33 ships such files and has no function that reads them
        theirs = json.loads(file.read_text())
        theirs.pop("triton_version", None)
        found = read_with_vllm(tmp_path / "out", name, name["device_name"].replace("_", " "))
        assert (file.name, list((found or {}).items())) == (
            file.name, sorted((int(size), config) for size, config in theirs.items()))  # fmt: skip


def test_sglang_reads_what_its_files_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [
        file
        for file in shipped_files("sglang", tmp_path / "wheel")
        if "_channelwise" not in file.name and parts_of(file.name)["device_name"]
    ]
    export("sglang", files, tmp_path / "out")
    for file in files:
        name = parts_of(file.name)
        theirs = json.loads(file.read_text())
        triton = file.parent.name.removeprefix("triton_").replace("_", ".")
        device = name["device_name"].replace("_", " ")
        found = read_with_sglang(tmp_path / "out", name, device, triton, monkeypatch)
        assert (file.name, list((found or {}).items())) == (
            file.name, sorted((int(size), config) for size, config in theirs.items()))  # fmt: skip


def test_a_file_is_named_and_filled_as_its_tool_asks(tmp_path: Path) -> None:
    entries = [elected(MOE + "32", {"BLOCK_SIZE_M": 32}), elected(MOE + "4"), gemm(GEMM + "1")]
    ssu = elected("headdim=64|dstate=128|cache_dtype=float32|effective_batch=8", kernel="selective_state_update")
    down = elected("E=8|N=64|down=True|M=1", {"USE_TMA": True})
    for_vllm, for_sglang = (write(one, tmp_path / one.name, *entries, ssu, down) for one in (VLLM, SGLANG))
    moe = "E=8,N=64,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"
    wide = moe.replace("128,", "128, ")
    assert files_of(for_vllm) == {
        moe,
        "headdim=64,dstate=128,device_name=NVIDIA_H200,cache_dtype=float32.json",
        "quantization/utils/configs/N=64,K=128,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json",
    }
    assert files_of(for_sglang) == {
        f"configs/triton_3_6_0/{wide}",
        "configs/triton_3_6_0/E=8,N=64,device_name=NVIDIA_H200_down.json",
        "kernels/ops/gemm/configs/N=64,K=128,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json",
    }
    table = json.loads((for_vllm / moe).read_text())
    assert list(table.items()) == [("triton_version", "3.6.0"), ("4", CONFIG), ("32", {"BLOCK_SIZE_M": 32})]
    assert list(json.loads((for_sglang / f"configs/triton_3_6_0/{wide}").read_text())) == ["4", "32"]
    (quantized,) = (for_vllm / "quantization").rglob("*.json")
    assert list(json.loads(quantized.read_text())) == ["1"]  # a version there breaks vLLM's reader


def test_a_file_that_was_written_is_recognized(tmp_path: Path) -> None:
    for one in (VLLM, SGLANG):
        folder = write(one, tmp_path / one.name, elected(MOE + "1"), gemm(GEMM + "1"))
        for file in folder.rglob("*.json"):
            (recording,) = read(one, file)
            ((_, entries),) = recording.votes["sm90"].items()
            assert set(entries.values()) == {launch_text(CONFIG)}


def test_vllm_has_one_file_for_every_h200_of_fused_moe() -> None:
    nvl = {"device": "NVIDIA_H200_NVL"}
    (moe,) = VLLM.write(Outgoing(entries=[elected(MOE + "1", **nvl)])).files
    assert "device_name=NVIDIA_H200," in moe
    (quantized,) = VLLM.write(Outgoing(entries=[gemm(GEMM + "1", **nvl)])).files
    assert "device_name=NVIDIA_H200_NVL," in quantized
    with pytest.raises(SelectionError, match="are for 2 devices: NVIDIA_H200, NVIDIA_H200_NVL. Choose one with --dev"):
        VLLM.write(Outgoing(entries=[elected(MOE + "1"), elected(MOE + "1", **nvl)]))


def test_versions_are_separate_files_only_in_sglang(tmp_path: Path) -> None:
    entries = [elected(MOE + "1"), elected(MOE + "2", triton="3.5.0")]
    folder = write(SGLANG, tmp_path, *entries)
    assert sorted(file.parent.name for file in folder.rglob("*.json")) == ["triton_3_5_0", "triton_3_6_0"]
    with pytest.raises(SelectionError, match="are for 2 Triton versions: 3.5.0, 3.6.0. Choose one with --triton"):
        VLLM.write(Outgoing(entries=entries))
    with pytest.raises(SelectionError, match="are for 2 Triton versions: 3.6.0, none"):
        VLLM.write(Outgoing(entries=[elected(MOE + "1"), elected(MOE + "2", triton="")]))


def test_two_configs_for_one_batch_size_are_refused() -> None:
    other = "E=8|N=64|block_shape=[128,128]|dtype=fp8_w8a8|M=1"
    with pytest.raises(
        SelectionError,
        match=r"can have one config per batch size, but several entries have the same one: fused_moe_kernel E",
    ):
        VLLM.write(Outgoing(entries=[elected(MOE + "1"), elected(other)]))


def test_entries_that_a_tool_cannot_use_are_counted() -> None:
    entries = [
        elected(MOE + "1", device=""),
        elected(MOE + "x"),
        elected("E=8|N=64|H=3|M=1"),
        elected("E=8|N=64|dtype=../x|M=1"),
        elected("E=8|N=64|torch.bfloat16|M=1"),
        gemm("N=64|K=128|dtype=fp8_w8a8_channelwise|M=1"),
        elected(MOE + "1", CONFIG | {"USE_TMA": True}),
        gemm(GEMM + "1", CONFIG | {"SPLIT_K": 2}),
        elected(MOE + "2", triton="3.6.0+git1"),
        ElectedEntry(
            arch="sm90",
            device="NVIDIA_H200",
            kernel="fused_moe_kernel",
            key=MOE + "3",
            config=config_text({"kwargs": {}, "num_warps": 4, "num_stages": 3}),
        ),
    ]
    device, name = (
        "their device is unknown (state it with registry ingest --device DEVICE)",
        "the tool does not look up a file",
    )
    foreign, kind = "the tool's kernel does not have their launch parameters", "their config does not consist of launch"
    vllm, sglang = (one.write(Outgoing(entries=entries)) for one in (VLLM, SGLANG))
    assert summary(vllm.left_out) == {device: 1, name: 5, f"{foreign} USE_TMA": 1, f"{foreign} SPLIT_K": 1, kind: 1}
    assert len(vllm.files) == 1
    assert summary(sglang.left_out) == {device: 1, name: 5, "their Triton version is unknown": 1, kind: 1}
    assert len(sglang.files) == 2


def test_notes_say_where_files_must_be_copied() -> None:
    assert VLLM.write(Outgoing(entries=[elected(MOE + "1")])).notes == []
    (note,) = VLLM.write(Outgoing(entries=[gemm(GEMM + "1"), gemm(GEMM + "2")])).notes
    assert note.startswith("copy quantization/ into vllm/model_executor/layers/")
    (note,) = SGLANG.write(Outgoing(entries=[elected(MOE + "1"), gemm(GEMM + "1")])).notes
    assert note.startswith("copy kernels/ into the package sglang")


def files_of(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*.json")}


def summary(left_out: Mapping[str, int]) -> dict[str, int]:
    """The counts, with the reasons cut where the expected ones end."""
    shortened = (
        "the tool does not look up a file",
        "their config does not consist of launch",
        "their Triton version is unknown",
    )
    return {next((one for one in shortened if why.startswith(one)), why): count for why, count in left_out.items()}
