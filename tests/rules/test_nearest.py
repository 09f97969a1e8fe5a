"""The rule for keys that nobody recorded: distance, order, purity, and what it does without slowdowns."""

import itertools
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuning_registry.model.slowdowns import FAILED, MOST_PERCENT, slowdowns_of
from tuning_registry.rules.field_weights import EVEN
from tuning_registry.rules.key_fields import FIELD_APART, OCTAVE, FieldReader, log2_steps, place_of
from tuning_registry.rules.nearest import RecordedKeys

A, B, C, D = ('{"a": 1}', '{"b": 1}', '{"c": 1}', '{"d": 1}')

numbers = st.one_of(st.integers(0, 1 << 20), st.sampled_from([64, 128, 1000, 4096]))
keys = st.builds(
    lambda m, n, flag, name, dtype: f"M={m}|N={n}|CAUSAL={flag}|ACT={name}|torch.{dtype}",
    numbers, numbers, st.booleans(), st.sampled_from(["relu", "none", "a\\|b"]), st.sampled_from(["float16", "bfloat16"]),
)  # fmt: skip
rows = st.dictionaries(st.sampled_from([A, B, C, D]), st.integers(FAILED, MOST_PERCENT), min_size=1)


@pytest.mark.parametrize(
    ("value", "place"),
    [("1", 0), ("2", OCTAVE), ("4096", 12 * OCTAVE), ("0.5", -OCTAVE), ("3", 101), ("0", -2 * OCTAVE), ("1e3", 637),
     ("-2", -65 * OCTAVE), ("relu", None), ("nan", None), ("1" * 21, None), ("(1, 2)", None), ("", None)],
)  # fmt: skip
def test_place_of_a_number(value: str, place: int | None) -> None:
    assert place_of(value) == place


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_steps_are_the_floor_of_the_exact_logarithm(numerator: int, denominator: int) -> None:
    steps = log2_steps(numerator, denominator)
    power = Fraction(numerator, denominator) ** OCTAVE
    assert Fraction(2) ** steps <= power < Fraction(2) ** (steps + 1)


def test_the_nearest_winner_comes_first_and_distance_is_a_ratio() -> None:
    recorded = RecordedKeys({"M=1024|f16": A, "M=4096|f16": B})
    assert recorded.rank("M=2200|f16", [A, B, C]).candidates == (B, A, C)  # nearer to 1024 by difference
    assert recorded.rank("M=1100|f16", [C, A, B]).candidates == (A, B, C)


def test_a_winner_that_is_not_a_candidate_gives_way_to_the_next_nearest() -> None:
    ranking = RecordedKeys({"M=64": A, "M=128": B, "M=256": C}).rank("M=65", [C, D])
    assert (ranking.candidates, ranking.known, ranking.nearest) == ((C, D), 1, "M=256")


def test_an_unequal_flag_or_dtype_counts_as_a_ratio() -> None:
    assert FIELD_APART == 2 * OCTAVE
    recorded = RecordedKeys({"M=64|X=True|f16": A, "M=208|X=False|f16": B, "M=1024|X=False|f16": C})
    assert recorded.rank("M=64|X=False|f16", [A, B, C]).candidates == (B, A, C)
    assert next(recorded.from_nearest("M=64|X=False|f32"))[1] == "M=208|X=False|f16"


def test_a_number_that_16_divides_is_further_from_one_that_it_does_not() -> None:
    recorded = RecordedKeys({"M=112": A, "M=84": B})
    assert recorded.rank("M=100", [A, B]).candidates == (B, A)  # 112 is nearer by ratio
    assert recorded.rank("M=96", [B, A]).candidates == (A, B)


def test_keys_with_other_numbers_are_not_compared() -> None:
    recorded = RecordedKeys({"M=64": A})
    assert recorded.rank("N=64", [B, A]).candidates == (B, A)
    assert recorded.rank("N=64", [B, A]).known == 0
    assert RecordedKeys({"*": A}).rank("N=64", [B, A]).known == 0


def test_keys_without_names_are_compared_by_position() -> None:
    recorded = RecordedKeys({"?=64|?=True|f16": A, "?=1024|?=True|f16": B, "M=4096|X=True|f16": C})
    assert recorded.rank("M=1000|X=True|f16", [A, B, C]).candidates == (B, C, A)


def test_a_candidate_that_is_good_around_beats_the_winner_of_the_nearest_key() -> None:
    winners = {"M=128": A, "M=256": B, "M=64": B}
    slow = {"M=128": {A: 0, B: 1}, "M=256": {A: 300, B: 0}, "M=64": {A: 250, B: 0}}
    assert RecordedKeys(winners, slow).rank("M=144", [A, B]).candidates == (B, A)
    assert RecordedKeys(winners).rank("M=144", [A, B]).candidates == (A, B)


