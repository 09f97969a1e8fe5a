"""One text per config, and its strict inverse."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import config
from tuning_registry.errors import FormatError
from tuning_registry.model.canonical import (
    FIELDS,
    config_text,
    dump_json,
    live_config_text,
    parse_config,
    parse_integer,
)

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
configs = st.fixed_dictionaries(
    {
        "kwargs": st.dictionaries(texts, values, max_size=4),
        "num_warps": st.none() | st.integers(1, 64),
        "num_stages": st.none() | st.integers(0, 64),
    },
    optional={
        "num_ctas": st.integers(1, 32),
        "maxnreg": st.none() | st.integers(1, 1024),
        "ir_override": st.none() | texts,
    },
)


@given(configs)
def test_parse_is_the_inverse_of_text(value: dict[str, Any]) -> None:
    text = config_text(value)
    assert text.isascii()
    assert list(json.loads(text)) == sorted(FIELDS)
    assert config_text(parse_config(text)) == text


@given(configs, st.randoms())
def test_order_of_fields_does_not_matter(value: dict[str, Any], random: Any) -> None:
    def shuffled(mapping: dict[str, Any]) -> dict[str, Any]:
        items = list(mapping.items())
        random.shuffle(items)
        return dict(items)

    assert config_text(shuffled(value | {"kwargs": shuffled(value["kwargs"])})) == config_text(value)


def test_text_is_sorted_json_with_default_separators() -> None:
    assert config_text({"num_warps": 4, "num_stages": 3, "kwargs": {"B": 64, "A": "é"}}) == (
        '{"ir_override": null, "kwargs": {"A": "\\u00e9", "B": 64}, "maxnreg": null, '
        '"num_ctas": 1, "num_stages": 3, "num_warps": 4}'
    )


def test_type_and_value_decide() -> None:
    kinds = [True, 1, 1.0, "1", None, -0.0, 0.0, 0, False, 0.1, 1e-8]
    assert len({config_text(config(B=value)) for value in kinds}) == len(kinds)
    assert config_text(config(B=1e2)) == config_text(config(B=100.0))
    for value in (0.1, 1e-8, -0.0, 5e-324, 1.7976931348623157e308):
        assert repr(parse_config(config_text(config(B=value)))["kwargs"]["B"]) == repr(value)


def test_absent_optional_fields_mean_their_defaults() -> None:
    assert config_text({"kwargs": {"B": 64}, "num_warps": 4, "num_stages": 3}) == config_text(config())
    assert config_text(config(maxnreg=128)) != config_text(config())


@pytest.mark.parametrize("field", ["kwargs", "num_warps", "num_stages"])
def test_required_fields_have_no_default(field: str) -> None:
    broken = {name: value for name, value in config().items() if name != field}
    with pytest.raises(FormatError, match=f"required config field '{field}' is missing") as caught:
        config_text(broken)
    assert caught.value.path == (field,)


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"num_warps": True}, "num_warps", "expected an integer or null, found true"),
        ({"num_warps": 4.0}, "num_warps", "expected an integer or null, found the number 4.0"),
        ({"num_ctas": None}, "num_ctas", "expected an integer, found null"),
        ({"num_ctas": "1"}, "num_ctas", "expected an integer, found the string '1'"),
        ({"maxnreg": False}, "maxnreg", "expected an integer or null, found false"),
        ({"ir_override": 7}, "ir_override", "expected a string or null, found the integer 7"),
        ({"kwargs": []}, "kwargs", "expected an object of kernel parameters, found an array"),
        ({"kwargs": {"S": float("nan")}}, "kwargs/S", "nan is not a finite number"),
        ({"kwargs": {"S": [1, float("inf")]}}, "kwargs/S/1", "inf is not a finite number"),
        ({"kwargs": {"S": "a\0"}}, "kwargs/S", "a NUL character"),
        ({"kwargs": {"a\0": 1}}, "kwargs", "a NUL character"),
        ({"kwargs": {"S": "\ud800"}}, "kwargs/S", "a lone surrogate"),
        ({"kwargs": {"S": {1, 2}}}, "kwargs/S", "a set, which JSON cannot hold"),
        ({"waves_per_eu": 2}, "waves_per_eu", "unknown config field"),
        ({"num_consumer_groups": 2}, "num_consumer_groups", "changes the kernel and cannot be stored"),
        ({"num_buffers_warp_spec": False}, "num_buffers_warp_spec", "false changes the kernel"),
        ({"pre_hook": "clear"}, "pre_hook", "changes the kernel and cannot be stored"),
    ],
)
def test_what_is_refused_names_its_place(change: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        config_text(config(**change))
    assert "/".join(caught.value.path) == path
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("field", "values", "expected"),
    [
        ("num_warps", [-4, 0, 65, 2**31, 2**63, 10**5000], "from 1 to 64 or null"),
        ("num_stages", [-1, 65], "from 0 to 64 or null"),
        ("num_ctas", [0, -1, 33], "from 1 to 32, found"),
        ("maxnreg", [0, -5, 1025, 10**5000], "from 1 to 1024 or null"),
    ],
)
def test_launch_options_that_no_gpu_has_are_refused(field: str, values: list[int], expected: str) -> None:
    for value in values:
        with pytest.raises(FormatError, match=f"at {field}: expected an integer {expected}"):
            config_text(config(**{field: value}))
        stored = dump_json(config(**{field: value}), sort_keys=True)
        assert parse_config(stored)[field] == value  # a database that holds it can still show it


def test_the_ends_of_the_ranges_are_accepted_and_null_is_a_value() -> None:
    ends: list[dict[str, Any]] = [{"num_warps": n} for n in (1, 64, None)] + [{"num_stages": n} for n in (0, 64, None)]
    ends += [{"num_ctas": n} for n in (1, 32)] + [{"maxnreg": n} for n in (1, 1024, None)]
    texts = [config_text(config(**end)) for end in ends]
    assert [parse_config(text) for text in texts] == [config(**end) for end in ends]
    assert config_text(config(num_stages=None)) != config_text(config(num_stages=0))
    assert config_text(config(num_warps=None)) not in {config_text(config(num_warps=n)) for n in range(1, 65)}


def test_neutral_fields_of_other_tritons_are_dropped() -> None:
    other = {"num_consumer_groups": 0, "num_buffers_warp_spec": 0, "reg_dec_producer": 0, "reg_inc_consumer": 0}
    assert config_text(config(**other, pre_hook=None)) == config_text(config())


def test_deep_values_are_refused_not_followed() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    with pytest.raises(FormatError, match="nested more than 32 levels"):
        config_text(config(kwargs={"B": deep}))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"a"', '{ "ir_override": null}', "[" * 100_000])
def test_only_canonical_text_is_parsed(text: str) -> None:
    with pytest.raises(FormatError):
        parse_config(text)
    with pytest.raises(FormatError, match="spelled differently"):
        parse_config(json.dumps(config()))


@pytest.mark.parametrize("digits", ["0", "-7", "1" + "0" * 4298, "9" * 4300, "-" + "1234567890" * 2000])
def test_integers_of_any_length_are_exact(digits: str) -> None:
    value = parse_integer(digits)
    assert dump_json({"n": [value, "x"]}, indent=1) == '{\n "n": [\n  ' + digits + ',\n  "x"\n ]\n}'
    assert (
        value % 1_000_003
        == sum(int(digit) * pow(10, place, 1_000_003) for place, digit in enumerate(reversed(digits.lstrip("-"))))
        * (-1 if digits.startswith("-") else 1)
        % 1_000_003
    )


class BackendConfig:
    """A `Config` of another backend, with an extra launch field."""

    def __init__(self, num_warps: int = 4, multibuffer: bool = False, **launch: object) -> None:
        self.kwargs = {"B": 64}
        self.num_warps, self.num_stages, self.multibuffer, self.launch = num_warps, 3, multibuffer, launch
        self.bookkeeping = "not passed to a launch"

    def all_kwargs(self) -> dict[str, object]:
        own = {"num_warps": self.num_warps, "num_stages": 3, "multibuffer": self.multibuffer}
        return {**self.kwargs, **own, **self.launch}


def test_a_launch_field_of_a_backend_is_dropped_at_its_default_and_sets_a_candidate_apart_at_another_value() -> None:
    assert live_config_text(BackendConfig()) == config_text(config())
    for changed in ({"multibuffer": True}, {"multibuffer": 0}, {"unknown": None}, {"num_stages": 2},
                    {"B": 32}, {"B": 64.0}, {"reg_dec_producer": 24}):  # fmt: skip
        assert live_config_text(BackendConfig(**changed)) is None, changed
    assert live_config_text(BackendConfig(reg_dec_producer=0)) == config_text(config())


def test_live_configs_are_read_field_by_field() -> None:
    live = SimpleNamespace(kwargs={"B": 64, "T": (1, (2, 3))}, num_warps=4, num_stages=3, pre_hook=print)
    assert live_config_text(live) == config_text(config(kwargs={"B": 64, "T": [1, [2, 3]]}))
    assert live_config_text(SimpleNamespace(kwargs={"B": object()}, num_warps=4, num_stages=3)) is None
    assert live_config_text(SimpleNamespace(kwargs={"B": 1}, num_warps=4, num_stages=3, num_consumer_groups=2)) is None
    assert live_config_text(SimpleNamespace()) is None
