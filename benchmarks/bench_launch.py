"""Measure the cost of a launch in steady state: plain JIT, stock autotuned and pinned, side by side in one run.

    python benchmarks/bench_launch.py              # needs a GPU; with --fake, measures only host code, anywhere
    python benchmarks/bench_launch.py --cold       # also measures cold starts, autotuned and pinned
    python benchmarks/bench_launch.py --fla        # also measures a kernel of flash-linear-attention

Needs torch and Triton. Prints one line of JSON, then a table. Each time is the median over rounds of the mean host
time of a launch, in microseconds. Rounds of the three kinds alternate, so that a change of clock or load affects all
of them.
"""

# ruff: noqa: ANN001, ANN202, N803, D102, ARG002, ARG005, E402 - kernels are as Triton reads them, fakes take what it passes

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch have no types, or are not installed.)

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime import Autotuner

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tuning_registry import merge_records, write
from tuning_registry.runtime import install, uninstall
from tuning_registry.runtime.triton import shortcuts

CANDIDATES = [
    triton.Config({"BLOCK": b}, num_warps=w, num_stages=s) for b in (64, 128, 256) for w in (1, 2, 4) for s in (1, 2)
]


def _body(a, b, c, d, n, m, k, scale, p, q, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside) * scale + tl.load(c + at, mask=inside)
    tl.store(d + at, total + m + k + p + q, mask=inside)


NAMES = ["a", "b", "c", "d", "n", "m", "k", "scale", "p", "q"]


class FakeKernel:
    """Replaces a compiled kernel if there is no GPU: only the autotuner's own cost is left."""

    fn = staticmethod(_body)

    def run(self, *args: Any, grid: Any, warmup: Any, **kwargs: Any) -> None:
        return None

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


def make(fake: bool) -> tuple[Any, Any, dict[str, Any]]:
    """A plain kernel, an autotuned one with 18 candidates, and their arguments."""
    plain = FakeKernel() if fake else triton.jit(_body)
    inner = FakeKernel() if fake else triton.jit(_body)
    timer = {"do_bench": lambda call, quantiles: [1.0] * 3} if fake else {}
    tuned = Autotuner(inner, NAMES, CANDIDATES, ["n", "m", "k"], None, None, **timer)
    tensors = [torch.ones(4096, device="cpu" if fake else "cuda") for _ in range(4)]
    return plain, tuned, dict(zip(NAMES, [*tensors, 64, 1, 2, 0.5, 3, 4], strict=True))


def measure(rounds: int = 41, launches: int = 200, fake: bool = False) -> dict[str, dict[str, float]]:
    """Median microseconds per launch by kind, for calls by position and by keyword."""
    plain, tuned, arguments = make(fake)
    values = list(arguments.values())
    options = CANDIDATES[0].all_kwargs()
    grid = (1,)
    calls = {
        "positional": (lambda: plain[grid](*values, **options), lambda: tuned[grid](*values)),
        "keyword": (lambda: plain[grid](**arguments, **options), lambda: tuned[grid](**arguments)),
    }
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        write(
            "sm999",
            {"_body": {"*": {"kwargs": {"BLOCK": 64}, "num_warps": 1, "num_stages": 1}}},
            Path(folder) / "sm999.json",
        )
        policy = {"mode": "pinned", "arch": "sm999", "table_path": folder, "on_miss": "error"}
        for style, (jit, autotuned) in calls.items():
            times: dict[str, list[float]] = {"jit_us": [], "stock_us": [], "pinned_us": []}
            for _ in range(rounds):
                uninstall()
                times["jit_us"].append(mean_us(jit, launches, fake))
                times["stock_us"].append(mean_us(autotuned, launches, fake))
                install(policy)
                times["pinned_us"].append(mean_us(autotuned, launches, fake))
            uninstall()
            found[style] = {kind: round(statistics.median(each), 3) for kind, each in times.items()}
    return found