def test_failed_and_untimed_candidates_count_as_twice_as_slow_and_unknown_ones_come_last() -> None:
    slow = {"M=128": {A: FAILED, B: 20}, "M=256": {A: 0, B: 25, C: 0}}
    ranking = RecordedKeys({"M=128": B, "M=256": A}, slow).rank("M=128", [D, C, A, B])
    assert (ranking.candidates, ranking.known) == ((B, A, C, D), 3)
    assert RecordedKeys({"M=128": A}, {"M=128": {A: 100, B: FAILED, C: 99}}).rank("M=64", [B, A, C]).candidates == (
        C,
        A,
        B,
    )


def test_a_key_without_times_speaks_for_its_winner() -> None:
    ranking = RecordedKeys({"M=128": B, "M=4096": A}, {"M=4096": {A: 0, B: 20}}).rank("M=144", [A, B, C])
    assert (ranking.candidates, ranking.known) == ((B, A, C), 2)


def test_a_field_that_does_not_matter_keeps_no_key_away() -> None:
    sizes = [64, 256, 1024, 4096]
    slow = {f"M={m}|X={x}|f16": {A: 8 * i, B: 60 - 20 * i} for i, m in enumerate(sizes) for x in (True, False)}
    recorded = RecordedKeys({key: min(row, key=lambda text: row[text]) for key, row in slow.items()}, slow)
    found = {key: distance for distance, key in recorded.from_nearest("M=64|X=True|f16")}
    assert found["M=64|X=False|f16"] < EVEN * FIELD_APART / 2
    assert found["M=256|X=True|f16"] > 3 * found["M=64|X=False|f16"]


def test_of_equal_scores_the_nearest_winner_comes_first_then_the_smaller_text() -> None:
    slow = {"M=128": {A: 0, B: 0, C: 0}}
    assert RecordedKeys({"M=128": C}, slow).rank("M=64", [B, A, C]).candidates == (C, A, B)


@given(st.dictionaries(keys, st.tuples(st.sampled_from([A, B, C, D]), rows)), keys, st.booleans(), st.randoms())
def test_the_choice_depends_on_no_order(recorded: dict[str, tuple[str, dict[str, int]]], asked: str, with_rows: bool,
                                        dice: random.Random) -> None:  # fmt: skip
    def made(order: list[str]) -> RecordedKeys:
        return RecordedKeys({key: recorded[key][0] for key in order},
                            {key: recorded[key][1] for key in order} if with_rows else None)  # fmt: skip

    one, other = list(recorded), list(recorded)
    dice.shuffle(other)
    candidates, shuffled = [A, B, C, D], [A, B, C, D]
    dice.shuffle(shuffled)
    ranking, again = made(one).rank(asked, candidates), made(other).rank(asked, shuffled)
    assert ranking.candidates[: ranking.known] == again.candidates[: again.known]
    assert sorted(ranking.candidates) == sorted(candidates)
    assert ranking == made(other).rank(asked, candidates)


@given(st.lists(keys, min_size=1, max_size=60, unique=True), keys)
def test_the_search_gives_the_order_of_a_full_comparison(recorded: list[str], asked: str) -> None:
    made = RecordedKeys(dict.fromkeys(recorded, A))
    reader = FieldReader(sorted(recorded))
    here = reader.fields(asked)

    def distance(key: str) -> int:
        there = reader.fields(key)
        return EVEN * sum(here.apart(there).values())

    assert list(made.from_nearest(asked)) == sorted((distance(key), key) for key in recorded)


def test_the_search_looks_at_few_of_many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(1)
    winners = {f"M={dice.randrange(1, 65536)}|N={dice.randrange(1, 65536)}": A for _ in range(5000)}
    made = RecordedKeys(winners)
    opened: list[int] = []

    def counting(value: int) -> int:
        opened.append(value)
        return value if value >= 0 else -value

    monkeypatch.setattr("tuning_registry.rules.key_tree.abs", counting, raising=False)
    list(itertools.islice(made.from_nearest("M=500|N=700"), 24))
    assert 48 <= len(opened) < 1500


def test_the_search_looks_at_few_of_many_combinations_of_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(1)
    flags = ["|".join(f"F{bit}={bool(number >> bit & 1)}" for bit in range(9)) for number in range(512)]
    made = RecordedKeys({f"M={dice.randrange(1, 64)}|{one}": A for one in flags for _ in range(4)})
    opened: list[int] = []

    def counting(value: int) -> int:
        opened.append(value)
        return value if value >= 0 else -value

    monkeypatch.setattr("tuning_registry.rules.key_tree.abs", counting, raising=False)
    list(
        itertools.islice(
            made.from_nearest(
                f"M=40|{flags[77]}",
            ),
            5,
        )
    )
    assert 10 <= len(opened) < 500  # two for each key, of 2,048


def test_slowdowns_of_times() -> None:
    assert slowdowns_of({A: 1.0, B: 1.126, C: float("inf"), D: 50.0}) == {A: 0, B: 13, C: FAILED, D: MOST_PERCENT}
    assert slowdowns_of({A: 0.0, B: 0.0, C: 1.0}) == {A: 0, B: 0, C: MOST_PERCENT}
