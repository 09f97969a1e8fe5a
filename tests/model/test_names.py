"""Architectures, kernels and shape keys: spellings that mean the same, and those that do not."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuning_registry.model.names import (
    bare_name,
    format_key,
    is_known_arch,
    lookup_key,
    normal_arch,
    positional_key,
    rank_ranges,
    split_key,
    top_module,
)
from tuning_registry.rules.near_keys import differences


@pytest.mark.parametrize(
    ("given_arch", "normal"),
    [
        ("sm90", "sm90"),
        ("SM103", "sm103"),
        ("sm_90", "sm90"),
        ("sm_103a", "sm103"),
        ("sm_90a", "sm90"),
        ("SM100f", "sm100"),
        ("10.0", "sm100"),
        ("10.3", "sm103"),
        ("100", "sm100"),
        ("90a", "sm90"),
        ("(10,0)", "sm100"),
        ("(9, 0)", "sm90"),
        ((10, 0), "sm100"),
        ((12, 1), "sm121"),
        ("gfx942:sramecc+:xnack-", "gfx942"),
        ("GFX942", "gfx942"),
        ("gfx90a", "gfx90a"),
        ("MI300X", "MI300X"),
        ("weird:name", "weird:name"),
        ("10.", "10."),
        ("1000", "1000"),
        ("7", "7"),
        ("unknown", "unknown"),
    ],
)
def test_normal_arch(given_arch: str | tuple[int, int], normal: str) -> None:
    assert normal_arch(given_arch) == normal
    assert normal_arch(normal) == normal


def test_known_archs() -> None:
    assert [a for a in ("sm90", "sm90a", "gfx942", "unknown", "MI300X", "", "1") if is_known_arch(a)] == [
        "sm90", "gfx942", "unknown",
    ]  # fmt: skip


def test_parts_of_kernel_names() -> None:
    assert (bare_name("a.b.k"), top_module("a.b.k")) == ("k", "a")
    assert (bare_name("k"), top_module("k")) == ("k", "")


def test_a_key_is_names_values_and_dtypes() -> None:
    values = [("D", 128), ("NB", True), ("S", 1.5), ("X", None), ("mode", "mean")]
    assert format_key(values, ["torch.bfloat16"]) == "D=128|NB=True|S=1.5|X=None|mode=mean|torch.bfloat16"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a|b=c\\d", "a\\|b\\=c\\\\d"),
        ("1", "\\1"),
        ("True", "\\True"),
        ("None", "\\None"),
        ("1e5", "\\1e5"),
        ("nan", "\\nan"),
        ("1x", "1x"),
        ("", ""),
    ],
)
def test_string_values_are_escaped(value: str, text: str) -> None:
    assert format_key([("M", value)], []) == f"M={text}"


@given(st.lists(st.tuples(st.just("M"), st.text() | st.integers() | st.booleans() | st.none()), min_size=1))
def test_escaped_keys_split_where_they_were_joined(values: list[tuple[str, object]]) -> None:
    key = format_key(values, ["torch.float32"])
    assert len(split_key(key)) == len(values) + 1


plain = st.integers() | st.booleans() | st.none() | st.text() | st.floats(allow_nan=False, allow_infinity=False)


@given(plain, plain)
def test_keys_meet_exactly_when_a_dict_cannot_tell_their_values_apart(one: object, other: object) -> None:
    same = {one: 0, other: 1} == {one: 1}  # how Triton's own cache tells keys apart
    assert (lookup_key(format_key([("M", one)], ["x"])) == lookup_key(format_key([("M", other)], ["x"]))) == same


@pytest.mark.parametrize(
    "split",
    [
        lambda: split_key("e\\" + "x" * 1_500_000),
        lambda: format_key([("M", "1" * 20_000 + "x")], []),
        lambda: differences("|".join(["M=1"] * 12_000), "|".join(["M=2"] * 12_000)),
    ],
    ids=["one long field", "almost a number", "many fields"],
)
def test_long_keys_take_no_square_of_their_length(split: Callable[[], object]) -> None:
    begin = time.process_time()
    split()
    assert time.process_time() - begin < 5


def test_spellings_of_one_value_meet_and_others_do_not() -> None:
    spelt = [
        format_key([("M", value)], ["torch.bfloat16"]) for value in (True, 1, 1.0, "1", None, "True", 0, False, -0.0)
    ]
    assert [lookup_key(key).split("|")[0] for key in spelt] == [
        "M=1", "M=1", "M=1", "M=\\1", "M=None", "M=\\True", "M=0", "M=0", "M=0",
    ]  # fmt: skip
    assert lookup_key("*") == "*"
    assert lookup_key("M=(True, 2.0, -1.5)|x") == lookup_key("M=(1, 2, -1.5)|x") == "M=(1, 2, -1.5)|x"
    assert lookup_key("M=('True', 2)") == "M=('True', 2)"


def test_keys_without_names_meet_by_position() -> None:
    assert positional_key("BT=64|G=True|torch.bfloat16") == positional_key("?=64|?=1|torch.bfloat16")
    assert positional_key("BT=64|G=\\1|x") != positional_key("?=64|?=1|x")


def test_rank_ranges() -> None:
    assert rank_ranges([5, 0, 2, 1, 2]) == "0-2,5"
    assert rank_ranges([]) == ""
