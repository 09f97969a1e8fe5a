"""What a table suggests for a key that it does not have, whoever prepared its keys, when and where."""

import random
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuning_registry.formats.table import TunedTable
from tuning_registry.formats.table_evidence import encode_evidence
from tuning_registry.model.canonical import config_text, load_config
from tuning_registry.model.slowdowns import FAILED
from tuning_registry.rules.nearest import RecordedKeys
from tuning_registry.rules.unseen_keys import Suggestion, large_kernels, prepare, recorded_keys, suggest


def text(block: Any, warps: int = 4) -> str:
    return config_text({"kwargs": {"BLOCK": block}, "num_warps": warps, "num_stages": 3})


A, B, C, D = (text(block) for block in (16, 32, 64, 128))


def table(kernels: dict[str, dict[str, str]], evidence: dict[str, Any] | None = None) -> TunedTable:
    full = {name: {key: load_config(config) for key, config in keys.items()} for name, keys in kernels.items()}
    ours = {} if evidence is None else {"evidence": encode_evidence(evidence)}
    return TunedTable("sm90", full, {"tuning_registry": ours})


def test_the_winner_of_the_nearest_key_is_suggested_and_the_key_is_named() -> None:
    made = table({"pkg.k": {"M=64|f16": A, "M=4096|f16": B, "*": C}})
    assert suggest(made, "pkg.k", "M=100|f16", [C, B, A]) == Suggestion(A, "pkg.k", "M=64|f16")
    assert suggest(made, "pkg.k", "M=100|f16", [C, B]) == Suggestion(B, "pkg.k", "M=4096|f16")
    assert suggest(made, "pkg.k", "M=100|f16", [C, D]) is None  # no key but `*` speaks for C
    assert suggest(made, "pkg.k", "N=100|f16", [A]) is None
    assert suggest(made, "pkg.other", "M=100|f16", [A]) is None


def test_evidence_decides_before_the_nearest_winner() -> None:
    keys = {"M=128": A, "M=256": B, "M=64": B}
    slow = {"M=128": {A: 0, B: 1, C: FAILED}, "M=256": {A: 300, B: 0}, "M=64": {A: 250, B: 0}}
    assert suggest(table({"k": keys}), "k", "M=144", [A, B]) == Suggestion(A, "k", "M=128")
    assert suggest(table({"k": keys}, {"k": slow}), "k", "M=144", [A, B]) == Suggestion(B, "k", "M=128")
    assert suggest(table({"k": keys}, {"k": slow}), "k", "M=144", [C]) == Suggestion(C, "k", "M=128")


def test_the_qualified_name_is_asked_before_the_bare_one() -> None:
    made = table({"pkg.k": {"M=64": A}, "k": {"M=128": B, "N=64": C}})
    assert suggest(made, "pkg.k", "M=128", [A, B]) == Suggestion(A, "pkg.k", "M=64")
    assert suggest(made, "pkg.k", "M=128", [B]) == Suggestion(B, "k", "M=128")
    assert suggest(made, "pkg.k", "N=65", [A, C]) == Suggestion(C, "k", "N=64")
    assert suggest(made, "other.k", "M=100", [A, B]) == Suggestion(B, "k", "M=128")


def test_a_spelling_of_another_tool_is_tried_after_ours() -> None:
    made = table({"k": {"?=64|f16": A, "?=4096|f16": B}})
    assert suggest(made, "k", "M=3000|f16", [A, B]) == Suggestion(B, "k", "?=4096|f16")
    made = table({"k": {"M=constexpr[64]|f16": A}})
    assert suggest(made, "k", "M=32|f16", [A]) is None
    assert suggest(made, "k", "M=32|f16", [A], ["M=constexpr[32]|f16"]) == Suggestion(A, "k", "M=constexpr[64]|f16")


@pytest.mark.parametrize(("live", "preferred"), [(True, True), (1, 1), (1.0, True)])
def test_values_that_triton_cannot_tell_apart_are_one_candidate(live: Any, preferred: Any) -> None:
    made = table({"k": {"M=64": text(True), "M=4096": text(2)}})
    assert suggest(made, "k", "M=65", [text(2), text(live)]) == Suggestion(text(True), "k", "M=64")
    both = table({"k": {"M=64": text(True), "M=4096": text(1)}})
    found = suggest(both, "k", "M=65", [text(live)])
    assert found is not None
    assert found.config == text(preferred)


rows = st.dictionaries(st.sampled_from([A, B, C, D]), st.integers(FAILED, 999), min_size=1)
keys = st.builds("M={}|N={}|X={}|f16".format, st.integers(0, 4096), st.sampled_from([1, 64, 4096]), st.booleans())
recorded = st.dictionaries(keys, st.tuples(st.sampled_from([A, B, C, D]), rows), min_size=1, max_size=40)


@given(recorded, keys, st.booleans(), st.lists(st.sampled_from([A, B, C, D]), min_size=1, unique=True), st.randoms())
def test_a_suggestion_is_the_first_of_the_ranking_whatever_the_order(
    stated: dict[str, tuple[str, dict[str, int]]],
    asked: str,
    has_evidence: bool,
    candidates: list[str],
    dice: random.Random,
) -> None:
    winners = {key: winner for key, (winner, _) in stated.items()}
    slow = {key: row for key, (_, row) in stated.items()} if has_evidence else None
    ranking = RecordedKeys(winners, slow).rank(asked, candidates)
    expected = Suggestion(ranking.candidates[0], "k", ranking.nearest) if ranking.known else None
    order = list(stated)
    dice.shuffle(order)
    made = table({"k": {key: winners[key] for key in order}}, None if slow is None else {"k": slow})
    if dice.random() < 0.5:
        prepare(made)
        recorded_keys(made, "k")
    assert suggest(made, "k", asked, dice.sample(candidates, len(candidates))) == expected


def test_threads_that_prepare_and_ask_at_once_get_one_answer() -> None:
    dice = random.Random(3)
    winners = {f"M={dice.randrange(1, 9999)}|N={2 ** dice.randrange(12)}": dice.choice([A, B, C]) for _ in range(400)}
    asked = [f"M={m}|N={n}" for m in (3, 700, 9000) for n in (1, 48, 4096)]
    reference = table({"k": winners})
    expected = [suggest(reference, "k", key, [A, B, C]) for key in asked]
    for _ in range(5):
        made = table({"k": winners})
        answers: list[Any] = []
        threads = [threading.Thread(target=prepare, args=(made,)),
                   *(threading.Thread(target=lambda made=made, answers=answers: answers.append(
                       [suggest(made, "k", key, [C, A, B]) for key in asked])) for _ in range(3))]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert answers == [expected] * 3
        assert recorded_keys(made, "k") is recorded_keys(made, "k")


def test_only_kernels_with_many_keys_are_prepared_ahead() -> None:
    made = table({"large": {f"M={m}": A for m in range(1, 26)}, "small": {f"M={m}": A for m in range(1, 25)}})
    assert large_kernels(made) == ["large"]
