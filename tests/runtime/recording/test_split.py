"""Ranks that share the work of a recording run, with Triton's real Autotuner."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.fakes import ARCH, NAME, Config, autotuner, launch, text_of
from tuning_registry.errors import FormatError
from tuning_registry.formats.recordings import read_recording
from tuning_registry.model.records import IN_SHARE, Recording
from tuning_registry.model.shares import EXTRA, decode_candidates
from tuning_registry.runtime import AutotunePolicy, install, uninstall
from tuning_registry.runtime.job import place
from tuning_registry.runtime.recording.recorders import forget_recorders

SIZES = [2**power for power in range(4, 14)]
RANKS = 4


def candidates() -> list[Any]:
    return [Config({"BLOCK_M": size}, num_warps=4) for size in SIZES]


class ByCandidate:
    """A clock on which a candidate takes as many ms as its BLOCK_M says, or does not run."""

    def __init__(self, failing: tuple[int, ...] = ()) -> None:
        self.failing = failing
        self.measured: list[int] = []
        self.kernel: Any = None

    def __call__(self, kernel_call: Any, quantiles: Any) -> Any:  # noqa: ARG002  # as Triton calls it
        before = len(self.kernel.fn.launches)
        kernel_call()
        block = self.kernel.fn.launches[before]["BLOCK_M"]
        self.measured.append(block)
        if block in self.failing:
            return [float("inf")] * 3
        return [float(block), block * 0.9, block * 1.1]


@pytest.fixture
def run_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs one rank of a job that launches a kernel for some keys; returns what it timed and launched, by key."""

    def run(
        rank: int, keys: Any = (1,), *, size: int = RANKS, failing: Any = (), run: str = "job", **policy: Any
    ) -> Any:
        forget_recorders()
        monkeypatch.setattr(place, "_memory", place._Memory())
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(size))
        install(record_path=tmp_path / "rec" / "r", arch=ARCH, run=run, **{"split": RANKS, **policy})
        clock = ByCandidate(failing)
        clock.kernel = autotuner(candidates(), timer=clock)
        timed, launched = {}, {}
        for key in keys:
            launch(clock.kernel, *clock_arguments(key))
            timed[key], clock.measured = clock.measured, []
            launched[key] = clock.kernel.fn.launches[-1]["BLOCK_M"]
        uninstall()
        return timed, launched

    (tmp_path / "rec").mkdir()
    return run


def clock_arguments(key: int) -> tuple[Any, ...]:
    return (1, 2, key)


def recordings(tmp_path: Path) -> list[Recording]:
    return [read_recording(file) for file in sorted((tmp_path / "rec").iterdir())]


def test_every_candidate_is_timed_by_two_ranks_and_nothing_votes(run_rank: Any, tmp_path: Path) -> None:
    keys = range(1, 13)
    found = [run_rank(rank, keys) for rank in range(RANKS)]
    for key in keys:
        assert Counter(block for timed, _ in found for block in timed[key]) == dict.fromkeys(SIZES, 2)
        assert all(launched[key] == min(timed[key]) for timed, launched in found)  # the best of its share
    work = [sum(map(len, timed.values())) for timed, _ in found]
    assert sum(work) == 2 * len(SIZES) * len(keys)
    assert max(work) <= 1.2 * min(work)
    everyone = [text_of(candidate) for candidate in candidates()]
    for recording in recordings(tmp_path):
        assert not recording.votes
        assert {one.reason for one in recording.observations[ARCH][NAME].values()} == {IN_SHARE}
        assert len(recording.timings[ARCH][NAME]) == len(keys)
        repeats, entries = decode_candidates(recording.header.extra[EXTRA])
        assert repeats == 2
        assert all(set(texts) == set(everyone) for texts in entries.values())
        assert len(entries) == len(keys)


def test_a_share_of_one_candidate_is_timed_once(run_rank: Any) -> None:
    found = [run_rank(rank, size=8, split=8, split_repeats=1)[0][1] for rank in range(8)]
    assert sorted(block for timed in found for block in timed) == SIZES
    assert {len(timed) for timed in found} == {1, 2}


def test_more_ranks_than_candidates_leave_nobody_without_a_config(run_rank: Any) -> None:
    found = [run_rank(rank, size=30, split=30, split_repeats=1) for rank in range(30)]
    assert {block for timed, _ in found for block in timed[1]} == set(SIZES)
    assert all(len(timed[1]) == 1 for timed, _ in found)


