"""Kinds of config: one text for each config, and the kind from the text alone."""

from __future__ import annotations

import json

import pytest

from tests.conftest import config
from tuning_registry.errors import FormatError
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import config_text
from tuning_registry.model.kinds import Kind, fields_of, helion_text, kind_of, launch_text, tactic_text
from tuning_registry.rules.spellings import alike, one_spelling


def test_the_text_of_triton_configs_is_as_it_was() -> None:
    text = config_text(config(B=16))
    assert text == json.dumps(config(B=16), sort_keys=True)
    assert kind_of(text) is Kind.TRITON


@pytest.mark.parametrize(
    ("text", "kind", "short"),
    [
        (launch_text({"num_warps": 4, "BLOCK_SIZE_M": 16}), Kind.LAUNCH, "BLOCK_SIZE_M=16 num_warps=4"),
        (tactic_text("MoERunner", [8, 34]), Kind.TACTIC, "MoERunner [8, 34]"),
        (tactic_text("MoERunner", -1, policy=["l2", 1]), Kind.TACTIC, 'MoERunner -1 policy=["l2", 1]'),
        (helion_text({"block_sizes": [64], "pid_type": "flat"}), Kind.HELION, "block_sizes=[64] pid_type=flat"),
    ],
)
def test_the_text_of_other_kinds_states_the_kind(text: str, kind: Kind, short: str) -> None:
    assert kind_of(text) is kind
    assert json.loads(text) == {str(kind): fields_of(text)}
    assert short_config(text) == short
    assert one_spelling(text) == text


def test_equal_parameters_have_one_text_and_nothing_is_added() -> None:
    assert launch_text({"a": 1, "b": 2}) == launch_text({"b": 2, "a": 1}) == '{"launch": {"a": 1, "b": 2}}'
    assert launch_text({"a": 1}) != launch_text({"a": True})
    assert alike([launch_text({"a": 1}), launch_text({"a": True})]) == []


def test_a_triton_config_whose_parameter_is_named_like_a_kind_is_a_triton_config() -> None:
    assert kind_of(config_text(config(LAUNCH=1) | {"kwargs": {"launch": 1}})) is Kind.TRITON


@pytest.mark.parametrize("wrong", [None, [], 3, "x", {}, {"a": float("nan")}, {"a\0": 1}, {"a": {1, 2}}])
def test_what_is_no_object_of_json_values_is_refused(wrong: object) -> None:
    with pytest.raises(FormatError):
        launch_text(wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"num_warps": -4}, "expected an integer from 1 to 64 or null, found the integer -4"),
        ({"num_warps": 2**63}, "expected an integer from 1 to 64 or null"),
        ({"num_warps": "4"}, "expected an integer or null, found the string '4'"),
        ({"num_warps": True}, "expected an integer or null, found true"),
        ({"num_stages": 4.0}, "expected an integer or null, found the number 4.0"),
        ({"num_stages": -1}, "expected an integer from 0 to 64 or null"),
        ({"num_ctas": None}, "expected an integer, found null"),
        ({"maxnreg": 0}, "expected an integer from 1 to 1024 or null"),
    ],
)
def test_launch_options_have_the_ranges_of_a_config(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(FormatError, match=said) as caught:
        launch_text({"BLOCK_SIZE_M": 16, **wrong})
    assert caught.value.path == tuple(wrong)


def test_a_runner_needs_a_name() -> None:
    with pytest.raises(FormatError, match="the runner has no name"):
        tactic_text("", 1)


@pytest.mark.parametrize("text", ["{}", '{"launch": ', config_text(config())])
def test_fields_of_other_texts_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        fields_of(text)
