"""The rule for unseen keys on real timings: the benchmark's recording, some of its kernels, half of the keys left out."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "bench_misses.py"
KERNELS = {"softmax", "matrix_vector", "row_scan"}


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_misses", BENCHMARK)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_unseen_keys_cost_less_than_the_cheapest_estimate_and_than_the_nearest_winner(benchmark: ModuleType) -> None:
    kernels = {kernel: keys for kernel, keys in benchmark.read(benchmark.SHIPPED).items()
               if benchmark.bare_name(kernel) in KERNELS}  # fmt: skip
    assert len(kernels) == len(KERNELS)
    assert all(len(keys) > 20 for keys in kernels.values())
    found = [miss for seed in range(2) for miss in benchmark.leave_half_out(kernels, seed)]
    ours, winners, cheapest = ([miss.ratios[method] for miss in found] for method in benchmark.METHODS)
    assert 1 <= benchmark.mean(ours) < benchmark.mean(winners) < benchmark.mean(cheapest)
    assert benchmark.mean(ours) - 1 < (benchmark.mean(cheapest) - 1) / 5
    assert max(ours) < max(winners) < max(cheapest)


def test_the_benchmark_prints_every_method_for_both_groups_of_kernels(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--kernel", "matrix_vector", "--kernel", "stencil", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", ["bench_misses.py", *words])
    benchmark.main()
    summary = capsys.readouterr().out.partition("## Summary")[2]
    lines = [line.split(" | ") for line in summary.splitlines() if line.startswith("| ")]
    assert lines[0][3:] == [*benchmark.METHODS, "timed again |"]
    assert [line[0].removeprefix("| ") for line in lines[2:]] == ["development"] * 2 + ["reserved"] * 2
    for line in lines[2:]:
        ours, winners, cheapest, again = (float(cell.partition(",")[0]) for cell in line[3:])
        assert 1 <= ours < cheapest
        assert 1 <= ours <= winners + 0.01
        assert 1 < again < 1.1
