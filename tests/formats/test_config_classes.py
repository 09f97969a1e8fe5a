"""Classes of configs: what belongs to one, how a table bans one, and how people write one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import config
from tuning_registry.errors import FormatError, UsageError
from tuning_registry.formats.bans import Bans
from tuning_registry.formats.config_classes import ConfigSet, class_text, covers, is_class
from tuning_registry.formats.short_configs import find_config, short_config, title_of
from tuning_registry.model.canonical import config_text

SLOW = config_text(config(B=64, num_warps=8))
FAST = config_text(config(B=64, num_warps=4))
WIDE = config_text(config(B=128, C=True, num_warps=8))


@pytest.mark.parametrize(
    ("fields", "members"),
    [
        ({"num_warps": 8}, [SLOW, WIDE]),
        ({"kwargs": {"B": 64}}, [SLOW, FAST]),
        ({"kwargs": {"B": 64.0}, "num_warps": 8}, [SLOW]),
        ({"kwargs": {"C": 1}}, [WIDE]),
        ({"kwargs": {"B": 64}, "num_warps": 4, "num_stages": 3}, [FAST]),
        ({"maxnreg": None, "num_ctas": 1}, [SLOW, FAST, WIDE]),
        ({"num_warps": 16}, []),
        ({"kwargs": {"D": 1}}, []),
    ],
)
def test_a_config_belongs_to_a_class_if_it_has_its_fields(fields: dict[str, Any], members: list[str]) -> None:
    text = class_text(fields)
    assert is_class(text)
    assert [one for one in (SLOW, FAST, WIDE) if covers(text, one)] == members


@pytest.mark.parametrize(
    "fields",
    [{}, {"kwargs": {}}, {"warps": 8}, {"num_warps": "8"}, {"num_warps": 65}, {"num_ctas": None}, config(), [], None],
)
def test_what_is_not_a_class(fields: object) -> None:
    with pytest.raises(FormatError):
        class_text(fields)


values = st.sampled_from([1, 2, True, 1.0, "x", None])
configs = st.builds(
    lambda kwargs, warps, stages: config_text({"kwargs": kwargs, "num_warps": warps, "num_stages": stages}),
    st.dictionaries(st.sampled_from("AB"), values), st.sampled_from([1, 2, None]), st.sampled_from([1, 2]),
)  # fmt: skip


@given(configs, st.sets(st.sampled_from(["A", "B", "num_warps", "num_stages", "maxnreg"]), min_size=1), configs)
def test_a_class_is_what_its_members_share(text: str, names: set[str], other: str) -> None:
    def part(one: str) -> dict[str, Any]:
        whole = json.loads(one)
        flat = {**whole.pop("kwargs"), **whole}
        return {name: flat[name] for name in names if name in flat}

    mine = part(text)
    kwargs = {name: mine[name] for name in mine if name in "AB"}
    fields = {**{name: mine[name] for name in mine if name not in "AB"}, **({"kwargs": kwargs} if kwargs else {})}
    if not fields:
        return
    found = ConfigSet([class_text(fields)])
    assert text in found
    theirs = part(other)
    assert (other in found) == all(name in theirs and theirs[name] == mine[name] for name in mine)


def test_a_table_bans_classes_and_a_pin_of_the_key_spares_one_config() -> None:
    place = {"kernel": "p.k", "key": "*"}
    bans = Bans([
        {"action": "ban", **place, "config": {"num_warps": 8}},
        {"action": "pin", "kernel": "p.k", "key": "M=1", "config": json.loads(SLOW)},
    ])  # fmt: skip
    assert bans.forbids("p.k", "M=2", SLOW)
    assert bans.forbids("p.k", None, WIDE)
    assert not bans.forbids("p.k", "M=2", FAST)
    assert (bans.forbids("p.k", "M=1", SLOW), bans.forbids("p.k", "M=1", WIDE)) == (False, True)
    assert SLOW in bans.anywhere("p.k")
    assert list(bans.at("p.k", "M=2")) == ['{"num_warps": 8}']
    assert bans.to_list() == [
        ["ban", "p.k", "*", ['{"num_warps": 8}']],
        ["pin", "p.k", "M=1", [SLOW]],
    ]
    here = Bans([{"action": "ban", "kernel": "p.k", "key": "M=1", "config": {"num_warps": 8}},
                 {"action": "pin", "kernel": "p.k", "key": "M=1", "config": json.loads(SLOW)}])  # fmt: skip
    assert here.forbids("p.k", "M=1", SLOW)


@pytest.mark.parametrize("fields", [{}, {"warps": 8}, {"num_warps": [8]}])
def test_a_table_with_a_ban_of_nothing_is_refused(fields: object) -> None:
    with pytest.raises(FormatError, match="0/config"):
        Bans([{"action": "ban", "kernel": "k", "key": "*", "config": fields}])
    assert not Bans([{"action": "ban", "kernel": "k", "key": "*", "config": {"num_warps": 4096}}])


@pytest.mark.parametrize(
    ("given_as", "fields"),
    [
        ("num_warps=8", {"num_warps": 8}),
        ("B=64  num_stages=2", {"kwargs": {"B": 64}, "num_stages": 2}),
        ("B=True C=None D=x E=1.5", {"kwargs": {"B": True, "C": None, "D": "x", "E": 1.5}}),
        ('{"num_warps": 8}', {"num_warps": 8}),
        ('{"kwargs": {"B": 64}, "num_warps": 8}', {"kwargs": {"B": 64}, "num_warps": 8}),
    ],
)
def test_people_write_a_class_like_a_config(given_as: str, fields: dict[str, Any]) -> None:
    text = find_config(given_as, [SLOW], classes=True)
    assert text == class_text(fields)
    assert find_config(short_config(text), [], classes=True) == text
    assert title_of(text) == f"every config with {short_config(text)}"
    with pytest.raises(UsageError):
        find_config(given_as, [SLOW])


def test_the_short_form_of_a_recorded_config_is_that_config() -> None:
    assert find_config(short_config(SLOW), [SLOW, FAST], classes=True) == SLOW
    assert find_config(json.dumps(config(B=64, num_warps=8)), [], classes=True) == SLOW
    for wrong in ("8", "num_warps=8 B", "num_warps=x", "=8", '{"num_warps": "8"}', "{}"):
        with pytest.raises(UsageError):
            find_config(wrong, [SLOW], classes=True)
