"""The evidence of a table: what is written is read back exactly, and what is wrong is named with its place."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuning_registry.errors import FormatError
from tuning_registry.formats.table_evidence import decode_evidence, encode_evidence
from tuning_registry.model.canonical import config_text, text_digest
from tuning_registry.model.slowdowns import FAILED, MOST_PERCENT


def text(kwargs: dict[str, Any], warps: int = 4, stages: int = 3, **launch: Any) -> str:
    return config_text({"kwargs": kwargs, "num_warps": warps, "num_stages": stages, **launch})


CONFIGS = [
    text({"B": 64}), text({"B": 64}, 8), text({"B": 64}, 8, 1), text({"B": 64}, num_ctas=2), text({"B": 64}, maxnreg=64),
    text({"B": 64}, ir_override="f.ttir"), text({"B": True}), text({"B": 1}), text({"B": 1.0}), text({"B": None}),
    text({"B": "1"}), text({"B": 'a "b" | \\'}), text({"B": [1, {"x": [2]}]}), text({"B": 64, "EVEN": False}), text({}),
    text({"num_warps": 2}), text({"num_warps": 2}, 8), text({"é": "☃"}), text({"B": 1e300}),
]  # fmt: skip
evidence = st.dictionaries(
    st.sampled_from(["pkg.kernel", "bare"]),
    st.dictionaries(
        st.sampled_from(["M=1", "M=2|f16", ""]),
        st.dictionaries(st.sampled_from(CONFIGS), st.integers(FAILED, MOST_PERCENT), min_size=1),
        min_size=1,
    ),
)


def config(block: int, warps: int = 4) -> str:
    return config_text({"kwargs": {"BLOCK": block}, "num_warps": warps, "num_stages": 3})


@given(evidence)
def test_what_is_written_is_read_back(stated: dict[str, dict[str, dict[str, int]]]) -> None:
    written = json.loads(json.dumps(encode_evidence(stated)))
    assert decode_evidence(written, stated) == stated


def test_a_long_integer_is_read_back() -> None:
    stated = {"k": {"M=1": {config(10**5000): 0, config(64): 7}}}
    assert decode_evidence(encode_evidence(stated), stated) == stated


def test_the_text_is_the_documented_one() -> None:
    rows = {"M=1": {config(64): 0, config(128): 12, config(128, 8): FAILED}, "M=2": {config(64): 31, config(128): 0}}
    assert encode_evidence({"pkg.kernel": rows}) == {"version": 1, "kernels": {"pkg.kernel": {
        "configs": ['[["BLOCK"],{"num_stages":3},["num_warps"],[128,4],[128,8],[64,4]]'],
        "slowdowns": {text_digest("M=1")[:12]: "12 x 0", text_digest("M=2")[:12]: "0 - 31"},
    }}}  # fmt: skip


def test_a_row_whose_key_has_left_the_table_is_ignored() -> None:
    written = encode_evidence({"k": {"M=1": {config(64): 0}, "M=2": {config(64): 5}}})
    assert decode_evidence(written, {"k": ["M=2", "M=3"], "other": ["M=1"]}) == {"k": {"M=2": {config(64): 5}}}
    assert decode_evidence(written, {}) == {}


@pytest.mark.parametrize("percent", [-2, 1000, True, 1.0])
def test_a_slowdown_out_of_range_is_not_written(percent: Any) -> None:
    with pytest.raises(FormatError, match="at k/M=1: expected a slowdown from 0 to 999 percent"):
        encode_evidence({"k": {"M=1": {config(64): percent}}})


ONE = '[["B"],{"num_stages":3,"num_warps":4},[],[64]]'


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "expected an object, found an array"),
        ({}, "at version: expected evidence version 1, found null"),
        ({"version": 2}, "found the integer 2; a newer tuning-registry may read it"),
        ({"version": True, "kernels": {}}, "at version: expected evidence version 1, found true"),
        ({"version": 1}, "at kernels: expected an object, found null"),
        ({"version": 1, "kernels": {"k": 1}}, "at kernels/k: expected an object"),
        ({"version": 1, "kernels": {"k": {"configs": ONE}}}, "at kernels/k/configs: expected an array of strings"),
        ({"version": 1, "kernels": {"k": {"configs": [1]}}}, "at kernels/k/configs/0: expected a string"),
        ({"version": 1, "kernels": {"k": {"configs": ["["]}}}, "at kernels/k/configs/0: not JSON"),
        ({"version": 1, "kernels": {"k": {"configs": ["[" * 100_000]}}}, "at kernels/k/configs/0: not JSON"),
        ({"version": 1, "kernels": {"k": {"configs": ["[[],{}]"]}}}, "at kernels/k/configs/0: expected an array of names"),
        ({"version": 1, "kernels": {"k": {"configs": ['[["B","B"],{},[]]']}}}, "configs/0: expected names of parameters"),
        ({"version": 1, "kernels": {"k": {"configs": ['[[],{"kwargs":{}},[]]']}}}, "configs/0: expected launch options"),
        ({"version": 1, "kernels": {"k": {"configs": ['[[],{"num_warps":1},["num_warps"],[2]]']}}}, "each once"),
        ({"version": 1, "kernels": {"k": {"configs": ['[["B"],{},[],[1,2]]']}}}, "configs/0/0: expected an array of 1 values"),
        ({"version": 1, "kernels": {"k": {"configs": ['[["B"],{},[],[1]]']}}}, "configs/0/0/num_warps: required config field"),
        ({"version": 1, "kernels": {"k": {"configs": ['[["B"],{"num_warps":1,"num_stages":1},[],[NaN]]']}}},
         "at kernels/k/configs/0/0/kwargs/B: nan is not a finite number"),
        ({"version": 1, "kernels": {"k": {"configs": [ONE, ONE]}}}, "at kernels/k/configs: one candidate has two columns"),
        ({"version": 1, "kernels": {"k": {"configs": [ONE]}}}, "at kernels/k/slowdowns: expected an object"),
        ({"version": 1, "kernels": {"k": {"configs": [ONE], "slowdowns": {"ab": "1 2"}}}},
         "at kernels/k/slowdowns/ab: expected 1 slowdowns in a string"),
        ({"version": 1, "kernels": {"k": {"configs": [ONE], "slowdowns": {"ab": 1}}}}, "found the integer 1"),
        ({"version": 1, "kernels": {"k": {"configs": [ONE], "slowdowns": {"ab": "1000"}}}}, "expected 0 to 999, x or -"),
        ({"version": 1, "kernels": {"k": {"configs": [ONE], "slowdowns": {"ab": "01"}}}}, "expected 0 to 999, x or -"),
        ({"version": 1, "kernels": {"k": {"configs": [ONE], "slowdowns": {"ab": "\u0661"}}}}, "expected 0 to 999, x or -"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(document: object, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        decode_evidence(document, {"k": ["M=1"]})
    assert message in str(caught.value)
