"""Real kernels, traced and put into generated code by the real Inductor; only their compilation is faked."""

# ruff: noqa: ANN001, N803 - kernels are written as Triton reads them

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from typing import Any

import torch
import triton
import triton.language as tl


def sizes(*blocks: int) -> list[Any]:
    return [triton.Config({"BLOCK": block}, num_warps=warps) for block in blocks for warps in (2, 4)]


@triton.autotune(configs=sizes(64, 128), key=["n"])
@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.autotune(configs=sizes(64, 128), key=["n", "MODE"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def even(x, y, out, n, MODE: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.heuristics({"ROUND": lambda args: args["n"] % 8 == 0})
@triton.autotune(configs=sizes(64, 128), key=["n", "ROUND"])
@triton.jit
def rounded(x, y, out, n, ROUND: tl.constexpr, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


def _large(configs: list[Any], _: dict[str, Any], **__: Any) -> list[Any]:
    return [config for config in configs if config.kwargs["BLOCK"] >= 128]


@triton.autotune(configs=sizes(64, 128, 256), key=["n"], prune_configs_by={"early_config_prune": _large})
@triton.jit
def pruned(x, y, out, n, BLOCK: tl.constexpr) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


def call(kernel: Any, x: torch.Tensor, **options: Any) -> torch.Tensor:
    """One launch, with the grid that the config asks for."""
    out = torch.empty_like(x)
    kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, x, out, x.numel(), **options)
    return out


@torch.library.triton_op("tuning_registry_tests::op_add", mutates_args={})
def op_add(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(add)[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, x, out, x.numel())
    return out
