"""Taking apart what Python's `repr` wrote."""

from __future__ import annotations

import pytest

from tuning_registry.errors import FormatError
from tuning_registry.formats.tools.reprs import items_of, string_of, value_of


@pytest.mark.parametrize(
    "value", [(), (1,), ((1, -2), [3.5, 1e-07], True, None), ("a, (b", 'it\'s "x"\\n\n'), [[]], "x", -1]
)
def test_values_are_read_back(value: object) -> None:
    def listed(one: object) -> object:
        return [listed(item) for item in one] if isinstance(one, tuple | list) else one

    assert value_of(repr(value)) == listed(value)


def test_items_keep_their_text() -> None:
    assert items_of("('a', (1, (2,)), (torch.bfloat16, <Act.X: 3>), {1: 2}, \"b)\")") == [
        "'a'", "(1, (2,))", "(torch.bfloat16, <Act.X: 3>)", "{1: 2}", '"b)"',
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "1", "(", ")", "(1", "(1]", "(1))", "(1) (2)", "(1)x", "x(1)", "(,)", "(1,,2)", "('a)", "(" * 99, "{1}"],
)
def test_what_repr_does_not_write_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        items_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "'",
        "'a",
        "torch.bfloat16",
        "__import__('os')",
        "1+1",
        "0x10",
        "'\\x00'",
        "{}",
        "1" * 200_000,
        "inf",
        "1 2",
    ],
)
def test_only_literals_are_values(text: str) -> None:
    with pytest.raises(FormatError):
        value_of(text)


def test_a_string_is_one_literal() -> None:
    assert string_of("'fp4_gemm'") == "fp4_gemm"
    with pytest.raises(FormatError):
        string_of("'a' 'b'")
