"""Real kernels, of the forms in which kernels are written; nothing here launches one."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-def, import-untyped, import-not-found, attr-defined"
# ruff: noqa: ANN001, ANN201, ANN202, N803 - kernels are as Triton reads them
# (Triton has no types, or is not installed.)

import functools
from typing import Any

import triton
import triton.language as tl

WIDTH = tl.constexpr(2)


@triton.jit
def scaled(x):
    return x * WIDTH


def configs() -> Any:
    return [triton.Config({"B": size}, num_warps=warps) for size in (64, 128) for warps in (1, 2)]


@triton.autotune(configs=configs(), key=["n"])
@triton.jit
def plain(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, scaled(tl.load(x + at, mask=at < n)), mask=at < n)


@triton.autotune(configs=configs(), key=["n"])
@triton.heuristics({"IS_EVEN": lambda given: given["n"] % 16 == 0, "num_stages": lambda given: 2})
@triton.jit
def with_heuristics(x, y, n, eps, bias, kind: tl.constexpr, B: tl.constexpr, IS_EVEN: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at) if IS_EVEN else tl.load(x + at, mask=at < n)
    if bias is not None:
        value += tl.load(bias + at, mask=at < n)
    if kind == "relu":
        value = tl.maximum(value, 0.0)
    tl.store(y + at, value + eps, mask=at < n)


def hidden_by(function: Any) -> Any:
    """A decorator that hides the kernel that it wraps from whoever looks for its name."""

    @functools.wraps(function.base_fn)
    def call(*args: Any, **options: Any) -> Any:
        return function[(1,)](*args, **options)

    call.tuner = function
    return call


@hidden_by
@triton.autotune(configs=configs()[:2], key=["n"])
@triton.jit
def hidden(x, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(x + at, at, mask=at < n)


def make(scale: float) -> Any:
    @triton.autotune(configs=configs()[:2], key=["n"])
    @triton.jit
    def made(x, n, B: tl.constexpr):
        at = tl.arange(0, B)
        tl.store(x + at, at, mask=at < n)

    made.scale = scale
    return made


made_at_import = make(2.0)
