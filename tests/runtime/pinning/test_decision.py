"""The decision as a pure function of candidates, table and policy."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.fakes import Config, stored
from tuning_registry.errors import LaunchError
from tuning_registry.formats.table import TunedTable
from tuning_registry.runtime.pinning.decision import decide, static_estimate
from tuning_registry.runtime.policies.policy import AutotunePolicy

EMPTY = TunedTable("sm90", {})


def pick(configs: Any, table: Any = EMPTY, pruned: Any = None, key: Any = "M=1", rank: Any = 0, **policy: Any) -> Any:
    return decide(
        "pkg.kernel", key, configs, configs if pruned is None else pruned, table, AutotunePolicy(**policy), rank
    )


def test_the_estimate_is_blocks_times_stages_then_warps() -> None:
    config = Config(
        {"BLOCK_M": 8, "BLOCK_N": 4, "GROUP": 100, "BLOCK_FLAG": True, "BLOCKS": 2, "BLOCK_F": 1.5},
        num_stages=3,
        num_warps=8,
    )
    assert static_estimate(config) == (8 * 4 * 2 * 3, 8)
    assert static_estimate(Config({"X": 5}, num_stages=2, num_warps=4)) == (2, 4)


def test_the_cheapest_wins_and_declaration_order_breaks_ties() -> None:
    configs = [Config({"BLOCK": 64}, num_stages=2), Config({"BLOCK": 32}, num_stages=4, num_warps=2),
               Config({"BLOCK": 32}, num_stages=4, num_warps=2, maxnreg=64), Config({"BLOCK": 128}, num_stages=1)]  # fmt: skip
    for pruned in itertools.permutations(configs):
        assert pick(configs, pruned=pruned).candidate is configs[1]
    assert pick(configs).source == "min_cost"


@pytest.mark.parametrize(
    ("sizes", "index"),
    [({"BLOCK_M": 64, "BLOCK_N": 64}, 2), ({"BLOCK_M": 64}, 1), ({"BLOCK_M": 64, "OTHER": 5}, 1), ({"kernel": {"BLOCK_M": 128}}, 0),
     ({"other": {"BLOCK_M": 128}}, 3), ({"BLOCK_M": 256}, 3), ({"OTHER": 5}, 3), ({"BLOCK_M": 64, "num_warps": 8}, 2)],
)  # fmt: skip
def test_stated_block_sizes(sizes: Any, index: Any) -> None:
    configs = [Config({"BLOCK_M": 128, "BLOCK_N": 32}), Config({"BLOCK_M": 64, "BLOCK_N": 32}),
               Config({"BLOCK_M": 64, "BLOCK_N": 64}, num_warps=8), Config({"BLOCK_M": 16, "BLOCK_N": 16})]  # fmt: skip
    decision = pick(configs, block_sizes=sizes)
    assert decision.candidate is configs[index]
    assert decision.source == ("min_cost" if index == 3 else "block_sizes")
    assert decision.miss == "no table"


def test_block_sizes_satisfy_on_miss_error_and_nothing_else_does() -> None:
    configs = [Config({"BLOCK": 64}), Config({"BLOCK": 32})]
    assert pick(configs, on_miss="error", block_sizes={"BLOCK": 64}).candidate is configs[0]
    with pytest.raises(LaunchError, match=r"pkg\.kernel, key M=1, on sm90: no table"):
        pick(configs, on_miss="error", block_sizes={"BLOCK": 65})
    with pytest.raises(LaunchError, match="unsupported key"):
        pick(configs, on_miss="error", key=None)


def test_an_entry_beats_everything_but_chaos() -> None:
    configs = [Config({"BLOCK": 64}), Config({"BLOCK": 32})]
    table = TunedTable("sm90", {"pkg.kernel": {"*": stored(configs[0])}})
    decision = pick(configs, table, block_sizes={"BLOCK": 32}, config_invariant=("kernel",))
    assert (decision.candidate, decision.source, decision.entry) == (configs[0], "table", ("pkg.kernel", "*"))
    assert {pick(configs, table, chaos=True, rank=rank).candidate for rank in range(2)} == set(configs)


def test_a_pruned_entry_is_a_miss_also_with_one_candidate_left() -> None:
    configs = [Config({"BLOCK": 64}), Config({"BLOCK": 32}), Config({"BLOCK": 16})]
    table = TunedTable("sm90", {"pkg.kernel": {"*": stored(configs[0])}})
    assert (pick(configs, table, pruned=configs[1:]).candidate, pick(configs, table, pruned=configs[1:]).miss) == (
        configs[2],
        "pruned away",
    )
    assert pick(configs, table, pruned=configs[1:2]).miss == "pruned away"
    assert pick(configs, pruned=configs[1:2]).miss == ""
    with pytest.raises(LaunchError, match="pruned away"):
        pick(configs, table, pruned=configs[1:2], on_miss="error")


@given(
    st.lists(st.tuples(st.integers(1, 512), st.integers(1, 5), st.sampled_from([1, 2, 4, 8])), min_size=2, max_size=12),
    st.randoms(),
)
def test_the_choice_does_not_depend_on_the_order_that_pruning_gives(shapes: Any, random: Any) -> None:
    configs = [Config({"BLOCK": b}, num_stages=s, num_warps=w) for b, s, w in shapes]
    shuffled = random.sample(configs, len(configs))
    assert pick(configs, pruned=shuffled).candidate is pick(configs).candidate
    for rank in range(3):
        assert stored(pick(configs, pruned=shuffled, chaos=True, rank=rank).candidate) == stored(
            pick(configs, chaos=True, rank=rank).candidate
        )
