"""The comparison of `examples/train_fla`, over the files of jobs that ran elsewhere."""

from __future__ import annotations

import importlib.util
import json
import types
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def results() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("train_fla_results", ROOT / "examples/train_fla/results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_job(folder: Path, losses: list[list[float]], parameters: str = "a" * 64) -> Path:
    """A job's folder with the losses of each rank."""
    folder.mkdir()
    for rank, values in enumerate(losses):
        found = {"rank": rank, "losses": [value.hex() for value in values], "parameters_sha256": parameters,
                 "first_step_s": 2.0 + rank, "step_ms": [10.0, 30.0, 20.0]}  # fmt: skip
        (folder / f"rank{rank}.json").write_text(json.dumps(found))
        (folder / f"rank{rank}.log").write_text(f"step 1\ntuning_registry: recorded {rank} votes\n")
    return folder


def jobs_of(results: types.ModuleType, tmp_path: Path, **losses: list[list[float]]) -> dict[str, dict[str, Any]]:
    return {name: results.summary(write_job(tmp_path / name, each), 2) for name, each in losses.items()}


def test_a_job_is_summed_up_over_its_ranks(results: types.ModuleType, tmp_path: Path) -> None:
    job = results.summary(write_job(tmp_path / "job", [[1.0, 0.5], [2.0, 0.25]]), 2)
    assert (job["first_step_s"], job["median_step_ms"]) == (3.0, 20.0)
    assert job["last_losses"] == [(0.5).hex(), (0.25).hex()]
    assert job["log"] == ["tuning_registry: recorded 0 votes", "tuning_registry: recorded 1 votes"]


def test_one_bit_of_one_loss_makes_a_difference(results: types.ModuleType, tmp_path: Path) -> None:
    close = 0.1 + 2**-56  # the next float
    jobs = jobs_of(results, tmp_path, one=[[1.0, 0.1], [2.0, 0.2]], same=[[1.0, 0.1], [2.0, 0.2]],
                   other=[[1.0, close], [2.0, 0.2]])  # fmt: skip
    assert results.compared(jobs, "one", "same")["equal"]
    found = results.compared(jobs, "one", "other")
    assert (found["equal"], found["first_different_step"], found["equal_losses"]) == (False, [2, None], [1, 2])


def test_other_parameters_differ_though_all_losses_are_equal(results: types.ModuleType, tmp_path: Path) -> None:
    jobs = jobs_of(results, tmp_path, one=[[1.0], [2.0]])
    jobs["other"] = results.summary(write_job(tmp_path / "other", [[1.0], [2.0]], parameters="b" * 64), 2)
    found = results.compared(jobs, "one", "other")
    assert (found["equal"], found["first_different_step"], found["equal_parameters"]) == (
        False, [None, None], [False, False],
    )  # fmt: skip


def test_losses_that_are_not_finite_prove_nothing(results: types.ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not finite"):
        results.summary(write_job(tmp_path / "job", [[1.0], [float("nan")]]), 2)


def test_the_report_shows_what_ran_and_what_failed(results: types.ModuleType, tmp_path: Path) -> None:
    jobs = jobs_of(results, tmp_path, **{"stock-1": [[1.0], [2.0]], "recorded": [[1.5], [2.0]]})
    jobs["recorded"] |= {"entries": 5, "disagreements": 2}
    jobs["chaos"] = {"error": "exit statuses [1, 1]; the log ends with: out of memory"}
    pairs = [results.compared(jobs, "stock-1", other) for other in ("recorded", "chaos")]
    lines = results.report({"machine": results.machine(), "jobs": jobs, "comparisons": pairs}).splitlines()
    assert "2 of 5 recorded entries disagree between the ranks" in lines
    assert [line.split() for line in lines if line.startswith("stock-1 /")] == [
        ["stock-1", "/", "recorded", "step", "1", "no", "step", "equal"]
    ]
    assert any(line.startswith("chaos") and "out of memory" in line for line in lines)
