"""Entries that ranks timed in shares: who elects them, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tuning_registry import Registry
from tuning_registry.errors import SelectionError
from tuning_registry.formats.recording_writer import recording_bytes
from tuning_registry.model.canonical import config_text, load_config
from tuning_registry.model.records import IN_SHARE, Header, Observation, Recording, TimedCandidates, Timing
from tuning_registry.model.shares import EXTRA, encode_candidates
from tuning_registry.operations.reports.status import what_there_is

ARCH, KERNEL = "sm90", "pkg.kernel"
CONFIGS = [config_text({"kwargs": {"BLOCK": 2**power}, "num_warps": 4, "num_stages": 3}) for power in range(4)]


def share(rank: int, times: Mapping[str, Mapping[int, float | None]], *, whole: int = 4, repeats: int = 1) -> Recording:
    """What a rank records that timed, of each key, the candidates with these numbers in these ms (None: failed)."""
    timed: dict[str, TimedCandidates] = {}
    best: dict[str, Observation] = {}
    for key, measured in times.items():
        rows = [Timing(CONFIGS[n], *([ms] * 3 if ms is not None else [None] * 3)) for n, ms in measured.items()]
        timed[key] = TimedCandidates.from_timings(rows)
        ran = [(ms, n) for n, ms in measured.items() if ms is not None]
        best[key] = Observation(CONFIGS[min(ran)[1]] if ran else None, IN_SHARE)
    candidates = {(ARCH, KERNEL, key): CONFIGS[:whole] for key in times}
    header = Header(
        run="job", rank=rank, world_size=8, triton="3.6.0", id=f"{rank:032x}",
        extra={EXTRA: encode_candidates(candidates, repeats)},
    )  # fmt: skip
    return Recording("", header, {}, {ARCH: {KERNEL: best}}, {ARCH: {KERNEL: timed}})


def voting(rank: int, key: str, number: int) -> Recording:
    rows = [Timing(text, *[1.0 + (n != number)] * 3) for n, text in enumerate(CONFIGS)]
    header = Header(run="full", rank=rank, world_size=8, triton="3.6.0")
    timed = {ARCH: {KERNEL: {key: TimedCandidates.from_timings(rows)}}}
    return Recording("", header, {ARCH: {KERNEL: {key: CONFIGS[number]}}}, timings=timed)


@pytest.fixture
def ingested(tmp_path: Path, database: str) -> Any:
    def ingest(recordings: Sequence[Recording]) -> Registry:
        folder = tmp_path / "recordings"
        folder.mkdir(exist_ok=True)
        for recording in recordings:
            name = f"r.{recording.header.run}.rank{recording.header.rank}.json"
            (folder / name).write_bytes(recording_bytes(recording))
        registry = Registry(database)
        registry.ingest(folder)
        return registry

    return ingest


def table_of(registry: Registry, **options: Any) -> dict[str, Any]:
    made = registry.export(ARCH, **options).details
    return {key: config["kwargs"]["BLOCK"] for key, config in made.payload["kernels"].get(KERNEL, {}).items()}


FULL = [
    share(0, {"M=1": {0: 4.0, 1: 3.0}, "M=2": {0: 1.0}}),
    share(1, {"M=1": {2: 2.0, 3: 5.0}, "M=2": {1: 2.0, 2: None, 3: 9.0}}),
]


@pytest.mark.parametrize("policy", ["fastest", "minimax"])
def test_the_timings_of_all_shares_elect(ingested: Any, policy: str) -> None:
    registry = ingested(FULL)
    assert table_of(registry, policy=policy) == {"M=1": 4, "M=2": 1}
    made = registry.export(ARCH, policy=policy).details
    assert (made.in_shares, made.fewest_ranks, made.most_ranks, made.unvoted) == (2, 1, 1, 0)
    assert made.payload["triton"] == "3.6.0"
    assert made.payload["tuning_registry"]["recordings"] == 2


def test_votes_elect_nothing_there_and_the_error_names_the_policy(ingested: Any) -> None:
    registry = ingested(FULL)
    with pytest.raises(SelectionError, match="2 entries come from split runs.* --policy fastest"):
        registry.export(ARCH)


def test_a_table_by_votes_says_what_it_leaves_out(ingested: Any) -> None:
    registry = ingested([*FULL, voting(0, "M=8", 3)])
    made = registry.export(ARCH).details
    assert (made.entries, made.unvoted) == (1, 2)
    assert table_of(registry, policy="fastest") == {"M=1": 4, "M=2": 1, "M=8": 8}


def test_candidates_that_nobody_timed_are_refused_and_listed(ingested: Any) -> None:
    registry = ingested([FULL[0]])
    with pytest.raises(
        SelectionError, match="split runs have not timed 5 candidates of 2 entries, listed by registry st"
    ):
        registry.export(ARCH, policy="fastest")
    untimed = registry.status()["untimed"]
    assert untimed[0] == "sm90 pkg.kernel M=1: 2 of 4 candidates timed; not timed: BLOCK=4 num_warps=4 num_stages=3, BLOCK=8 num_warps=4 num_stages=3"  # fmt: skip
    assert len(untimed) == 2
    assert "untimed" not in ingested(FULL).status()


def test_a_failed_candidate_was_timed_and_is_not_elected(ingested: Any) -> None:
    registry = ingested([share(0, {"M=1": {0: None, 1: 2.0}}, whole=2)])
    assert table_of(registry, policy="fastest") == {"M=1": 2}


def test_how_many_ranks_timed_each_candidate(ingested: Any) -> None:
    one = share(0, {"M=1": {0: 4.0, 1: 3.0, 2: 2.0, 3: 1.0}})
    two = share(1, {"M=1": {3: 9.0}})
    made = ingested([one, two]).export(ARCH, policy="fastest").details
    assert (made.fewest_ranks, made.most_ranks) == (1, 2)


def test_a_pin_needs_no_timings(ingested: Any) -> None:
    registry = ingested([FULL[0], voting(0, "M=8", 3)])
    for key in ("M=1", "M=2"):
        registry.pin(ARCH, KERNEL, key, load_config(CONFIGS[0]), reason="known")
    assert table_of(registry, policy="fastest") == {"M=1": 1, "M=2": 1, "M=8": 8}


def test_filters_apply_to_shares(ingested: Any) -> None:
    registry = ingested(FULL)
    assert table_of(registry, policy="fastest", runs=["job"]) == {"M=1": 4, "M=2": 1}
    with pytest.raises(SelectionError):
        registry.export(ARCH, policy="fastest", triton="3.2.0")


def test_damaged_statements_of_shares_are_ignored(ingested: Any) -> None:
    odd = share(0, {"M=1": {0: 4.0}})
    for number, stated in enumerate(({"repeats": 0, "candidates": {}}, [], {"repeats": 1, "candidates": {"sm90": 3}})):
        header = Header(run="odd", rank=number, world_size=8, triton="3.6.0", extra={EXTRA: stated})
        registry = ingested([Recording("", header, {}, odd.observations, odd.timings)])
    assert "untimed" not in registry.status()


def test_ranks_that_timed_other_shares_are_not_stale(ingested: Any) -> None:
    registry = ingested([share(0, {"M=1": {0: 1.0, 1: 2.0}}), share(1, {"M=1": {2: 3.0, 3: 4.0}})])
    assert registry.export(arch=ARCH, policy="fastest").details.stale == 0
    assert [one.stale for one in registry.explain(ARCH, KERNEL).entries] == [0]
    registry = ingested([voting(0, "M=1", 3)])  # and a run that timed all candidates
    assert [one.stale for one in registry.winners()] == [0]


def test_a_run_that_chose_from_other_candidates_is_stale_beside_shares(ingested: Any) -> None:
    fewer = voting(1, "M=1", 3)
    timed = TimedCandidates.from_timings([Timing(text, 1.0, 1.0, 1.0) for text in CONFIGS[2:]])
    fewer = Recording("", fewer.header, fewer.votes, timings={ARCH: {KERNEL: {"M=1": timed}}})
    registry = ingested([share(0, {"M=1": {0: 1.0, 1: 2.0}}), voting(0, "M=1", 3), fewer])
    assert [one.stale for one in registry.winners()] == [1]


def began(rank: int, key: str) -> Recording:
    """What a rank records that died before it timed the first candidate of a key."""
    stated = {EXTRA: encode_candidates({(ARCH, KERNEL, key): CONFIGS}, 1)}
    header = Header(run="job", rank=rank, world_size=8, triton="3.6.0", id=f"{rank:032x}", extra=stated)
    return Recording("", header, {}, {}, {})


def test_a_key_that_nobody_lived_to_time_is_listed_and_left_out(ingested: Any) -> None:
    registry = ingested([*FULL, began(2, "M=9"), voting(0, "M=8", 3)])
    (line,) = registry.status()["untimed"]
    assert line.startswith("sm90 pkg.kernel M=9: 0 of 4 candidates timed; not timed: BLOCK=1 ")
    made = registry.export(ARCH, policy="fastest").details
    assert (made.entries, made.unvoted, made.banned_out) == (3, 1, 0)
    assert registry.export(ARCH).details.unvoted == 3


def test_only_keys_that_nobody_timed_give_no_table(ingested: Any) -> None:
    registry = ingested([began(2, "M=9")])
    for policy, why in (
        ("fastest", "no timings on sm90: 1 entry comes from split runs"),
        ("majority", "no votes on sm90: 1"),
    ):
        with pytest.raises(SelectionError, match=why):
            registry.export(ARCH, policy=policy)


def test_a_table_by_time_states_every_recording_that_timed(ingested: Any) -> None:
    registry = ingested([*FULL, voting(0, "M=1", 3), voting(0, "M=2", 3)])
    for policy, count in (("fastest", 3), ("majority", 1)):
        assert registry.export(ARCH, policy=policy).details.payload["tuning_registry"]["recordings"] == count


def test_a_banned_candidate_needs_no_timings(ingested: Any) -> None:
    registry = ingested([share(0, {"M=1": {0: 4.0, 1: 3.0, 2: 5.0}})])
    with pytest.raises(SelectionError, match="not timed 1 candidate of 1 entry"):
        registry.export(ARCH, policy="fastest")
    registry.ban(ARCH, KERNEL, "M=1", load_config(CONFIGS[3]), reason="wrong", force=True)
    assert table_of(registry, policy="fastest") == {"M=1": 2}


def test_a_query_that_finds_no_votes_names_split_runs(ingested: Any) -> None:
    registry = ingested(FULL)
    assert what_there_is(registry._store).endswith(
        "Split runs cast no votes: their timings elect with --policy fastest"
    )
    registry = ingested([voting(0, "M=8", 3)])
    assert "Split" not in what_there_is(registry._store)
