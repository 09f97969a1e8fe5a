"""Launches of keys that the table does not have, against the pure rule: with evidence, pruning, bans and failures."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

import logging
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from triton.runtime.errors import OutOfResources

from tests.runtime.fakes import (  # fmt: skip
    ARCH,
    NAME,
    Config,
    Tensor,
    autotuner,
    launch,
    launched,
    stored,
    text_of,
    write_table,
)
from tuning_registry.errors import LaunchError
from tuning_registry.formats.table_evidence import encode_evidence
from tuning_registry.model.slowdowns import FAILED
from tuning_registry.rules.nearest import RecordedKeys
from tuning_registry.runtime import choice_log, coverage_report, install, uninstall
from tuning_registry.runtime.pinning import tables
from tuning_registry.runtime.pinning.decision import static_estimate

SIZES = (16, 32, 64, 128, 256)


def candidates() -> list[Any]:
    return [Config({"BLOCK_M": size}, num_warps=4) for size in SIZES]


TEXTS = {size: text_of(config) for size, config in zip(SIZES, candidates(), strict=True)}


def key(size: int) -> str:
    return f"M={size}|torch.float32|torch.float32"


def pin(folder: Path, winners: dict[int, int], slow: Any = None, **fields: Any) -> Path:
    """Install a policy that pins from a table with these winners, by size, and slowdowns."""
    entries = {key(size): stored(candidates()[SIZES.index(winner)]) for size, winner in winners.items()}
    extra: dict[str, Any] = {"overrides": fields.pop("overrides", [])}
    if slow:
        rows = {key(m): {TEXTS[size]: percent for size, percent in row.items()} for m, row in slow.items()}
        extra["evidence"] = encode_evidence({NAME: rows})
    path = write_table(folder, {NAME: entries}, extra=extra)
    install(mode="pinned", table_path=path, arch=ARCH, **fields)
    return path


def ban(size: int, at: str) -> dict[str, Any]:
    return {
        "action": "ban",
        "kernel": NAME,
        "key": at,
        "config": stored(candidates()[SIZES.index(size)]),
        "reason": "r",
    }


sizes = st.sampled_from(SIZES)
shapes = st.sampled_from((1, 7, 16, 100, 128, 1000, 4096))
cases = st.fixed_dictionaries(
    {
        "winners": st.dictionaries(shapes, sizes, min_size=1, max_size=5),
        "slow": st.dictionaries(shapes, st.dictionaries(sizes, st.integers(FAILED, 999), min_size=1), max_size=5),
        "asked": st.sampled_from((2, 24, 96, 2048, 5000)),
        "pruned": st.sets(sizes, max_size=3),
        "banned": st.dictionaries(sizes, st.sampled_from(("*", "asked", "other")), max_size=2),
        "failing": st.sets(sizes, max_size=4),
        "reverse": st.booleans(),
    }
)


def expected_launches(case: dict[str, Any]) -> Any:
    """The candidates that are tried, in order: those of the ranking, then the cheapest; None if all are banned."""
    banned = {size for size, at in case["banned"].items() if at != "other"}
    left = [size for size in SIZES if size not in case["pruned"]] or [SIZES[0]]
    allowed = [size for size in left if size not in banned]
    if not allowed:
        return None
    if len(left) == 1:
        return allowed
    slow = {key(m): {TEXTS[size]: p for size, p in row.items()} for m, row in case["slow"].items()}
    recorded = RecordedKeys({key(m): TEXTS[winner] for m, winner in case["winners"].items()}, slow)
    by_text = {TEXTS[size]: size for size in allowed}
    ranking = recorded.rank(key(case["asked"]), [TEXTS[size] for size in allowed])
    order = [by_text[text] for text in ranking.candidates]
    return order[: next((i + 1 for i, size in enumerate(order) if size not in case["failing"]), len(order))]


@given(cases)
@settings(max_examples=150, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
def test_launches_follow_the_ranking_of_what_pruning_and_bans_left(case: dict[str, Any]) -> None:
    logging.disable(logging.CRITICAL)

    def behave(*args: Any, **kwargs: Any) -> None:
        if kwargs["BLOCK_M"] in case["failing"]:
            raise OutOfResources(2, 1, "shared memory")

    def prune(configs: Any, named: Any, **kwargs: Any) -> Any:
        left = [c for c in configs if c.kwargs["BLOCK_M"] not in case["pruned"]] or configs[:1]
        return left[::-1] if case["reverse"] else left

    try:
        with tempfile.TemporaryDirectory() as folder:
            places = {"*": "*", "asked": key(case["asked"]), "other": key(3)}
            overrides = [ban(size, places[at]) for size, at in sorted(case["banned"].items())]
            pin(Path(folder), case["winners"], case["slow"], overrides=overrides)
            kernel = autotuner(candidates(), behave=behave, prune_configs_by={"early_config_prune": prune})
            expected = expected_launches(case)
            works = expected is not None and expected[-1] not in case["failing"]
            for _ in range(2 if works else 1):
                try:
                    launch(kernel, Tensor(), Tensor(), case["asked"])
                except (OutOfResources, LaunchError) as error:
                    assert not works
                    assert isinstance(error, LaunchError) == (expected is None)
            assert launched(kernel) == [*(expected or ()), *(expected[-1:] if works else ())]
            assert kernel.timer.calls == 0
            assert coverage_report().faults == {}
    finally:
        uninstall()
        logging.disable(logging.NOTSET)


def test_the_log_the_report_and_the_choice_name_the_nearest_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pin(tmp_path, {128: 64, 4096: 256})
    kernel = autotuner(candidates())
    launch(kernel, Tensor(), Tensor(), 100)
    launch(kernel, Tensor(), Tensor(), 128)
    missed, hit = choice_log()
    assert (missed.source, missed.nearest, missed.config) == ("nearest", key(128), TEXTS[64])
    assert (hit.source, hit.nearest) == ("table", "")
    assert (
        f"the table does not have this key; choosing by the nearest recorded keys (nearest: {key(128)})" in caplog.text
    )
    assert f"(nearest {key(128)})" in str(coverage_report())


def test_candidates_that_differ_in_their_hook_alone_give_way(tmp_path: Path) -> None:
    pin(tmp_path, {128: 64, 4096: 256})
    twins = [Config({"BLOCK_M": 64}, num_warps=4, pre_hook=hook) for hook in (None, lambda named: None)]
    kernel = autotuner([*twins, *candidates()[3:]])
    launch(kernel, Tensor(), Tensor(), 100)
    assert launched(kernel) == [256]


def test_a_kernel_that_the_table_does_not_have_gets_the_cheapest(tmp_path: Path) -> None:
    pin(tmp_path, {128: 64})
    kernel = autotuner(candidates(), name="other")
    launch(kernel)
    assert launched(kernel) == [min(candidates(), key=static_estimate).kwargs["BLOCK_M"]]
    assert [miss.source for miss in coverage_report().misses] == ["min_cost"]


def test_a_star_entry_decides_before_the_nearest_key_and_gives_way_to_it(tmp_path: Path) -> None:
    entries = {key(128): stored(candidates()[2]), "*": stored(candidates()[4])}
    path = write_table(tmp_path, {NAME: entries})

    def behave(*args: Any, **kwargs: Any) -> None:
        if kwargs["BLOCK_M"] == 256 and args[2] == 3000:
            raise OutOfResources(2, 1, "shared memory")

    install(mode="pinned", table_path=path, arch=ARCH)
    kernel = autotuner(candidates(), behave=behave)
    launch(kernel, Tensor(), Tensor(), 100)
    launch(kernel, Tensor(), Tensor(), 3000)
    assert launched(kernel) == [256, 256, 64]
    assert [(miss.reason, miss.source) for miss in coverage_report().misses] == [("does not run", "nearest")]


def test_large_kernels_are_prepared_in_the_background_and_answers_do_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, prepared = threading.Event(), []

    def slowly(table: Any) -> None:
        may_go_on.wait(60)
        prepared.append(table)

    monkeypatch.setattr(tables, "prepare", slowly)
    winners = {size: SIZES[size % 5] for size in range(1, 100)}
    path = pin(tmp_path, winners)
    kernel = autotuner(candidates())
    launch(kernel, Tensor(), Tensor(), 101)  # while the background thread is held up
    assert launched(kernel) == [SIZES[99 % 5]]
    may_go_on.set()
    for thread in threading.enumerate():
        if thread.name == "tuning_registry keys":
            thread.join(60)
    assert [table.provenance["file"] for table in prepared] == [str(path)]
    pin(tmp_path / "small", {1: 16})
    install(mode="pinned", table_path=path, arch=ARCH, on_miss="min_cost")
    assert "tuning_registry keys" not in {thread.name for thread in threading.enumerate()}