def test_a_share_in_which_nothing_runs_goes_on_with_the_other_candidates(run_rank: Any, tmp_path: Path) -> None:
    failing = tuple(size for size in SIZES if size != 256)
    for rank in range(RANKS):
        timed, launched = run_rank(rank, failing=failing)
        assert launched[1] == 256
        assert len(timed[1]) == len(set(timed[1]))
    times = [recording.timings[ARCH][NAME] for recording in recordings(tmp_path)]
    assert all(any(times is not None for times in timed.times_ms) for one in times for timed in one.values())


def test_ranks_that_never_came_leave_gaps_that_the_next_run_fills(run_rank: Any) -> None:
    first = [run_rank(rank)[0][1] for rank in range(RANKS - 1)]
    counts = Counter(block for timed in first for block in timed)
    missing = {block: 2 - counts[block] for block in SIZES if counts[block] < 2}
    assert missing
    second = [run_rank(rank, run="again") for rank in range(RANKS)]
    assert Counter(block for timed, _ in second for block in timed[1]) == missing
    third = [run_rank(rank, run="third") for rank in range(RANKS)]
    assert all(len(timed[1]) <= 1 for timed, _ in third)  # Triton before 3.9 times a single candidate as well
    assert {launched[1] for _, launched in third} == {min(SIZES)}


def test_a_share_depends_on_the_place_alone(run_rank: Any, tmp_path: Path) -> None:
    """Ranks may come late, restart, or launch other keys before: nobody else is asked."""
    alone = {rank: run_rank(rank, (7,), run=f"job {rank}")[0][7] for rank in (2,)}
    for file in (tmp_path / "rec").iterdir():
        file.unlink()
    together = {rank: run_rank(rank, (3, 7) if rank else (7, 3))[0][7] for rank in range(RANKS)}
    assert together[2] == alone[2]


def test_one_rank_alone_times_everything_and_votes(run_rank: Any, tmp_path: Path) -> None:
    timed, _ = run_rank(0, size=1)
    assert sorted(timed[1]) == SIZES
    assert recordings(tmp_path)[0].votes


def test_a_rank_that_does_not_know_its_place_times_everything(
    run_rank: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    timed, _ = run_rank(3, split="node")
    assert sorted(timed[1]) == SIZES
    assert "times every candidate itself" in caplog.text
    for recording in (tmp_path / "rec").iterdir():
        recording.unlink()
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    timed, _ = run_rank(3, split="node", split_repeats=1, run="other")
    assert len(timed[1]) == len(SIZES) / 2


def test_tasks_per_node_as_slurm_states_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert place.launched_local_size({"SLURM_TASKS_PER_NODE": "8(x16)"}) == 8
    assert place.launched_local_size({"SLURM_TASKS_PER_NODE": "8(x2),3"}) is None
    assert place.launched_local_size({"LOCAL_WORLD_SIZE": "4", "SLURM_TASKS_PER_NODE": "8"}) == 4
    assert place.launched_local_size({}) is None


def test_without_split_nothing_changes(run_rank: Any, tmp_path: Path) -> None:
    timed, _ = run_rank(1, split=None)
    assert sorted(timed[1]) == SIZES
    assert not recordings(tmp_path)[0].header.extra


@pytest.mark.parametrize("split", [1, 0, "host", True, 2.0])
def test_split_is_checked(split: Any) -> None:
    with pytest.raises(FormatError, match="split"):
        AutotunePolicy(split=split)


def test_only_a_recording_run_shares_work(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    install(mode="pinned", table_path=tmp_path, split=4)
    assert "split has no effect in mode pinned" in caplog.text


def test_an_audit_needs_all_candidates_so_nothing_is_shared(
    run_rank: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    timed, _ = run_rank(1, audit=True)
    assert timed == {1: SIZES}
    assert "split has no effect with audit" in caplog.text
    (recording,) = recordings(tmp_path)
    assert list(recording.votes[ARCH][NAME]) == ["M=1"]
    assert EXTRA not in recording.header.extra


def test_split_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from tuning_registry.runtime.policies.options import policy_from_environment

    for text, value in (("8", 8), ("node", "node")):
        monkeypatch.setenv("TUNING_REGISTRY_SPLIT", text)
        monkeypatch.setenv("TUNING_REGISTRY_RECORD_PATH", "rec/r")
        assert policy_from_environment().split == value
    assert os.environ["TUNING_REGISTRY_SPLIT"] == "node"
