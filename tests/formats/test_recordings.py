"""Recording files: what is read, what is refused and how the refusal is worded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import config, version_1, write_recording
from tuning_registry.errors import FileError, RecordingError, RegistryError
from tuning_registry.formats.fast_reader import QuickReader
from tuning_registry.formats.recordings import parse_recording, rank_in_name, read_recording

FULL = config()
TEXT = json.dumps(FULL)
SEED = json.dumps({"sm90": {"k": {"M=1": FULL}}})


def one(config_json: str) -> str:
    return f'{{"sm90": {{"k": {{"M=1": {config_json}}}}}}}'


REFUSED = {
    "empty": (b"", "the file is empty"),
    "blank": (b" \n", "the file is empty"),
    "cut in a string": (SEED.encode()[:30], "cut off"),
    "cut between": (SEED.encode()[:-3], "cut off"),
    "a tail of an older file": (SEED.encode() + b'"}}', "line 1 column .*Extra data"),
    "utf-16": (SEED.encode("utf-16"), "UTF-16"),
    "utf-16 without a mark": (SEED.encode("utf-16-le"), "UTF-16"),
    "not utf-8": (b'{"sm90": {"k\xff": {}}}', "byte 12 is not UTF-8"),
    "array": (b"[]", r"expected a recording \(a JSON object\), found an array"),
    "null": (b"null", "found null"),
    "number": (b"7", "found the integer 7"),
    "config twice": (one(f'{TEXT}, "M=1": {TEXT}').encode(), "at sm90/k/M=1: the same object key twice"),
    "kernel twice": (b'{"sm90": {"k": {}, "k": {}}}', "at sm90/k: the same object key twice"),
    "arch twice": (b'{"sm90": {}, "sm90": {}}', "at sm90: the same object key twice"),
    "parameter twice": (
        one(TEXT.replace('"B": 64', '"B": 64, "B": 128')).encode(),
        "at sm90/k/M=1/kwargs/B: the same object key twice",
    ),
    "NaN": (one(TEXT.replace("64", "NaN")).encode(), "at sm90/k/M=1/kwargs/B: nan is not a finite number"),
    "Infinity": (one(TEXT.replace("64", "-Infinity")).encode(), "-inf is not a finite number"),
    "overflow": (one(TEXT.replace("64", "1e999")).encode(), "inf is not a finite number"),
    "NaN warps": (one(TEXT.replace('"num_warps": 4', '"num_warps": NaN')).encode(), "at sm90/k/M=1/num_warps"),
    "NUL in a kernel": (b'{"sm90": {"k\\u0000x": {}}}', r"at sm90/k\\x00x: a NUL character"),
    "NUL in a key": (one("X").replace("M=1", "M=1\\u0000").replace("X", TEXT).encode(), "NUL"),
    "NUL in a value": (one(TEXT.replace("64", '"a\\u0000"')).encode(), "at sm90/k/M=1/kwargs/B: a NUL"),
    "NUL in an arch": (b'{"sm\\u000090": {}}', "NUL"),
    "surrogate": (b'{"sm90": {"k\\ud800": {}}}', "a lone surrogate"),
    "no warps": (one('{"kwargs": {}, "num_stages": 3}').encode(), "at sm90/k/M=1/num_warps: required .* is missing"),
    "bool for int": (one(TEXT.replace('"num_warps": 4', '"num_warps": true')).encode(), "found true"),
    "config of a wrong kind": (one("7").encode(), "at sm90/k/M=1: expected a config object, found the integer 7"),
    "kernels of a wrong kind": (b'{"sm90": []}', "at sm90: expected an object of kernels, found an array"),
    "entries of a wrong kind": (b'{"sm90": {"k": 1}}', "at sm90/k: expected an object of shape keys"),
    "no kernel name": (b'{"sm90": {"": {}}}', "an empty name"),
    "no arch name": (b'{"": {}}', "an empty name"),
    "two spellings of one arch": (
        json.dumps({"sm90": {"k": {"M=1": FULL}}, "SM90": {"k": {"M=1": FULL}}}).encode(),
        "the same entry under two spellings of one architecture",
    ),
    "deep": (b"[" * 200_000 + b"]" * 200_000, "nested too deep"),
    "deep objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deep"),
    "deep in a config": (one(TEXT.replace("64", "[" * 500 + "]" * 500)).encode(), "nested more than 32 levels"),
    "table": (b'{"arch": "sm103", "kernels": {}, "packages": {}, "source": "", "triton": ""}', "an exported per-arch table"),
    "part of a table": (b'{"packages": {"k": {}}, "kernels": {}}', "an exported per-arch table"),
    "vLLM of a Triton": (b'{"triton_version": "3.6", "1": {"BLOCK_SIZE_M": 16}}', "a fused-MoE config file"),
    "vLLM": (b'{"1": {"BLOCK_SIZE_M": 16, "num_warps": 4}}', "a fused-MoE config file of vLLM or SGLang"),
    "Triton autotune cache": (b'{"key": [1], "configs_timings": []}', "Triton's autotune cache file"),
    "Triton metadata": (b'{"hash": "x", "triton_version": "3.6.0"}', "Triton's compile metadata"),
    "votes and timings": (
        json.dumps({"sm90": {"k": {"M=1": FULL, "M=2": [[FULL, [1, 1, 1]]]}}}).encode(),
        "at sm90/k/M=2: expected a config, found an array; votes and candidates' timings go in files of their own",
    ),
    "timings and votes": (
        json.dumps({"sm90": {"k": {"M=1": [[FULL, [1, 1, 1]]], "M=2": FULL}}}).encode(),
        r"at sm90/k/M=2: expected an array of \[config, \[median, p20, p80\]\], found an object",
    ),
    "timings of half a config": (one("[[{}, [1, 1, 1]]]").encode(), "at sm90/k/M=1/0/kwargs: required config field"),
    "negative times": (one(f"[[{TEXT}, [1, -1, 1]]]").encode(), "at sm90/k/M=1/0: expected milliseconds"),
    "a sentinel for a time": (one(f"[[{TEXT}, [-1.0, -1.0, -1.0]]]").encode(), "at sm90/k/M=1/0: expected milli"),
    "NaN for a time": (one(f"[[{TEXT}, [NaN, 1, 1]]]").encode(), "at sm90/k/M=1/0: expected milliseconds"),
    "two times": (one(f"[[{TEXT}, [1, 1]]]").encode(), "expected \\[median, p20, p80\\] in ms, found 2 numbers"),
    "timed twice": (one(f"[[{TEXT}, [1, 1, 1]], [{TEXT}, [2, 2, 2]]]").encode(), "one candidate is timed twice"),
    "other format": (b'{"format": "other", "version": 1}', "at format: expected 'tuning-registry recording'"),
    "later version": (
        json.dumps(version_1({}) | {"version": 2}).encode(),
        "expected recording version 1, found the integer 2; a newer tuning-registry may read it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_recording_is_refused_by_name(name: str, tmp_path: Path) -> None:
    data, message = REFUSED[name]
    path = write_recording(tmp_path / "rec.rank0.json", data)
    with pytest.raises(RecordingError, match=message) as caught:
        read_recording(path)
    assert str(path) in str(caught.value)
    with pytest.raises(RecordingError, match=message):
        QuickReader().read(path)


def test_every_kind_that_is_read(tmp_path: Path) -> None:
    for data in (SEED.encode(), b"\xef\xbb\xbf" + SEED.encode(), SEED.replace(" ", "\r\n").encode()):
        recording = read_recording(write_recording(tmp_path / "r.json", data))
        assert recording.votes == {"sm90": {"k": {"M=1": json.dumps(FULL, sort_keys=True)}}}
    assert read_recording(write_recording(tmp_path / "r.json", b"{}")).votes == {}
    star = read_recording(write_recording(tmp_path / "r.json", SEED.replace("M=1", "*")))
    assert list(star.votes["sm90"]["k"]) == ["*"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": None}, "required field 'rank' is missing"),
        ({"run": None}, "required field 'run' is missing"),
        ({"votes": None}, "required field 'votes' is missing"),
        ({"rank": True}, "at rank: expected an integer from 0 to 2147483647, found true"),
        ({"rank": -1}, "at rank: expected an integer"),
        ({"rank": 2**31}, "at rank: expected an integer"),
        ({"rank": 8, "world_size": 8}, "rank 8 of a world of 8"),
        ({"run": ""}, "at run: an empty string"),
        ({"run": "a\0"}, "at run: a NUL"),
        ({"packages": {"a": 1}}, "at packages/a: expected a string"),
        ({"packages": []}, "at packages: expected an object"),
        ({"device": []}, "at device: expected an object with name"),
        ({"timings": {"sm90": {"k": {"M=1": [[FULL, [10**400, 1, 1]]]}}}}, "an integer beyond every clock"),
        ({"device": {"nam": "x"}}, "at device: expected an object with name"),
        ({"extra": 1}, "at extra: unknown field of a version 1 recording"),
        ({"votes": {"sm90": {"k": {"M=1": {}}}}}, "at votes/sm90/k/M=1/"),
        (
            {"timings": {"sm90": {"k": {"M=1": [[FULL, [1, 2]]]}}}},
            "at timings/sm90/k/M=1/0: expected .*found 2 numbers",
        ),
        ({"timings": {"sm90": {"k": {"M=1": [[FULL, [1, -2, 3]]]}}}}, "expected milliseconds"),
        ({"timings": {"sm90": {"k": {"M=1": [[FULL, None], [FULL, None]]}}}}, "one candidate is timed twice"),
        ({"observations": {"sm90": {"k": {"M=2": {"config": None}}}}}, "expected an object with config and reason"),
        ({"observations": {"sm90": {"k": {"M=1": {"config": None, "reason": "x"}}}}}, "yet this entry has both"),
    ],
)
def test_version_1_headers_are_checked(change: dict[str, Any], message: str) -> None:
    document = version_1({"sm90": {"k": {"M=1": FULL}}}) | change
    with pytest.raises(RecordingError, match=message):
        parse_recording(json.dumps(document).encode(), "r.json")


def test_failed_candidates_have_no_times() -> None:
    b, c = config(B=1), config(B=2)
    document = version_1(
        {}, timings={"sm90": {"k": {"M=1": [[FULL, [0.2, 0.1, 0.3]], [b, None], [c, [float("inf")] * 3]]}}}
    )
    timings = parse_recording(json.dumps(document).encode(), "r.json").timings["sm90"]["k"]["M=1"]
    assert [(t.median_ms, t.p20_ms, t.p80_ms) for t in timings] == [
        (None,) * 3,
        (None,) * 3,
        (0.2, 0.1, 0.3),
    ]  # by text


def test_ranks_come_from_names() -> None:
    assert rank_in_name("a.b.rank12.json") == ("a.b", 12)
    assert rank_in_name("rec.rankX.json") == ("rec.rankX", None)
    assert rank_in_name("rec.json") == ("rec", None)


def test_unreadable_paths(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path, Path("/dev/zero"), Path("a\0b")):
        with pytest.raises(FileError):
            read_recording(path)


def test_a_folder_is_no_regular_file_and_leaves_no_handle_open(tmp_path: Path) -> None:
    handles = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileError, match="not a regular file"):
        read_recording(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == handles


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_give_a_recording_or_our_error(data: bytes) -> None:
    try:
        parse_recording(data, "r.json")
    except RegistryError as error:
        assert str(error).startswith("r.json: ")
        assert "\n" not in str(error)


@pytest.mark.parametrize("section", ["votes", "timings", "observations", "candidate_sets"])
def test_a_strange_architecture_is_reported_whatever_is_recorded_on_it(section: str) -> None:
    value = {"votes": FULL, "timings": [[FULL, [1, 1, 1]]], "candidate_sets": "abc",
             "observations": {"config": None, "reason": "miss: no key"}}[section]  # fmt: skip
    kernels = {"k": {"M=1": value}}
    document = version_1({}) | {section: {"MI300X": kernels, "SM_90": kernels}}
    assert parse_recording(json.dumps(document).encode(), "r.json").strange_archs() == ["MI300X"]