def measure_fla(rounds: int = 41, launches: int = 200) -> dict[str, float]:
    """Median microseconds a launch of fla's `l2norm_fwd_kernel`; `whole_us` is pinned without the shortcut past fla's `run`."""
    from fla.modules.norm.l2norm import l2norm_fwd_kernel as kernel

    kernel.configs = kernel.configs[:2]  # few to compile
    x, y = (torch.randn(64, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    arguments = {
        "x": x,
        "y": y,
        "rstd": torch.empty(64, device="cuda"),
        "eps": 1e-6,
        "T": 64,
        "D": 64,
        "BD": 64,
        "NB": 1,
    }
    config = kernel.configs[0]

    def launch() -> None:
        kernel[(1,)](**arguments)

    def launch_jit() -> None:
        kernel.fn[(1,)](**arguments, **config.all_kwargs())

    stored = {"kwargs": config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    may_skip = shortcuts.may_skip
    times: dict[str, list[float]] = {"jit_us": [], "stock_us": [], "whole_us": [], "pinned_us": []}
    with tempfile.TemporaryDirectory() as folder:
        write("sm999", {"l2norm_fwd_kernel": {"*": stored}}, Path(folder) / "sm999.json")
        policy = {"mode": "pinned", "arch": "sm999", "table_path": folder, "on_miss": "error"}
        for _ in range(rounds):
            times["jit_us"].append(mean_us(launch_jit, launches, fake=False))
            times["stock_us"].append(mean_us(launch, launches, fake=False))
            for kind, skips in (("whole_us", lambda _: False), ("pinned_us", may_skip)):
                shortcuts.may_skip = skips
                install(policy)
                times[kind].append(mean_us(launch, launches, fake=False))
                uninstall()
    shortcuts.may_skip = may_skip
    return {kind: round(statistics.median(each), 3) for kind, each in times.items()}


def mean_us(call: Any, launches: int, fake: bool) -> float:
    """Host time of one launch in microseconds: the mean of a batch short enough for the GPU's queue."""
    for _ in range(10):
        call()
    if not fake:
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(launches):
        call()
    return (time.perf_counter() - began) / launches * 1e6


def cold_start() -> dict[str, float]:
    """Seconds of a whole process with an empty Triton cache: autotuned and recording, then pinned to its choices."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record = {"TUNING_REGISTRY_RECORD_PATH": str(folder / "rec"), "TUNING_REGISTRY_RUN": "cold"}
        seconds = {"autotuned_s": child(folder / "a", record)}
        for arch, kernels in merge_records(str(folder / "rec.*.json")).items():
            write(arch, kernels, folder / f"{arch}.json", triton=triton.__version__)
        pinned = {
            "TUNING_REGISTRY_MODE": "pinned",
            "TUNING_REGISTRY_TABLE_PATH": name,
            "TUNING_REGISTRY_ON_MISS": "error",
        }
        return {**seconds, "pinned_s": child(folder / "p", pinned)}


def child(cache: Path, environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, __file__, "--child"], check=True,
                   env={**os.environ, **environment, "TRITON_CACHE_DIR": str(cache)})  # fmt: skip
    return round(time.perf_counter() - began, 2)


def run_child() -> None:
    """One launch of the kernel at several keys, under the environment's policy."""
    install()
    _, tuned, arguments = make(fake=False)
    for m in range(1, 9):
        tuned[(1,)](**{**arguments, "m": m})
    torch.cuda.synchronize()
    uninstall()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fake", action="store_true", help="Measure only the autotuner's host code; needs no GPU.")
    parser.add_argument("--cold", action="store_true", help="Also measure cold starts.")
    parser.add_argument("--fla", action="store_true", help="Also measure a kernel of flash-linear-attention.")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--launches", type=int, default=200)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child()
        return
    figures: dict[str, Any] = measure(options.rounds, options.launches, options.fake)
    where = {
        "device": "none (fake kernels)" if options.fake else torch.cuda.get_device_name(),
        "triton": triton.__version__, "torch": torch.__version__, "python": platform.python_version(),
    }  # fmt: skip
    for call in figures.values():
        call["ratio"] = round(call["pinned_us"] / call["stock_us"], 3)
    fla = {"fla_l2norm_fwd": measure_fla(options.rounds, options.launches)} if options.fla and not options.fake else {}
    cold = {"cold": cold_start()} if options.cold and not options.fake else {}
    print(json.dumps({**where, **figures, **fla, **cold}))
    print(f"{'':<12}{'JIT us':>10}{'stock us':>10}{'pinned us':>10}{'pinned/stock':>14}")
    for style, call in figures.items():
        print(
            f"{style:<12}{call['jit_us']:>10.2f}{call['stock_us']:>10.2f}{call['pinned_us']:>10.2f}{call['ratio']:>14.3f}"
        )
    for name, kinds in fla.items():
        print(name, ", ".join(f"{kind.removesuffix('_us')} {time_us:.2f} us" for kind, time_us in kinds.items()))
    if cold:
        print(f"cold start: autotuned {cold['cold']['autotuned_s']} s, pinned {cold['cold']['pinned_s']} s")


if __name__ == "__main__":
    main()
