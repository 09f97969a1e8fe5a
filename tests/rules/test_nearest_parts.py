"""The parts of the rule for unseen keys: weights of fields that are learned, and shares of known points."""

import itertools
import random
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tuning_registry.rules.field_weights import EVEN, learned_weights
from tuning_registry.rules.key_fields import OCTAVE, FieldReader
from tuning_registry.rules.key_tree import build, from_nearest
from tuning_registry.rules.kriging import shares

points = st.lists(st.tuples(st.integers(-2000, 2000), st.integers(-500, 500)), min_size=2, max_size=10)


def apart(one: tuple[int, int], two: tuple[int, int]) -> int:
    return abs(one[0] - two[0]) + abs(one[1] - two[1])


@given(points, st.integers(1, 200))
def test_shares_solve_the_kriging_equations_exactly(drawn: list[tuple[int, int]], noise: int) -> None:
    new, *known = drawn
    to_new = [apart(new, point) for point in known]
    between = [[apart(one, two) for two in known] for one in known]
    numerators, denominator = shares(to_new, between, noise)
    assert denominator > 0
    assert sum(numerators) == denominator
    # Sum of share times semivariance is the semivariance to the new point plus one number that is the same everywhere.
    portions = [Fraction(numerator, denominator) for numerator in numerators]
    left = {sum(p * d for p, d in zip(portions, row, strict=True)) - noise * own - there
            for own, row, there in zip(portions, between, to_new, strict=True)}  # fmt: skip
    assert len(left) == 1


def test_equal_points_share_and_a_far_one_gets_little() -> None:
    near, twin, far = (
        Fraction(number, 1) for number in shares([10, 10, 900], [[0, 0, 910], [0, 0, 910], [910, 910, 0]], 20)[0]
    )
    assert near == twin > 5 * abs(far)


def test_a_line_is_extended_between_its_ends() -> None:
    numerators, denominator = shares([30, 10], [[0, 40], [40, 0]], 1)
    assert [round(Fraction(number, denominator), 1) for number in numerators] == [Fraction(3, 10), Fraction(7, 10)]


@given(st.lists(points, min_size=1, max_size=4), st.integers(1, 12))
def test_the_first_of_few_keys_are_the_first_of_all(drawn: list[list[tuple[int, int]]], count: int) -> None:
    trees = []
    for index, places in enumerate(drawn):
        texts: dict[tuple[int, ...], list[str]] = {
            place: [f"{index} {place}", f"{index} {place} again"] for place in places
        }
        trees.append((100 * index, build(texts)))
    every = list(from_nearest(trees, (3, 4)))
    assert every == sorted(every)
    assert list(itertools.islice(from_nearest(trees, (3, 4), count), count)) == every[:count]


def weights(keys: list[str], costs: list[dict[str, int]]) -> dict[str, int]:
    reader = FieldReader(keys)
    return learned_weights([reader.fields(key) for key in keys], costs)


def test_the_field_that_moves_the_costs_gets_the_weight() -> None:
    dice = random.Random(3)
    drawn = [(dice.randrange(4, 13), dice.randrange(4, 13), dice.random() < 0.5) for _ in range(30)]
    keys = [f"M={1 << m}|N={1 << n}|FLAG={flag}|torch.float16" for m, n, flag in drawn]
    costs = [{"a": min(6 * m, OCTAVE), "b": 20} for m, _, _ in drawn]
    found = weights(keys, costs)
    assert found["M"] > EVEN > found["N"]
    assert found["FLAG"] < EVEN


def test_without_a_difference_every_weight_is_even() -> None:
    assert weights(["M=64", "M=128"], [{"a": 5}, {"a": 5}]) == {}
    assert weights(["M=64", "M=128"], [{"a": 5}, {"b": 5}]) == {}
    assert weights([], []) == {}


@given(st.lists(st.tuples(st.integers(1, 1 << 16), st.booleans(), st.integers(0, OCTAVE), st.integers(0, OCTAVE)),
                max_size=45))  # fmt: skip
def test_weights_stay_between_an_eighth_and_4(rows: list[tuple[int, bool, int, int]]) -> None:
    found = weights([f"M={m}|FLAG={flag}" for m, flag, _, _ in rows], [{"a": a, "b": b} for *_, a, b in rows])
    assert all(EVEN // 8 <= weight <= 4 * EVEN for weight in found.values())
