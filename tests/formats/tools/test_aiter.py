"""The files of AITER."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.tools.helpers import TOOLS, choices, read
from tuning_registry.errors import RecordingError
from tuning_registry.formats.plugin import ToolFile
from tuning_registry.formats.tools.aiter import AiterFiles
from tuning_registry.model.kinds import fields_of
from tuning_registry.model.records import IMPOSSIBLE_TIME

AITER = AiterFiles()
REAL = TOOLS / "aiter"
CSV = REAL / "qwen3_8b_bf16_tuned_gemm.csv"
NAME = "gfx942-GEMM-A8W8-N=64-K=32.json"
CONFIG = {"BLOCK_SIZE_M": 16, "num_warps": 4}
HEADER = "gfx,cu_num,M,N,K,libtype,solidx,us,kernelName"
ROW = "gfx942,304,1,64,32,hipblaslt,7,2.5,auto"


def write(folder: Path, name: str, content: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("name", "arch", "kernel", "first"),
    [
        ("gemm/gfx942-GEMM-A8W8_BLOCKSCALE-N=2112-K=7168.json", "gfx942", "gemm_a8w8_blockscale",
         "N=2112|K=7168|M_LEQ=4"),
        ("gemm/gfx950-GEMM-A8W8_BLOCKSCALE_PRESHUFFLED-N=2112-K=7168.json", "gfx950",
         "gemm_a8w8_blockscale_preshuffled", "N=2112|K=7168|M_LEQ=8"),
        ("gfx950/triton/gemm/gemm_afp4wfp4_preshuffled/GEMM-AFP4WFP4_PRESHUFFLED-N=8192-K=14336.json", "gfx950",
         "gemm_afp4wfp4_preshuffled", "N=8192|K=14336|M_LEQ=8"),
    ],
)  # fmt: skip
def test_every_real_json_file_gives_what_it_states(name: str, arch: str, kernel: str, first: str) -> None:
    (recording,) = read(AITER, REAL / name)
    assert [fields_of(text) for text in choices(recording).values()] == list(
        json.loads((REAL / name).read_text()).values()
    )
    assert [(found, list(kernels)) for found, kernels in recording.votes.items()] == [(arch, [kernel])]
    keys = list(choices(recording))
    assert keys[0] == first
    assert keys[-1].endswith("|bucket=any")
    assert (recording.device, recording.header.rank, recording.header.triton) == ("", None, None)


def test_every_row_of_a_real_csv_file() -> None:
    (recording,) = read(AITER, CSV)
    rows = list(csv.DictReader(CSV.read_text().splitlines()))
    assert list(recording.votes) == ["gfx950"]
    assert list(recording.votes["gfx950"]) == ["bf16_tuned_gemm"]
    found = choices(recording)
    assert len(found) == len(rows) == 10
    key = (
        "cu_num=256|M=16|N=151936|K=4096|bias=False|dtype=torch.bfloat16|outdtype=torch.bfloat16|scaleAB=False|"
        "bpreshuffle=False"
    )
    assert fields_of(found[key]) == {"libtype": "torch", "solidx": 0, "splitK": 0, "kernelName": "native"}
    (timing,) = recording.timings["gfx950"]["bf16_tuned_gemm"][key]
    assert timing.median_ms == pytest.approx(0.195536)


def test_both_layouts_name_the_kernel_alike(tmp_path: Path) -> None:
    flat = write(tmp_path, "gfx950-GEMM-AFP4WFP4.json", {"any": CONFIG})
    nested = write(tmp_path / "gfx950/triton/gemm/gemm_afp4wfp4", "DEFAULT.json", {"any": CONFIG})
    (old,), (new,) = read(AITER, flat), read(AITER, nested)
    assert old.votes == new.votes
    assert choices(old) == {"bucket=any": '{"launch": {"BLOCK_SIZE_M": 16, "num_warps": 4}}'}


def test_another_backend_has_keys_of_its_own(tmp_path: Path) -> None:
    (recording,) = read(AITER, write(tmp_path / "gfx950/gluon/gemm/gemm_x", "DEFAULT.json", {"M_GEQ_8": CONFIG}))
    assert list(choices(recording)) == ["backend=gluon|M_GEQ=8"]
    assert recording.origin is not None
    assert recording.origin.file == "gfx950/gluon/gemm/gemm_x/DEFAULT.json"


def test_two_levels_of_names(tmp_path: Path) -> None:
    content = {"fwd": {"default": CONFIG, "dropout": CONFIG}, "small_M": CONFIG}
    (recording,) = read(AITER, write(tmp_path, "gfx942-MHA-DEFAULT.json", content))
    assert list(choices(recording)) == ["bucket=fwd/default", "bucket=fwd/dropout", "bucket=small_M"]


def test_architectures_of_one_csv_file_are_told_apart(tmp_path: Path) -> None:
    path = write(tmp_path, "a8w8_tuned_gemm.csv", f"{HEADER}\n{ROW}\n\n{ROW.replace('gfx942', 'gfx950')}\n")
    recordings = read(AITER, path)
    assert [list(one.votes) for one in recordings] == [["gfx942"], ["gfx950"]]
    assert len({one.origin for one in recordings}) == 2


def test_csv_files_without_architecture_and_time(tmp_path: Path) -> None:
    content = "cu_num,M,q_dtype_w,kernelId,us,_tag\n304,1,torch.float8_e4m3fnuz,5,,\n304,1,torch.int8,6,,fallback\n"
    (recording,) = read(AITER, write(tmp_path, "dsv3_a8w8_blockscale_bpreshuffle_tuned_gemm.csv", content))
    assert list(recording.votes) == ["unknown"]
    assert list(recording.votes["unknown"]) == ["a8w8_blockscale_bpreshuffle_tuned_gemm"]
    assert list(choices(recording)) == [
        "cu_num=304|M=1|q_dtype_w=torch.float8_e4m3fnuz",
        "cu_num=304|M=1|q_dtype_w=torch.int8|_tag=fallback",
    ]
    assert not recording.timings


@pytest.mark.parametrize("time", ["0", "-1", "inf", "nan"])
def test_a_choice_with_an_impossible_time_is_an_observation(tmp_path: Path, time: str) -> None:
    (recording,) = read(AITER, write(tmp_path, "x_tuned_gemm.csv", f"{HEADER}\n{ROW.replace('2.5', time)}\n"))
    (entries,) = (entries for kernels in recording.observations.values() for entries in kernels.values())
    assert [one.reason for one in entries.values()] == [IMPOSSIBLE_TIME]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (NAME, {"any": {}}, "at any: expected an object of configs, found an empty object"),
        (NAME, {"any": {"num_warps": -4}}, "at any/num_warps: expected an integer from 1"),
        (NAME, {"M_LEQ_8": {"a": {"b": 1}, "c": 2}}, "at M_LEQ_8/c: expected an object of configs, found the integer 2"),
        ("x_tuned_gemm.csv", f"{HEADER}\n{ROW},9\n", "at line 2: 10 cells for 9 columns"),
        ("x_tuned_gemm.csv", f"{HEADER}\n{ROW}\n{ROW}\n", "at line 3: another row has the same key"),
        ("x_tuned_gemm.csv", f"{HEADER}\n{ROW.replace('2.5', 'fast')}\n", "at line 2/us: expected microseconds, found the string 'fast'"),
        ("x_tuned_gemm.csv", f'{HEADER}\n{ROW[:-4]}"au', "not CSV: unexpected end of data"),
        ("x_tuned_gemm.csv", "cu_num,us,us\n", "expected the columns cu_num, us, and those of the chosen kernel"),
        ("x_tuned_gemm.csv", "cu_num,us,solidx,us\n", "two columns have the same name"),
        ("x_tuned_gemm.csv", f"{HEADER}\n{ROW[:30]}", "at line 2: 7 cells for 9 columns"),
    ],
)  # fmt: skip
def test_damaged_files_are_refused_by_name(tmp_path: Path, name: str, content: Any, said: str) -> None:
    file = ToolFile(write(tmp_path, name, content))
    assert AITER.recognizes(file)
    with pytest.raises(RecordingError) as found:
        list(AITER.read([file]))
    assert str(found.value).startswith(f"{file.path}: ")
    assert said in str(found.value)


def test_bytes_that_are_not_text_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x_tuned_gemm.csv"
    path.write_bytes(f"{HEADER}\n".encode() + b"\xff")
    with pytest.raises(RecordingError, match=r"x_tuned_gemm\.csv: byte 46 is not UTF-8"):
        list(AITER.read([ToolFile(path)]))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("E=8,N=64,device_name=X.json", {"1": CONFIG}),
        ("GEMM-A8W8.json", {"any": CONFIG}),
        (NAME, {"any": 3}),
        (NAME, []),
        (NAME, "{"),
        ("x_tuned_gemm.csv", "a,b\n"),
    ],
)
def test_other_files_are_not_recognized(tmp_path: Path, name: str, content: Any) -> None:
    assert not AITER.recognizes(ToolFile(write(tmp_path, name, content)))


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("bf16_tuned_gemm.csv", "bf16_tuned_gemm"),
        ("a8w8_blockscale_tuned_gemm_ds_v3.csv", "a8w8_blockscale_tuned_gemm"),
        ("a8w8_tuned_batched_gemm.csv", "a8w8_tuned_batched_gemm"),
        ("tuned_fmoe.csv", "tuned_fmoe"),
    ],
)
def test_names_of_csv_files_in_a_folder(tmp_path: Path, name: str, kernel: str) -> None:
    assert AITER.has_name(name)
    (recording,) = read(AITER, write(tmp_path, name, f"{HEADER}\n{ROW}\n"))
    assert list(recording.votes["gfx942"]) == [kernel]


@pytest.mark.parametrize("name", ["timings.csv", "tuned_gemm.csv.bak", "bf16_untuned_gemm.csv", "untuned_fmoe.csv"])
def test_other_csv_files_in_a_folder_are_not_looked_at(name: str) -> None:
    assert not AITER.has_name(name)
