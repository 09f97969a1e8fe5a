"""The text of a live candidate is remembered by its values, so a candidate that changes gets another text."""

from types import SimpleNamespace
from typing import Any

import pytest

from tuning_registry.formats.matching import live_text, match_text, value_text
from tuning_registry.model.canonical import live_config_text


class Live:
    """As a `triton.Config`."""

    def __init__(self, kwargs: dict[str, Any], **launch: Any) -> None:
        self.kwargs = kwargs
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = 4, 3, 1, None
        self.pre_hook = None
        vars(self).update(launch)

    def all_kwargs(self) -> dict[str, Any]:
        return {**self.kwargs, "num_warps": self.num_warps, "num_stages": self.num_stages, "num_ctas": self.num_ctas}


class Backend(Live):
    """With a launch field that no table holds."""

    def __init__(self, *args: Any, multibuffer: bool = True, **launch: Any) -> None:
        super().__init__(*args, **launch)
        self.multibuffer = multibuffer

    def all_kwargs(self) -> dict[str, Any]:
        return {**super().all_kwargs(), "multibuffer": self.multibuffer}


@pytest.mark.parametrize("kind", [Live, Backend])
@pytest.mark.parametrize(
    "value",
    [
        64,
        True,
        1,
        1.0,
        0.0,
        -0.0,
        None,
        "1",
        [1, 2],
        (1, 2),
        {"x": 1},
        pytest.param(object(), id="object"),
        float("nan"),
        b"1",
    ],
    ids=repr,
)
def test_a_remembered_text_is_that_of_the_values(kind: Any, value: object) -> None:
    for candidate in (kind({"B": value}), kind({"B": value}, num_warps=8), kind({"C": value}, num_ctas=2),
                      kind({"B": value}, num_stages=None), kind({"B": value}, ir_override="f.ttir"),
                      kind({"B": value, "C": 1}), kind({"C": 1, "B": value})):  # fmt: skip
        for _ in range(2):
            assert live_text(candidate) == live_config_text(candidate)


def test_a_candidate_that_changes_gets_another_text() -> None:
    candidate = Backend({"B": 64})
    before = live_text(candidate)
    candidate.kwargs["B"] = 1
    changed = live_text(candidate)
    candidate.kwargs["B"] = True
    assert len({before, changed, live_text(candidate)}) == 3
    candidate.multibuffer = False
    assert live_text(candidate) is None
    assert live_text(SimpleNamespace()) is None


def test_only_what_has_another_spelling_is_spelled_anew() -> None:
    twice: tuple[dict[str, Any], ...] = (
        {"B": True}, {"B": 1.0}, {"B": [1, {"x": False}]}, {"B": 1e300}, {"B": 10.0**16}, {"B": -0.0},
    )  # fmt: skip
    once: tuple[dict[str, Any], ...] = ({"B": 1}, {"B": 1.5}, {"B": 1e-7}, {"B": None}, {"B": "x"}, {})
    for config in twice:
        text = live_text(Live(config))
        assert text is not None
        assert value_text(text) != text
        assert match_text(value_text(text), [(1, text)]) == (1, "")
    for config in once:
        text = live_text(Live(config))
        assert text is not None
        assert value_text(text) == text
