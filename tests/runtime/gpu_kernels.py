"""Real kernels for the GPU tests, and the small programs that they run in separate processes."""

# ruff: noqa: ANN001, N803 - kernels are written as Triton reads them

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import triton
import triton.language as tl

SIZES = [(64, 1024), (128, 4096), (32, 999)]
zeroed: list[int] = []


def configs() -> list[Any]:
    return [triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128, 256, 1024) for w in (1, 4)]


@triton.autotune(configs(), key=["n"])
@triton.jit
def row_sum(x, out, n, stride, BLOCK: tl.constexpr) -> None:
    """One row a program, summed BLOCK values at a time: the config fixes the order of the additions."""
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x + row * stride + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out + row, tl.sum(acc))


def _zero(arguments: dict[str, Any]) -> None:
    arguments["out"].zero_()
    zeroed.append(1)


@triton.autotune(
    [triton.Config({"BLOCK": 64, "SPLIT": 1}), triton.Config({"BLOCK": 64, "SPLIT": 4}, pre_hook=_zero)], key=["n"]
)
@triton.jit
def split_sum(x, out, n, BLOCK: tl.constexpr, SPLIT: tl.constexpr) -> None:
    """Adds into `out` from SPLIT programs; its hook clears `out` before."""
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(tl.program_id(0) * BLOCK, n, BLOCK * SPLIT):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x + at, mask=at < n, other=0.0)
    tl.atomic_add(out, tl.sum(acc))


def run_row_sum(rows: int, n: int) -> torch.Tensor:
    return sum_rows(data(rows, n))


def data(rows: int, n: int) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(rows * n)
    return torch.randn(rows, n, device="cuda", generator=generator)


def sum_rows(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape[0], device="cuda")
    row_sum[(x.shape[0],)](x, out, x.shape[1], x.stride(0))
    return out


def compiled_variants(kernel: Any) -> int:
    """How many programs a kernel has been compiled to on the current device."""
    function = kernel
    while not hasattr(function, "device_caches"):
        function = function.fn
    return len(function.device_caches[torch.cuda.current_device()][0])


def work() -> None:
    """Run every size under the environment's policy; print results and what was done as JSON."""
    from tuning_registry.runtime import choice_log, coverage_report, install, uninstall

    timings = []
    original = triton.runtime.Autotuner._bench

    def counting(*args: Any, **kwargs: Any) -> Any:
        timings.append(kwargs["config"])
        return original(*args, **kwargs)

    triton.runtime.Autotuner._bench = counting
    policy = install()
    sums = [run_row_sum(rows, n).cpu().numpy().tobytes().hex() for rows, n in SIZES]
    report = coverage_report()
    answer = {
        "mode": policy.mode, "timed": len(timings), "sums": sums, "compiled": compiled_variants(row_sum),
        "choices": [(c.arch, c.kernel, c.key, c.config, c.source) for c in choice_log()],
        "misses": report.miss_counts, "faults": report.faults,
    }  # fmt: skip
    uninstall()
    json.dump(answer, sys.stdout)


def compiled_work() -> None:
    """As `work`, under torch.compile, with separate code for each size."""
    import os
    from collections import Counter
    from pathlib import Path

    from tuning_registry.runtime import choice_log, coverage_report, install, uninstall

    timed: Counter[str] = Counter()
    policy = install()
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    for owner, name, kind in ((triton.runtime.Autotuner, "_bench", "triton"), (CachingAutotuner, "bench", "inductor")):
        original = getattr(owner, name)

        def counting(self: Any, *args: Any, original: Any = original, kind: str = kind, **kwargs: Any) -> Any:
            if kind == "triton" or self.custom_kernel:
                timed[kind] += 1
            return original(self, *args, **kwargs)

        setattr(owner, name, counting)
    run = torch.compile(sum_rows, dynamic=False)
    sums = [run(data(rows, n)).cpu().numpy().tobytes().hex() for rows, n in SIZES]
    report = coverage_report()
    answer = {
        "mode": policy.mode, "timed": timed, "sums": sums,
        "choices": [(c.kernel, c.key, c.config, c.source) for c in choice_log() if not c.kernel.startswith("torch.")],
        "compiled": len(list(Path(os.environ["TRITON_CACHE_DIR"]).glob("*/row_sum.cubin"))),
        "misses": report.miss_counts, "faults": report.faults,
    }  # fmt: skip
    uninstall()
    json.dump(answer, sys.stdout)
