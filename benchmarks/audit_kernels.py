"""Kernels for the benchmark of audits: right ones, one with a race, one with a wrong tile, and a small training."""

# ruff: noqa: ANN001, N803 - kernels are written as Triton reads them

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch come without types, or not at all.)

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.autotune(
    [
        triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=w)
        for m, n, k, w in [(64, 64, 32, 4), (64, 64, 64, 4), (128, 64, 32, 4), (128, 128, 64, 8), (128, 128, 32, 8)]
    ],
    key=["m", "n", "k"],
)
@triton.jit
def matmul(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr) -> None:
    """`c = a @ b`, row-major; sums over k in steps of BLOCK_K."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        left = tl.load(
            a + rows[:, None] * k + inner[None, :], mask=(rows[:, None] < m) & (inner[None, :] < k), other=0.0
        )
        right = tl.load(b + inner[:, None] * n + columns[None, :],
                        mask=(inner[:, None] < k) & (columns[None, :] < n), other=0.0)  # fmt: skip
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty),
             mask=(rows[:, None] < m) & (columns[None, :] < n))  # fmt: skip


@triton.autotune([triton.Config({"BLOCK": 1024}, num_warps=w) for w in (1, 2, 4, 8)], key=["n"])
@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr) -> None:
    """One row a program; the number of warps fixes the order of the additions."""
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    values = tl.load(x + row * n + at, mask=at < n, other=-float("inf")).to(tl.float32)
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * n + at, (values / tl.sum(values, axis=0)).to(y.dtype.element_ty), mask=at < n)


@triton.autotune([triton.Config({"BLOCK": b}, num_warps=w) for b in (128, 512, 1024) for w in (2, 4)], key=["n"])
@triton.jit
def layer_norm(x, y, mean, rstd, n, eps, BLOCK: tl.constexpr) -> None:
    """One row a program, BLOCK values at a time."""
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        total += values
        squares += values * values
    middle = tl.sum(total, axis=0) / n
    factor = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / n - middle * middle + eps)
    tl.store(mean + row, middle)
    tl.store(rstd + row, factor)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(y + row * n + at, ((values - middle) * factor).to(y.dtype.element_ty), mask=at < n)


@triton.autotune([triton.Config({"SPLIT": s}, num_warps=w) for s, w in ((1, 1), (1, 2), (1, 4), (64, 4), (512, 4))],
                 key=["n"], reset_to_zero=["out"])  # fmt: skip
@triton.jit
def racing_count(x, out, n, SPLIT: tl.constexpr) -> None:
    """Counts without atomics: with more than one program, additions get lost, and never the same ones."""
    for start in range(tl.program_id(0), n, SPLIT):
        place = out + start % 16
        tl.store(place, tl.load(place) + tl.load(x + start))


@triton.autotune([triton.Config({"SPLIT": s, "BLOCK": 128}) for s in (1, 64, 512)], key=["n"], reset_to_zero=["out"])
@triton.jit
def atomic_sum(x, out, n, SPLIT: tl.constexpr, BLOCK: tl.constexpr) -> None:
    """Adds with atomics, in whatever order the programs come."""
    for start in range(tl.program_id(0) * BLOCK, n, SPLIT * BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.atomic_add(out + at % 16, tl.load(x + at, mask=at < n, other=0.0))


@triton.autotune([triton.Config({"BLOCK": b}) for b in (16, 32, 64, 128, 256)], key=["n"])
@triton.jit
def wrong_tile(x, y, n, BLOCK: tl.constexpr) -> None:
    """Sums of rows that forget the last tile if BLOCK does not divide the row."""
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for tile in range(n // BLOCK):
        total += tl.load(x + row * n + tile * BLOCK + tl.arange(0, BLOCK)).to(tl.float32)
    tl.store(y + row, tl.sum(total, axis=0))


@triton.autotune([triton.Config({"BLOCK": b}) for b in (128, 256, 1024)], key=["n"])
@triton.jit
def add_in_place(x, y, n, BLOCK: tl.constexpr) -> None:
    """`y += x`, without anything that restores `y`."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(y + at, mask=at < n) + tl.load(x + at, mask=at < n), mask=at < n)


def product(a: Any, b: Any) -> Any:
    c = torch.empty(a.shape[0], b.shape[1], device=a.device, dtype=a.dtype)
    (m, k), n = a.shape, b.shape[1]
    matmul[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]))](a, b, c, m, n, k)
    return c


def normed(x: Any) -> Any:
    y, (mean, rstd) = torch.empty_like(x), torch.empty(2, x.shape[0], device=x.device)
    layer_norm[(x.shape[0],)](x, y, mean, rstd, x.shape[1], 1e-5)
    return y


def launch_all(device: str = "cuda") -> None:
    """Launch every kernel once."""
    generator = torch.Generator(device=device).manual_seed(1)

    def random(*shape: int, dtype: Any = torch.float32) -> Any:
        return torch.randn(*shape, device=device, generator=generator).to(dtype)

    product(random(500, 700, dtype=torch.float16), random(700, 300, dtype=torch.float16))
    product(random(512, 512), random(512, 512))
    wide = random(256, 1000)
    softmax[(256,)](wide, torch.empty_like(wide), 1000)
    normed(random(256, 1000, dtype=torch.bfloat16))
    normed(random(256, 960))
    numbers = random(1 << 16)
    out = torch.zeros(16, device=device)
    racing_count[lambda meta: (meta["SPLIT"],)](numbers, out, 1 << 14)
    atomic_sum[lambda meta: (meta["SPLIT"],)](numbers, out, numbers.numel())
    rows = random(300, 960)
    wrong_tile[(300,)](rows, torch.empty(300, device=device), 960)
    base = random(2, 1 << 16)  # both arguments are views of one storage
    add_in_place[lambda meta: (triton.cdiv(1 << 16, meta["BLOCK"]),)](base[0], base[1], 1 << 16)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return product(a, b)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved_tensors
        grad = grad.contiguous()
        return product(grad, b.t().contiguous()), product(a.t().contiguous(), grad)


def train(steps: int = 12, device: str = "cuda") -> list[str]:
    """The losses of a small training, exact, as hexadecimal texts; dropout draws from the job's generators."""
    torch.manual_seed(0)
    first = torch.nn.Parameter(torch.randn(512, 768, device=device) * 0.05)
    second = torch.nn.Parameter(torch.randn(768, 512, device=device) * 0.05)
    optimizer = torch.optim.AdamW([first, second], lr=1e-3)
    losses = []
    for _ in range(steps):
        x = torch.randn(256, 512, device=device)
        hidden = torch.nn.functional.dropout(torch.relu(_Product.apply(x, first)), 0.1)
        loss = (_Product.apply(hidden, second) - normed(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()).hex())
    return losses
