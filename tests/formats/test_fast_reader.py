"""The fast reader: every file that it reads itself, the strict reader reads alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import H200, config, version_1, write_recording
from tests.model.test_canonical import configs, texts
from tuning_registry.errors import RecordingError, RegistryError
from tuning_registry.formats.fast_reader import QuickReader
from tuning_registry.formats.recordings import parse_recording, read_recording
from tuning_registry.model.records import Recording

FULL = config()
TEXT = json.dumps(FULL)
SEED = json.dumps({"sm90": {"k": {"M=1": FULL}}})
C1, C2, C3 = (json.dumps(config(num_warps=n)) for n in (1, 2, 8))


def strictly(data: bytes) -> Recording | None:
    """What the strict reader makes of a file; None if it refuses it."""
    try:
        return parse_recording(data, "r.json")
    except RegistryError:
        return None


def test_the_real_recordings() -> None:
    reader = QuickReader()
    files = sorted(H200.glob("*.json"))
    assert len(files) == 16  # votes and timings of eight ranks
    for path in files:
        quick = reader.read_quickly(path.read_bytes(), str(path))
        assert quick is not None
        assert quick == read_recording(path) == reader.read(path)


# What ranks write: known architectures, and names and configs of every kind.
archs = st.sampled_from(["sm90", "sm103", "gfx942"])
names = st.sampled_from(["k", "pkg.k", "M=1", "M=True", "*", "}, [2, 1, 3]"]) | texts.filter(bool)
milliseconds = (
    st.floats(0, 1e6) | st.integers(0, 5) | st.integers(0, 10**25) | st.sampled_from([float("inf"), -0.0, -1.5])
)
ordered = st.lists(st.floats(1e-6, 1e9), min_size=3, max_size=3).map(
    lambda three: [sorted(three)[n] for n in (1, 0, 2)]
)
times = st.none() | st.just((None,) * 3) | ordered | st.tuples(*[milliseconds] * 3)
timed = st.lists(st.tuples(configs, times), max_size=3, unique_by=lambda pair: json.dumps(pair[0], sort_keys=True))


def by_entry(leaves: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    entries = st.dictionaries(names, leaves, min_size=least, max_size=3)
    return st.dictionaries(
        archs, st.dictionaries(names, entries, min_size=least, max_size=3), min_size=least, max_size=3
    )


sections = {"timings": by_entry(timed), "candidate_sets": by_entry(texts), "triton": st.just("3.6.0")}
since_2 = {
    "sources": st.dictionaries(names, st.just("0123456789abcdef" * 4), max_size=2),
    "extra": st.dictionaries(texts, st.recursive(st.none() | texts | st.floats(), st.lists, max_leaves=3), max_size=2),
    "cuda": texts,
    "attempt": st.integers(0, 3),
}
documents = (
    st.fixed_dictionaries({"votes": by_entry(configs, 1)}, optional=sections | since_2).map(
        lambda stated: {
            "format": "tuning-registry recording",
            "version": 2,
            "run": "r",
            "rank": 0,
            "id": "f" * 32,
            **stated,
        }
    )
    | by_entry(configs, 1)
    | by_entry(timed, 1)
    | st.fixed_dictionaries({"votes": by_entry(configs, 1)}, optional=sections).map(
        lambda stated: {"format": "tuning-registry recording", "version": 1, "run": "r", "rank": 0, **stated}
    )
)
indents, separators = st.sampled_from([None, 1]), st.sampled_from([None, (",", ":")])


def test_the_fast_reader_never_differs_from_the_strict_one() -> None:
    fast: list[bool] = []

    @given(documents, indents, separators, st.booleans())
    def compare(document: dict[str, Any], indent: int | None, separators: Any, ascii_only: bool) -> None:
        text = json.dumps(document, indent=indent, separators=separators, ensure_ascii=ascii_only).encode()
        quick, strict = QuickReader().read_quickly(text, "r.json"), strictly(text)
        assert quick is None or quick == strict
        if strict is not None:
            fast.append(quick is not None)

    compare()
    assert len(fast) > 50
    assert fast.count(True) > len(fast) / 2  # otherwise the comparison says little


DAMAGE = [b"", b'"', b":", b"}", b"{", b"]", b"[", b"1", b"-", b"\\", b"\x00", b",", b"NaN", b"Infinity", b"null"]


@given(documents, indents, separators, st.data())
def test_a_damaged_file_is_refused_or_read_alike(
    document: dict[str, Any], indent: int | None, separators: Any, data: st.DataObject
) -> None:
    text = json.dumps(document, indent=indent, separators=separators).encode()
    for _ in range(data.draw(st.integers(1, 2))):
        position = data.draw(st.integers(0, len(text)))
        removed = data.draw(st.integers(0, 2))
        text = text[:position] + data.draw(st.sampled_from(DAMAGE)) + text[position + removed :]
    quick = QuickReader().read_quickly(text, "r.json")
    assert quick is None or quick == strictly(text)


@pytest.mark.parametrize(
    ("candidates", "is_quick"),
    [
        (f"[{C1}, [2, 1, 3]], [{C2}, [5.5, 5, 6]]", True),
        (f"[{C2}, [2, 1, 3]], [{C1}, [5, 4, 6]]", True),  # in another order than the texts
        (f"[{C2},[2,1,3]],[{C1},[5,4,6]]", True),
        (f"[{C2}, [2, 1, 3]], [{C1},[5, 4, 6]]", True),
        (f"[{C2}, null], [{C1}, [5, 4, 6]], [{C3}, [null, null, null]]", True),
        (f"[{C2}, [null, 2, 3]], [{C1}, [5, 4, 6]]", True),
        (f"[{C2}, [1, Infinity, 3]], [{C1}, [5, 4, 6]]", True),
        (f"[{C2}, [Infinity, Infinity, Infinity]]", True),
        (f"[{C2}, [Infinity, null, 1]]", True),
        (f"[{C2}, [1e300, 1, 1]], [{C1}, [Infinity, 1, 1]]", True),
        (f"[{C2}, [2, 1, 3] ], [{C1}, [5e0,4.0\t, 6]]", True),
        (f"[{C2}, [1, 2, 123456789012345678901234567890]]", True),
        (f"[{C2}, [0, -0, -0.0]]", True),
        (f"[{C2}, [2, 3, 1]], [{C1}, [5, 4, 6]]", True),  # no order that percentiles have
        (f"[{C2}, [2, 2.000001, 2]], [{C1}, [5, 5.00001, 5]]", True),  # the first by rounding only
        (f"[{C2}, [1e-9, 1e-9, 1e-9]], [{C1}, [1e10, 1e10, 1e10]]", True),
        ("", True),
        (f"[{C2}, [1, 2, {10**400}]]", False),
        (f"[{C2}, [1, 2, 1e999]]", False),
        (f"[{C2}, [1, 2]], [{C1}, [4, 5, 6, 7]]", False),
        (f"[{C2}, [2, 1, 3], 4]", False),
        (f"[{C2}]", False),
        (f"[{C2}, [1, 2, -3]], [{C1}, [5, 4, 6]]", True),
        (f"[{C2}, [null, 2, -3]]", True),
        (f"[{C2}, [1, Infinity, -3]]", True),
        (f"[{C2}, [1, -Infinity, 3]]", False),
        (f"[{C2}, [1, NaN, 3]]", False),
        (f"[{C2}, [true, 1, 1]]", False),
        (f'[{C2}, ["Infinity", 1, 1]]', False),
        (f'[{C2}, ["\\u0049nfinity", 1, 1]]', False),
        (f'[{C2}, ["\\u0049nfinity", 1, 1]], [{C1}, [1, Infinity, 1]]', False),
        (f"[{C2}, [2, 1, 3]], [{C2}, [5, 4, 6]]", False),
        (f'[{C2}, "Infinity"], [{C1}, [5, 4, 6]]', False),
        (f"[{C2}, []], [{C1}, [5, 4, 6]]", False),
        (f"[{C2.replace('64', 'Infinity')}, [2, 1, 3]]", False),
        (f"[{C2.replace('null', 'Infinity')}, [2, 1, 3]]", False),
        ('[{"kwargs": {"S": [{}, [2, 1, 3]]}, "num_warps": 4, "num_stages": 2}, "Infinity"]', False),
    ],
)
def test_timings_in_any_shape_are_read_as_the_strict_reader_reads_them(candidates: str, is_quick: bool) -> None:
    seed = f'{{"sm90": {{"k": {{"M=1": [{candidates}]}}}}}}'
    ours = json.dumps(version_1({}))[:-1] + f', "timings": {seed}}}'
    reader = QuickReader()
    for text in [seed.encode(), ours.encode()] * 2:  # twice: the second time the candidates are known
        quick = reader.read_quickly(text, "r.json")
        assert (quick is not None) == is_quick
        if quick is not None:
            assert repr(quick) == repr(parse_recording(text, "r.json"))  # tells 0.0 from -0.0
            assert quick == parse_recording(text, "r.json")


def test_a_repeated_key_is_never_lost(tmp_path: Path) -> None:
    reader = QuickReader()
    reader.read(write_recording(tmp_path / "good.json", SEED))
    timed = json.dumps({"sm90": {"k": {"M=1": [[FULL, [2, 1, 3]]]}}})
    for text, again in ((SEED, TEXT), (timed, f"[[{TEXT}, [2, 1, 3]]]")):
        for twice in (text.replace('"k": {', f'"k": {{"M=1": {again}, '), text.replace('"k": {', '"k": {}, "k": {')):
            with pytest.raises(RecordingError, match="twice"):
                reader.read(write_recording(tmp_path / "bad.json", twice))


@pytest.mark.parametrize("times", ["[1e300, 1, 1]", '["\\u0049nfinity", 1, 1]', "[null, 1, 1]", "[1.5, 1, 1]"])
@pytest.mark.parametrize(
    "infinite",
    ['"source": "Infinity"', '"host": "1Infinity"', '"source": Infinity',
     '"observations": {"sm90": {"Infinity": {}}}', '"observations": {"sm90": {Infinity: {}}}'],
)  # fmt: skip
def test_infinity_elsewhere_is_not_made_up_for_by_a_time(infinite: str, times: str) -> None:
    text = (
        f'{{"format": "tuning-registry recording", "version": 1, "run": "r", "rank": 0, "votes": {{}}, {infinite}, '
        f'"timings": {{"sm90": {{"k": {{"M=1": [[{TEXT}, {times}]]}}}}}}}}'
    ).encode()
    quick = QuickReader().read_quickly(text, "r.json")
    assert quick is None or quick == strictly(text)


@pytest.mark.parametrize("times", ["[1Infinity, 1, 1], [10e299, 1, 1]", "[Infinity0, 1, 1], [1E300, 1, 1]"])
def test_infinity_inside_a_number_is_not_a_time(times: str) -> None:
    first, second = times.split("], ")
    text = f'{{"sm90": {{"k": {{"M=1": [[{C1}, {first}]], [{C2}, {second}]]}}}}}}'.encode()
    assert QuickReader().read_quickly(text, "r.json") is None


def test_a_name_that_holds_infinity_keeps_it(tmp_path: Path) -> None:
    timed = json.dumps({"sm90": {"sum_Infinity_k": {"M=1": [[FULL, [1e8, 1e7, 1e9]]]}}})
    path = write_recording(tmp_path / "t.rank0.json", timed)
    assert QuickReader().read(path) == read_recording(path)
    assert list(read_recording(path).timings["sm90"]) == ["sum_Infinity_k"]


def test_lists_of_candidates_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuning_registry.formats.fast_reader._CANDIDATE_LISTS", 10)
    reader = QuickReader()
    for number in range(50):
        text = f'{{"sm90": {{"k": {{"M=1": [[{json.dumps(config(B=number))}, [2, 1, 3]]]}}}}}}'.encode()
        assert reader.read_quickly(text, "r.json") == parse_recording(text, "r.json")
    assert reader._candidates.cache_info().currsize == 10
