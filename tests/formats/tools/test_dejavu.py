"""Storages of triton-dejavu."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.tools.helpers import TOOLS, choices, read
from tuning_registry.errors import RecordingError
from tuning_registry.formats.plugin import ToolFile
from tuning_registry.formats.tools.dejavu import DejavuStorage
from tuning_registry.model.canonical import load_config
from tuning_registry.model.records import Timing

DEJAVU = DejavuStorage()
FILES = sorted((TOOLS / "dejavu").rglob("cache.json"))
KEY = "('128', 'True', 'torch.bfloat16')"
CONFIG = "BLOCK_M: 8, EVEN: False, num_warps: 2, num_ctas: 1, num_stages: 6, maxnreg: None"


def kernel(**changes: Any) -> dict[str, Any]:
    return {
        "signature": "JITFunction(pkg.mod:kernel)",
        "keys": ["D", "CAUSAL"],
        "cache": {KEY: CONFIG},
        "timings": {KEY: [0.5]},
        "timings_data": {"labels": ["ms"]},
    } | changes


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.parts[-7]))
def test_every_entry_and_time_of_a_real_file(file: Path) -> None:
    (recording,) = read(DEJAVU, file)
    document = json.loads(file.read_text())
    found = choices(recording)
    assert len(found) == len(document["cache"])
    for (key, text), (stated, config) in zip(found.items(), document["cache"].items(), strict=True):
        fields = key.split("|")
        values = ast.literal_eval(stated)
        named = [f"{name}={value}" for name, value in zip(document["keys"], values, strict=False)]
        assert fields == [*named, *values[len(named) :]]
        ours = load_config(text)
        for name, value in ours["kwargs"].items():
            assert f"{name}: {value}, " in config
        assert (
            f"num_warps: {ours['num_warps']}, num_ctas: {ours['num_ctas']}, num_stages: {ours['num_stages']}" in config
        )
        (timed,) = [one[key] for one in recording.timings["sm90"].values()]
        assert [timing.median_ms for timing in timed] == document["timings"][stated]


def test_the_place_states_versions_and_device() -> None:
    found = {}
    for file in FILES:
        (recording,) = read(DEJAVU, file)
        assert recording.device == "NVIDIA_H100_80GB_HBM3"
        assert recording.header.hardware.cuda == "12.4"
        assert recording.header.rank is None
        found[next(iter(recording.votes["sm90"]))] = recording.header.triton
    assert found == {
        "ibm_triton_lib.kernels.triton_flash_attention.attn_fwd": "3.2.0",
        "ibm_triton_lib.kernels.mamba_ssm._selective_scan_update_kernel": "3.3.0",
    }


def test_files_of_two_kernels_are_two_files() -> None:
    names = {read(DEJAVU, file)[0].origin for file in FILES}
    assert len(names) == len(FILES) == 2


def test_what_is_not_stated_stays_unstated(tmp_path: Path) -> None:
    (recording,) = read(DEJAVU, write(tmp_path / "cache.json", kernel()))
    assert (recording.device, list(recording.votes), recording.header.triton) == ("", ["unknown"], None)
    ((key, text),) = choices(recording).items()
    assert key == "D=128|CAUSAL=True|torch.bfloat16"
    assert load_config(text)["kwargs"] == {"BLOCK_M": 8, "EVEN": False}
    assert list(recording.timings["unknown"]["pkg.mod.kernel"][key]) == [Timing(text, 0.5, 0.5, 0.5)]


def test_a_rocm_folder_is_not_a_cuda_version(tmp_path: Path) -> None:
    place = tmp_path / "dejavu_0.7" / "triton_3.4.0" / "rocm_6.2" / "gpu_AMD_Instinct_MI300X" / "k" / "cache.json"
    (recording,) = read(DEJAVU, write(place, kernel()))
    assert (list(recording.votes), recording.header.hardware.cuda) == (["gfx942"], None)


@pytest.mark.parametrize(
    "more",
    [{"timings": None}, {"timings_data": None}, {"timings": {}}, {"timings_data": {"labels": ["s"]}},
     {"timings": {KEY: [None]}}],
)  # fmt: skip
def test_a_time_is_optional(tmp_path: Path, more: Any) -> None:
    (recording,) = read(DEJAVU, write(tmp_path / "cache.json", kernel(**more)))
    assert (len(choices(recording)), recording.timings) == (1, {})


def test_dtypes_are_optional_and_values_are_escaped(tmp_path: Path) -> None:
    (recording,) = read(DEJAVU, write(tmp_path / "cache.json", kernel(cache={"('a|b=c', '(1, 2)')": CONFIG})))
    assert list(choices(recording)) == [r"D=a\|b\=c|CAUSAL=(1, 2)"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (kernel(signature=3), "at signature: expected a string, found the integer 3"),
        (kernel(signature="x"), "at signature: expected JITFunction(module:function)"),
        (kernel(keys="D"), "at keys: expected an array of parameter names, found the string 'D'"),
        (kernel(keys=["D|x"]), "at keys: expected an array of parameter names"),
        (kernel(cache=[]), "at cache: expected an object, found an array"),
        (kernel(cache={"('128',)": CONFIG}), "1 values for 2 names"),
        (kernel(cache={"(128, 'True')": CONFIG}), "expected a string in quotes, found the string '128'"),
        (kernel(cache={"x": CONFIG}), "at cache/x: expected a tuple"),
        (kernel(cache={"('1', '2', 'a b')": CONFIG}), "expected a dtype after the values"),
        (kernel(cache={KEY: CONFIG, KEY.replace(" ", ""): CONFIG}), "another entry has the same key"),
        (kernel(cache={KEY: 3}), "expected a string, found the integer 3"),
        (kernel(cache={KEY: "BLOCK"}), "expected `name: value, ...`, found the string 'BLOCK'"),
        (kernel(cache={KEY: "A: 1, A: 2"}), "the parameter 'A' appears twice"),
        (kernel(cache={KEY: "A: 1"}), "required config field 'num_warps' is missing"),
        (
            kernel(cache={KEY: CONFIG.replace("num_warps: 2", "num_warps: __import__('os')")}),
            "num_warps: expected an integer",
        ),
        (kernel(cache={KEY: CONFIG + ", num_consumer_groups: 2"}), "changes the kernel and cannot be stored"),
        (kernel(timings={KEY: [1, 2]}), "expected an array of 1 times, found an array"),
        (kernel(timings={KEY: ["x"]}), "expected milliseconds or null, found the string 'x'"),
        (kernel(timings_data={"labels": 3}), "at timings_data/labels: expected an array"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path: Path, content: Any, said: str) -> None:
    file = ToolFile(write(tmp_path / "cache.json", content))
    assert DEJAVU.recognizes(file)
    with pytest.raises(RecordingError) as found:
        list(DEJAVU.read([file]))
    assert str(found.value).startswith(f"{file.path}: ")
    assert said in str(found.value)


@pytest.mark.parametrize("content", [[], {}, {"signature": "x", "cache": {}}, "{", "3"])
def test_other_documents_are_not_recognized(tmp_path: Path, content: Any) -> None:
    assert not DEJAVU.recognizes(ToolFile(write(tmp_path / "cache.json", content)))
