"""The kernels and compiled programs of `bench_compile.py`."""

# ruff: noqa: ANN001, N803 - kernels are written as Triton reads them

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl


def _sizes() -> list[Any]:
    return [triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128, 256, 512, 1024) for w in (1, 2, 4)]


@triton.autotune(_sizes(), key=["n"])
@triton.jit
def row_sum(x, out, n, stride, BLOCK: tl.constexpr) -> None:
    """One row a program, summed BLOCK values at a time: the config fixes the order of the additions."""
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x + row * stride + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out + row, tl.sum(acc))


@triton.autotune(_sizes(), key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def even_sum(x, out, n, stride, BLOCK: tl.constexpr, EVEN: tl.constexpr) -> None:
    """As `row_sum`, with a heuristic that depends on the config."""
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        if EVEN:
            acc += tl.load(x + row * stride + at).to(tl.float32)
        else:
            acc += tl.load(x + row * stride + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out + row, tl.sum(acc))


def _not_small(configs: list[Any], _: dict[str, Any], **__: Any) -> list[Any]:
    return [config for config in configs if config.kwargs["BLOCK"] >= 128]


@triton.autotune(_sizes(), key=["n"], prune_configs_by={"early_config_prune": _not_small})
@triton.jit
def pruned_sum(x, out, n, stride, BLOCK: tl.constexpr) -> None:
    """As `row_sum`, with pruning."""
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x + row * stride + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out + row, tl.sum(acc))


KERNELS = {kernel.base_fn.__name__: kernel for kernel in (row_sum, even_sum, pruned_sum)}


def launch(kernel: Any, x: torch.Tensor) -> torch.Tensor:
    """One launch over the rows of `x`."""
    out = torch.empty(x.shape[0], device=x.device, dtype=torch.float32)
    kernel[(x.shape[0],)](x, out, x.shape[1], x.stride(0))
    return out


@torch.library.triton_op("tuning_registry_bench::op_sum", mutates_args={})
def op_sum(x: torch.Tensor) -> torch.Tensor:
    """`row_sum` as an operator that Inductor can see into."""
    out = torch.empty(x.shape[0], device=x.device, dtype=torch.float32)
    torch.library.wrap_triton(row_sum)[(x.shape[0],)](x, out, x.shape[1], x.stride(0))
    return out


@torch.library.custom_op("tuning_registry_bench::opaque_sum", mutates_args=())
def opaque_sum(x: torch.Tensor) -> torch.Tensor:
    """`row_sum` as an operator that Inductor cannot see into: it launches the autotuner itself."""
    return launch(row_sum, x)


@opaque_sum.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(x.shape[0], device=x.device, dtype=torch.float32)


def data(rows: int, n: int) -> torch.Tensor:
    """The same values in every process."""
    generator = torch.Generator(device="cuda").manual_seed(rows * n)
    return torch.randn(rows, n, device="cuda", generator=generator)


def own_kernels(x: torch.Tensor) -> torch.Tensor:
    """A reduction and a product that Inductor makes kernels for; rounded, since these kernels are not pinned."""
    return torch.round((x @ x.T).softmax(-1).sum(0))


# By name: the function, its input, and the options of torch.compile.
PROGRAMS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, int], dict[str, Any]]] = {
    "plain": (lambda x: launch(row_sum, x) * 2.0, (64, 4096), {}),
    "heuristics": (lambda x: launch(even_sum, x) * 2.0, (64, 3000), {}),
    "pruning": (lambda x: launch(pruned_sum, x) * 2.0, (64, 5000), {}),
    "triton_op": (lambda x: op_sum(x) * 2.0, (64, 6000), {}),
    "custom_op": (lambda x: opaque_sum(x) * 2.0, (64, 7000), {}),
    "cudagraphs": (lambda x: launch(row_sum, x) * 2.0, (32, 4096 + 512), {"mode": "reduce-overhead"}),
    "dynamic": (lambda x: launch(row_sum, x) * 2.0, (64, 2222), {"dynamic": True}),
    "own": (own_kernels, (512, 512), {"mode": "max-autotune-no-cudagraphs"}),
}
