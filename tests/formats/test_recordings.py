"""Recording files: what is read, what is refused and how the refusal is worded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import H200, config, version_1, write_recording
from tests.model.test_canonical import configs, texts
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
        ({"rank": 8, "world_size": 8}, "rank 8 in a job of 8 ranks"),
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


def test_the_quick_road_reads_the_real_recordings_alike() -> None:
    reader = QuickReader()
    files = sorted(H200.glob("*.json"))
    assert len(files) == 16  # votes and timings of eight ranks
    for path in files:
        assert reader.read(path) == read_recording(path)
        assert reader.read_quickly(path.read_bytes(), str(path)) is not None  # and is really taken


milliseconds = st.floats(0, 1e6) | st.integers(0, 5) | st.sampled_from([float("inf"), -1.0, -0.0])
times = st.none() | st.just((None,) * 3) | st.tuples(*[milliseconds] * 3)
timed = st.lists(st.tuples(configs, times), max_size=3)


names = texts | st.sampled_from(["k", "sm90", "M=1", "M=True", "a:b", "*", "}, [1, 2, 3]"])


def by_entry(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(
        names, st.dictionaries(names, st.dictionaries(names, leaves, max_size=3), max_size=3), max_size=3
    )


sections = {"timings": by_entry(timed),
            "candidate_sets": by_entry(texts), "triton": st.sampled_from(["3.6.0", "Infinity", ""])}  # fmt: skip
documents = (
    by_entry(configs)
    | by_entry(timed)
    | st.fixed_dictionaries({"votes": by_entry(configs)}, optional=sections).map(
        lambda said: {"format": "tuning-registry recording", "version": 1, "run": "r", "rank": 0, **said}
    )
)


@given(documents, st.sampled_from([None, 1]), st.sampled_from([None, (",", ":")]), st.booleans(), st.data())
def test_the_quick_road_never_differs_from_the_strict_one(
    document: dict[str, Any], indent: int | None, separators: Any, ascii_only: bool, data: st.DataObject
) -> None:
    text = json.dumps(document, indent=indent, separators=separators, ensure_ascii=ascii_only).encode()
    for _ in range(data.draw(st.integers(0, 2))):  # damage it
        position = data.draw(st.integers(0, len(text)))
        text = (
            text[:position]
            + data.draw(
                st.sampled_from([b"", b'"', b":", b"}", b"{", b"]", b"[", b"1", b"-", b"\\", b"\x00", b",", b"NaN"])
            )
            + text[position + data.draw(st.integers(0, 2)) :]
        )
    quick = QuickReader().read_quickly(text, "r.json")
    if quick is not None:
        assert quick == parse_recording(text, "r.json")


C1, C2, C3 = (json.dumps(config(num_warps=n)) for n in (1, 2, 8))


@pytest.mark.parametrize(
    ("candidates", "is_quick"),
    [
        (f"[{C1}, [1, 2, 3]], [{C2}, [4, 5.5, 6]]", True),
        (f"[{C2}, [1, 2, 3]], [{C1}, [4, 5, 6]]", True),  # in another order than the texts
        (f"[{C2},[1,2,3]],[{C1},[4,5,6]]", True),
        (f"[{C2}, null], [{C1}, [4, 5, 6]], [{C3}, [null, null, null]]", True),
        (f"[{C2}, [1, Infinity, 3]], [{C1}, [4, 5, 6]]", True),
        (f"[{C2}, [1, 2, 3] ], [{C1}, [4e0,5.0\t, 6]]", True),
        (f"[{C2}, [1, 2, 3]], [{C1},[4, 5, 6]]", False),
        (f"[{C2}, [1, 2]], [{C1}, [4, 5, 6, 7]]", False),
        (f"[{C2}, [1, 2, -3]]", False),
        (f"[{C2}, [1, 2, 3]], [{C2}, [4, 5, 6]]", False),
        (f'[{C2}, "<times>"], [{C1}, [4, 5, 6]]', False),
        (f"[{C2}, []], [{C1}, [4, 5, 6]]", False),
        ('[{"kwargs": {"S": [{}, [1, 2, 3]]}, "num_warps": 4, "num_stages": 2}, "<times>"]', False),
    ],
)
def test_timings_in_any_shape_are_read_as_the_strict_road_reads_them(candidates: str, is_quick: bool) -> None:
    text = f'{{"sm90": {{"k": {{"M=1": [{candidates}]}}}}}}'.encode()
    reader = QuickReader()
    for _ in range(2):  # once to learn the layout
        quick = reader.read_quickly(text, "r.json")
        assert (quick is not None) == is_quick
        if quick is not None:
            assert quick == parse_recording(text, "r.json")


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_give_a_recording_or_our_error(data: bytes) -> None:
    try:
        parse_recording(data, "r.json")
    except RegistryError as error:
        assert str(error).startswith("r.json: ")
        assert "\n" not in str(error)


def test_a_repeated_key_is_never_lost_on_the_quick_road(tmp_path: Path) -> None:
    reader = QuickReader()
    reader.read(write_recording(tmp_path / "good.json", SEED))
    twice = SEED.replace('"k": {', '"k": {"M=1": ' + TEXT + ", ")
    with pytest.raises(RecordingError, match="twice"):
        reader.read(write_recording(tmp_path / "bad.json", twice))


@pytest.mark.parametrize("times", ["[1e300, 1, 1]", "[10e299, 1, 1]", "[1.5, 1, 1]"])
@pytest.mark.parametrize(
    "infinite", ['"source": "Infinity"', '"host": "1Infinity"', '"observations": {"sm90": {"Infinity": {}}}']
)
def test_infinity_elsewhere_is_not_made_up_for_by_a_number_in_its_place(infinite: str, times: str) -> None:
    text = (
        f'{{"format": "tuning-registry recording", "version": 1, "run": "r", "rank": 0, "votes": {{}}, {infinite}, '
        f'"timings": {{"sm90": {{"k": {{"M=1": [[{TEXT}, {times}]]}}}}}}}}'
    ).encode()
    quick = QuickReader().read_quickly(text, "r.json")
    assert quick is None or quick == parse_recording(text, "r.json")


@pytest.mark.parametrize("times", ["[1Infinity, 1, 1], [10e299, 1, 1]", "[Infinity0, 1, 1], [1E300, 1, 1]"])
def test_infinity_inside_a_number_is_no_time(times: str) -> None:
    first, second = times.split("], ")
    text = f'{{"sm90": {{"k": {{"M=1": [[{C1}, {first}]], [{C2}, {second}]]}}}}}}'.encode()
    assert QuickReader().read_quickly(text, "r.json") is None


def test_files_without_a_layout_in_common_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuning_registry.formats.fast_reader._LAYOUT_BYTES", 1000)
    reader = QuickReader()
    for number in range(50):
        text = f'{{"sm90": {{"k": {{"M={number}": [[{C1}, [1, 2, 3]]]}}}}}}'.encode()
        assert reader.read_quickly(text, "r.json") == parse_recording(text, "r.json")
    assert len(reader._layouts) < 10


def test_a_name_that_holds_infinity_keeps_it(tmp_path: Path) -> None:
    timed = json.dumps({"sm90": {"sum_Infinity_k": {"M=1": [[FULL, [1e300, 1e299, 1.5]]]}}})
    path = write_recording(tmp_path / "t.rank0.json", timed)
    assert QuickReader().read(path) == read_recording(path)
    assert list(read_recording(path).timings["sm90"]) == ["sum_Infinity_k"]


@pytest.mark.parametrize("section", ["votes", "timings", "observations", "candidate_sets"])
def test_a_strange_architecture_is_reported_whatever_is_recorded_on_it(section: str) -> None:
    value = {"votes": FULL, "timings": [[FULL, [1, 1, 1]]], "candidate_sets": "abc",
             "observations": {"config": None, "reason": "miss: no key"}}[section]  # fmt: skip
    kernels = {"k": {"M=1": value}}
    document = version_1({}) | {section: {"MI300X": kernels, "SM_90": kernels}}
    assert parse_recording(json.dumps(document).encode(), "r.json").strange_archs() == ["MI300X"]
