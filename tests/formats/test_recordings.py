"""Recording files: what is read, what is refused and how the refusal is worded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import config, version_1, version_2, write_recording
from tuning_registry.errors import FileError, FormatError, RecordingError, RegistryError
from tuning_registry.formats.fast_reader import QuickReader
from tuning_registry.formats.recording_writer import recording_bytes
from tuning_registry.formats.recordings import parse_recording, rank_in_name, read_recording
from tuning_registry.formats.table import TunedTable
from tuning_registry.model.canonical import config_text, dump_json
from tuning_registry.model.records import Hardware, Observation

FULL = config()
TEXT = json.dumps(FULL)
SEED = json.dumps({"sm90": {"k": {"M=1": FULL}}})


def one(config_json: str) -> str:
    return f'{{"sm90": {{"k": {{"M=1": {config_json}}}}}}}'


REFUSED = {
    "empty": (b"", "the file is empty"),
    "blank": (b" \n", "the file is empty"),
    "cut in a string": (SEED.encode()[:30], "truncated"),
    "cut between": (SEED.encode()[:-3], "truncated"),
    "a tail of an older file": (SEED.encode() + b'"}}', "line 1 column .*Extra data"),
    "utf-16": (SEED.encode("utf-16"), "UTF-16"),
    "utf-16 without a mark": (SEED.encode("utf-16-le"), "UTF-16"),
    "not utf-8": (b'{"sm90": {"k\xff": {}}}', "byte 12 is not UTF-8"),
    "array": (b"[]", r"expected a recording \(a JSON object\), found an array"),
    "null": (b"null", "found null"),
    "number": (b"7", "found the integer 7"),
    "config twice": (one(f'{TEXT}, "M=1": {TEXT}').encode(), "at sm90/k/M=1: this object key appears twice"),
    "kernel twice": (b'{"sm90": {"k": {}, "k": {}}}', "at sm90/k: this object key appears twice"),
    "arch twice": (b'{"sm90": {}, "sm90": {}}', "at sm90: this object key appears twice"),
    "parameter twice": (
        one(TEXT.replace('"B": 64', '"B": 64, "B": 128')).encode(),
        "at sm90/k/M=1/kwargs/B: this object key appears twice",
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
    "no kernel name": (b'{"sm90": {"": {}}}', "the name is empty"),
    "no arch name": (b'{"": {}}', "the name is empty"),
    "two spellings of one arch": (
        json.dumps({"sm90": {"k": {"M=1": FULL}}, "SM90": {"k": {"M=1": FULL}}}).encode(),
        "this entry appears under two spellings of one architecture",
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
        "at sm90/k/M=2: expected a config, found an array; votes and timings belong in separate files",
    ),
    "timings and votes": (
        json.dumps({"sm90": {"k": {"M=1": [[FULL, [1, 1, 1]]], "M=2": FULL}}}).encode(),
        r"at sm90/k/M=2: expected an array of \[config, \[median, p20, p80\]\], found an object",
    ),
    "timings of half a config": (one("[[{}, [1, 1, 1]]]").encode(), "at sm90/k/M=1/0/kwargs: required config field"),
    "text for a time": (one(f'[[{TEXT}, ["1", 1, 1]]]').encode(), "at sm90/k/M=1/0: expected milliseconds, or null"),
    "true for a time": (one(f"[[{TEXT}, [1, true, 1]]]").encode(), "at sm90/k/M=1/0: expected milliseconds, or null"),
    "two times": (one(f"[[{TEXT}, [1, 1]]]").encode(), "expected \\[median, p20, p80\\] in ms, found 2 numbers"),
    "timed twice": (one(f"[[{TEXT}, [1, 1, 1]], [{TEXT}, [2, 2, 2]]]").encode(), "one candidate is timed twice"),
    "other format": (b'{"format": "other", "version": 1}', "at format: expected 'tuning-registry recording'"),
    "later version": (
        json.dumps(version_1({}) | {"version": 3}).encode(),
        "expected recording version 1 or 2, found the integer 3; a newer tuning-registry may read it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_not_a_recording_is_refused_by_name(name: str, tmp_path: Path) -> None:
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
        ({"rank": 8, "world_size": 8}, "rank 8 in a job of 8 ranks"),
        ({"run": ""}, "at run: an empty string"),
        ({"run": "a\0"}, "at run: a NUL"),
        ({"packages": {"a": 1}}, "at packages/a: expected a string"),
        ({"packages": []}, "at packages: expected an object"),
        ({"device": []}, "at device: expected an object with the fields name"),
        ({"timings": {"sm90": {"k": {"M=1": [[FULL, [10**400, 1, 1]]]}}}}, "an integer too large for a float"),
        ({"device": {"nam": "x"}}, "at device: expected an object with the fields name"),
        ({"extra": 1}, "at extra: unknown field of a version 1 recording"),
        ({"votes": {"sm90": {"k": {"M=1": {}}}}}, "at votes/sm90/k/M=1/"),
        (
            {"timings": {"sm90": {"k": {"M=1": [[FULL, [1, 2]]]}}}},
            "at timings/sm90/k/M=1/0: expected .*found 2 numbers",
        ),
        ({"timings": {"sm90": {"k": {"M=1": [[FULL, None], [FULL, None]]}}}}, "one candidate is timed twice"),
        ({"observations": {"sm90": {"k": {"M=2": {"config": None}}}}}, "expected an object with config and reason"),
        (
            {"observations": {"sm90": {"k": {"M=1": {"config": None, "reason": "x"}}}}},
            "this entry has a vote and an observation",
        ),
    ],
)
def test_version_1_headers_are_checked(change: dict[str, Any], message: str) -> None:
    document = version_1({"sm90": {"k": {"M=1": FULL}}}) | change
    with pytest.raises(RecordingError, match=message):
        parse_recording(json.dumps(document).encode(), "r.json")


HASH = "0123456789abcdef" * 4


def test_a_version_2_recording_states_its_process_its_hardware_and_its_sources() -> None:
    device = {"name": "H200", "uuid": "GPU-1", "driver": "570.1", "sm_clock_mhz": 1980, "memory_clock_mhz": 3201,
              "power_limit_w": 700}  # fmt: skip
    document = version_2(
        {"sm90": {"k": {"M=1": FULL}}}, 255, attempt=2, local_rank=3, device=device, cuda="12.8", ptxas="12.8.93",
        sources={"k": HASH}, extra={"audit": {"digests": [1, None, 2.5, "é"]}, "not yet known": True},
    )  # fmt: skip
    data = json.dumps(document).encode()
    header = parse_recording(data, "r.json").header
    assert header.id == "000000000000000000000000000000ff"
    assert (header.attempt, header.local_rank, header.device_name, header.device_uuid) == (2, 3, "H200", "GPU-1")
    assert header.hardware == Hardware(driver="570.1", cuda="12.8", ptxas="12.8.93", sm_clock_mhz=1980,
                                       memory_clock_mhz=3201, power_limit_w=700)  # fmt: skip
    assert (header.sources, header.extra) == ({"k": HASH}, document["extra"])
    quick = QuickReader().read_quickly(data, "r.json")
    assert quick == parse_recording(data, "r.json")
    assert parse_recording(recording_bytes(quick), "r.json") == quick


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": None}, "required field 'id' is missing"),
        ({"id": "7"}, "at id: expected 32 hexadecimal digits, found the string '7'"),
        ({"id": "F" * 32}, "at id: expected 32 hexadecimal digits"),
        ({"id": 7}, "at id: expected a string"),
        ({"attempt": -1}, "at attempt: expected an integer from 0"),
        ({"local_rank": True}, "at local_rank: expected an integer from 0"),
        ({"sources": {"k": "abc"}}, "at sources/k: expected a SHA-256 by kernel, found the string 'abc'"),
        ({"sources": {"": HASH}}, "at sources/: expected a SHA-256"),
        ({"sources": []}, "at sources: expected an object of strings"),
        ({"extra": []}, "at extra: expected an object, found an array"),
        ({"extra": {"x": float("inf")}}, "at extra: expected JSON with finite numbers"),
        ({"cuda": 12}, "at cuda: expected a string"),
        ({"device": {"power_limit_w": 1.5}}, "at power_limit_w: expected an integer from 0"),
        ({"device": {"cuda": "12"}}, "at device: expected an object with the fields name, .*uuid, driver"),
        ({"audit": {}}, "at audit: unknown field of a version 2 recording; what later versions add is in 'extra'"),
    ],
)
def test_version_2_headers_are_checked(change: dict[str, Any], message: str) -> None:
    data = json.dumps(version_2({"sm90": {"k": {"M=1": FULL}}}) | change).encode()
    with pytest.raises(RecordingError, match=message):
        parse_recording(data, "r.json")
    assert QuickReader().read_quickly(data, "r.json") is None


@pytest.mark.parametrize("name", ["id", "attempt", "local_rank", "sources", "extra", "cuda", "ptxas"])
def test_a_field_of_version_2_is_unknown_to_version_1(name: str) -> None:
    with pytest.raises(RecordingError, match=f"at {name}: unknown field of a version 1 recording$"):
        parse_recording(json.dumps(version_1({}) | {name: "0" * 32}).encode(), "r.json")


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


@pytest.mark.parametrize(
    "time", ["-0.5", "0", "0.0", "-0.0", "NaN", "-1", "-Infinity", "-1e300", "5e-324", "1e-7", "1e300", "1" + "0" * 30]
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_candidate_with_an_impossible_time_counts_as_not_timed(time: str, place: int) -> None:
    three = ["0.2", "0.1", "0.3"]
    three[place] = time
    other = json.dumps(config(B=1))
    timed = f'{{"sm90": {{"k": {{"M=1": [[{TEXT}, [{", ".join(three)}]], [{other}, [2, 1, 3]]]}}}}}}'
    for text in (timed, json.dumps(version_1({}))[:-1] + f', "timings": {timed}}}'):
        for recording in (parse_recording(text.encode(), "r"), QuickReader().read_quickly(text.encode(), "r")):
            if recording is None:  # NaN and -Infinity are left to the strict reader
                assert time in {"NaN", "-Infinity"}
                continue
            rows = {row.config: row[1:] for row in recording.timings["sm90"]["k"]["M=1"]}
            assert rows == {config_text(FULL): (None,) * 3, config_text(config(B=1)): (2.0, 1.0, 3.0)}


@pytest.mark.parametrize(
    ("times", "is_possible"),
    [
        ([2.0, 1.0, 3.0], True),
        ([2.0, 2.0, 2.0], True),
        ([2.0, 2.0000001, 1.9999999], True),  # equal samples, interpolated
        ([1e-6, 1e-6, 1e9], True),
        ([2.0, 3.0, 1.0], False),
        ([2.0, 2.1, 3.0], False),
        ([2.0, 1.0, 1.9], False),
        ([1.0, 2.0, 3.0], False),  # in ascending order, so the median is not the first
    ],
)
def test_percentiles_have_an_order(times: list[float], is_possible: bool) -> None:
    for document in (
        {"sm90": {"k": {"M=1": [[FULL, times]]}}},
        version_1({}, timings={"sm90": {"k": {"M=1": [[FULL, times]]}}}),
    ):
        text = json.dumps(document).encode()
        for recording in (parse_recording(text, "r"), QuickReader().read_quickly(text, "r")):
            assert recording is not None
            (row,) = recording.timings["sm90"]["k"]["M=1"]
            assert row[1:] == (tuple(times) if is_possible else (None,) * 3)


@pytest.mark.parametrize(
    "times",
    ["[-0.5, 1, 1]", "[0, 0, 0]", "[NaN, NaN, NaN]", "null", "[Infinity, 1, 1]", "[2, 3, 1]", "[5e-324, 5e-324, 1]"],
)
def test_a_winner_with_an_impossible_time_is_an_observation(times: str) -> None:
    votes = {"sm90": {"k": {"M=1": FULL, "M=2": FULL}, "other": {"M=1": FULL}}}
    timed = f'{{"sm90": {{"k": {{"M=1": [[{TEXT}, {times}]], "M=2": [[{json.dumps(config(B=1))}, {times}]]}}}}}}'
    text = (json.dumps(version_1(votes))[:-1] + f', "timings": {timed}}}').encode()
    strict, quick = parse_recording(text, "r.json"), QuickReader().read_quickly(text, "r.json")
    assert strict.votes == {"sm90": {"k": {"M=2": config_text(FULL)}, "other": {"M=1": config_text(FULL)}}}
    assert strict.observations == {"sm90": {"k": {"M=1": Observation(config_text(FULL), "impossible time")}}}
    assert quick == (None if "NaN" in times else strict)


@pytest.mark.parametrize("key", ["M=1.0", "M=True"])
def test_an_impossible_time_counts_in_whatever_spelling_of_the_key(key: str) -> None:
    votes = {"sm90": {"k": {"M=1": FULL, "M=2": FULL}}}
    timings = {"sm90": {"k": {key: [[FULL, [-1, -1, -1]]], "M=2": [[FULL, [1.0, 0.9, 1.1]]]}}}
    text = json.dumps({**version_1(votes), "timings": timings}).encode()
    strict, quick = parse_recording(text, "r.json"), QuickReader().read_quickly(text, "r.json")
    assert strict.votes == {"sm90": {"k": {"M=2": config_text(FULL)}}}
    assert strict.observations == {"sm90": {"k": {"M=1": Observation(config_text(FULL), "impossible time")}}}
    assert quick == strict


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("num_warps", -4, "expected an integer from 1 to 64 or null, found the integer -4"),
        ("num_warps", 2**31, "from 1 to 64 or null"),
        ("num_stages", -1, "from 0 to 64 or null, found the integer -1"),
        ("num_ctas", 0, "from 1 to 32, found the integer 0"),
        ("maxnreg", 2**70, "from 1 to 1024 or null, found a long integer"),
    ],
)
def test_launch_options_out_of_range_are_refused_with_their_place(
    field: str, value: int, expected: str, tmp_path: Path
) -> None:
    odd = dump_json(config(**{field: value}))
    ours = json.dumps(version_1({}))
    for text, place in (
        (one(odd), f"sm90/k/M=1/{field}"),
        (one(f"[[{odd}, [1, 1, 1]]]"), f"sm90/k/M=1/0/{field}"),
        (ours.replace('"votes": {}', f'"votes": {one(odd)}'), f"votes/sm90/k/M=1/{field}"),
    ):
        path = write_recording(tmp_path / "rec.rank0.json", text)
        for read in (read_recording, QuickReader().read):
            with pytest.raises(RecordingError, match=expected) as caught:
                read(path)
            assert f"{path}: at {place}: " in str(caught.value)


@pytest.mark.parametrize("arch", ["sm_103a", "SM103", "10.3", "103", "(10, 3)", "sm_103f"])
def test_every_spelling_of_an_arch_is_read_as_one(arch: str) -> None:
    text = json.dumps({arch: {"k": {"M=1": FULL}}}).encode()
    strict, quick = parse_recording(text, "r.json"), QuickReader().read_quickly(text, "r.json")
    assert list(strict.votes) == ["sm103"]
    assert quick in (None, strict)


@pytest.mark.parametrize("arch", ["sm_", "sm90x1", "sm9999999", "10.", "7", "(10", "gfx", "gfx94z", "1000.1"])
def test_what_is_almost_an_arch_is_refused(arch: str, tmp_path: Path) -> None:
    path = write_recording(tmp_path / "rec.rank0.json", {arch: {"k": {"M=1": FULL}}})
    for read in (read_recording, QuickReader().read):
        with pytest.raises(RecordingError, match=f"at {re.escape(arch)}: not an architecture; expected one like sm90"):
            read(path)
    with pytest.raises(FormatError, match="at arch: not an architecture"):
        TunedTable(arch, {})


def test_null_warps_and_stages_are_values_of_their_own() -> None:
    odd = config(num_warps=None, num_stages=None)
    text = json.dumps({"sm90": {"k": {"M=1": odd, "M=2": FULL}}}).encode()
    strict, quick = parse_recording(text, "r.json"), QuickReader().read_quickly(text, "r.json")
    assert strict == quick
    assert strict.votes["sm90"]["k"]["M=1"] == config_text(odd) != config_text(FULL)
    assert '"num_stages": null, "num_warps": null' in config_text(odd)


def test_ranks_come_from_names() -> None:
    assert rank_in_name("a.b.rank12.json") == ("a.b", 12)
    assert rank_in_name("rec.rankX.json") == ("rec.rankX", None)
    assert rank_in_name("rec.json") == ("rec", None)


def test_unreadable_paths(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path, Path("/dev/zero"), Path("a\0b")):
        with pytest.raises(FileError):
            read_recording(path)


def test_a_folder_is_not_a_regular_file_and_leaves_no_handle_open(tmp_path: Path) -> None:
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
