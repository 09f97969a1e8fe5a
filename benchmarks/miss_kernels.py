"""Triton kernels for the benchmark of misses: matrix products, attention, softmax, reductions, scans, stencils.

They are textbook kernels whose best config depends on shape and dtype. Each has 8 to 16 candidates and lists its sizes
in its tuning key, so every shape is a key.
"""

# ruff: noqa: ANN001, ANN002, ANN201, ARG001, N803 - kernels are as Triton reads them
# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton has no types, or is not installed.)

from __future__ import annotations

import triton
import triton.language as tl


def configs(names, *rows):
    """Candidates from rows of block sizes, then warps and stages."""
    return [triton.Config(dict(zip(names, row, strict=False)), num_warps=row[-2], num_stages=row[-1]) for row in rows]


@triton.autotune(
    configs(
        ("BLOCK_M", "BLOCK_N", "BLOCK_K"),
        (128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (128, 128, 64, 4, 4), (128, 128, 32, 4, 4), (128, 128, 64, 8, 3),
        (64, 256, 32, 4, 4), (128, 64, 32, 4, 4), (64, 128, 64, 4, 4), (64, 64, 64, 4, 4), (64, 64, 32, 4, 5),
        (128, 32, 32, 4, 4), (64, 32, 64, 2, 5), (32, 64, 64, 2, 5), (32, 128, 64, 4, 4),
    ),
    key=["M", "N", "K", "ACTIVATION"],
)  # fmt: skip
@triton.jit
def matmul(a, b, c, M, N, K, ACTIVATION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
           BLOCK_K: tl.constexpr):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = 8 * tiles_n
    first = (pid // group) * 8
    rows_in_group = min(tiles_m - first, 8)
    tile_m = first + (pid % group) % rows_in_group
    tile_n = (pid % group) // rows_in_group
    at_m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    at_n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    at_k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        in_k = at_k + k * BLOCK_K
        left = tl.load(a + at_m[:, None] * K + in_k[None, :], mask=(at_m < M)[:, None] & (in_k < K)[None, :], other=0.0)
        right = tl.load(
            b + in_k[:, None] * N + at_n[None, :], mask=(in_k < K)[:, None] & (at_n < N)[None, :], other=0.0
        )
        total = tl.dot(left, right, total)
    if ACTIVATION == "relu":
        total = tl.maximum(total, 0.0)
    inside = (at_m < M)[:, None] & (at_n < N)[None, :]
    tl.store(c + at_m[:, None] * N + at_n[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.autotune(
    configs(
        ("BLOCK_M", "BLOCK_N", "BLOCK_K"),
        (128, 128, 32, 8, 3), (128, 64, 32, 4, 4), (64, 128, 32, 4, 4), (64, 64, 64, 4, 3), (64, 64, 32, 4, 4),
        (64, 32, 32, 2, 4), (32, 64, 32, 2, 4), (32, 32, 64, 2, 4), (32, 32, 32, 1, 4), (16, 64, 64, 2, 4),
        (16, 32, 64, 1, 4), (16, 128, 32, 4, 3),
    ),
    key=["M", "N", "K", "TRANSPOSED"],
)  # fmt: skip
@triton.jit
def batched_matmul(a, b, c, M, N, K, TRANSPOSED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                   BLOCK_K: tl.constexpr):  # fmt: skip
    batch = tl.program_id(1).to(tl.int64)
    tiles_n = tl.cdiv(N, BLOCK_N)
    at_m = (tl.program_id(0) // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    at_n = (tl.program_id(0) % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    a += batch * M * K
    b += batch * N * K
    c += batch * M * N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        in_k = k * BLOCK_K + tl.arange(0, BLOCK_K)
        left = tl.load(a + at_m[:, None] * K + in_k[None, :], mask=(at_m < M)[:, None] & (in_k < K)[None, :], other=0.0)
        where = (in_k < K)[:, None] & (at_n < N)[None, :]
        if TRANSPOSED:
            right = tl.load(b + at_n[None, :] * K + in_k[:, None], mask=where, other=0.0)
        else:
            right = tl.load(b + in_k[:, None] * N + at_n[None, :], mask=where, other=0.0)
        total = tl.dot(left, right, total)
    inside = (at_m < M)[:, None] & (at_n < N)[None, :]
    tl.store(c + at_m[:, None] * N + at_n[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.autotune(
    configs(
        ("BLOCK_M", "BLOCK_N"),
        (128, 128, 8, 3), (128, 128, 8, 2), (128, 64, 4, 3), (128, 64, 8, 3), (128, 32, 4, 4), (64, 128, 4, 3),
        (64, 64, 4, 3), (64, 64, 4, 2), (64, 32, 4, 4), (32, 64, 2, 3), (32, 32, 2, 4), (16, 64, 2, 3),
    ),
    key=["H", "T", "HEAD_DIM", "CAUSAL"],
)  # fmt: skip
@triton.jit
def attention_forward(q, k, v, o, scale, H, T, HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr,
                      BLOCK_N: tl.constexpr):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    start = tl.program_id(0) * BLOCK_M
    at_m = start + tl.arange(0, BLOCK_M)
    at_d = tl.arange(0, HEAD_DIM)
    base = head * T * HEAD_DIM
    query = tl.load(q + base + at_m[:, None] * HEAD_DIM + at_d[None, :], mask=(at_m < T)[:, None], other=0.0)
    best = tl.full((BLOCK_M,), -1.0e9, dtype=tl.float32)
    norm = tl.zeros((BLOCK_M,), dtype=tl.float32)
    total = tl.zeros((BLOCK_M, HEAD_DIM), dtype=tl.float32)
    end = min(start + BLOCK_M, T) if CAUSAL else T
    for first in range(0, end, BLOCK_N):
        at_n = first + tl.arange(0, BLOCK_N)
        keys = tl.load(k + base + at_n[None, :] * HEAD_DIM + at_d[:, None], mask=(at_n < T)[None, :], other=0.0)
        score = tl.dot(query, keys) * scale
        allowed = (at_n < T)[None, :]
        if CAUSAL:
            allowed = allowed & (at_m[:, None] >= at_n[None, :])
        score = tl.where(allowed, score, -1.0e9)
        top = tl.maximum(best, tl.max(score, 1))
        weight = tl.exp2(score - top[:, None])
        shrink = tl.exp2(best - top)
        norm = norm * shrink + tl.sum(weight, 1)
        values = tl.load(v + base + at_n[:, None] * HEAD_DIM + at_d[None, :], mask=(at_n < T)[:, None], other=0.0)
        total = tl.dot(weight.to(values.dtype), values, total * shrink[:, None])
        best = top
    result = (total / norm[:, None]).to(o.dtype.element_ty)
    tl.store(o + base + at_m[:, None] * HEAD_DIM + at_d[None, :], result, mask=(at_m < T)[:, None])


@triton.autotune(
    configs(
        ("BLOCK",),
        (128, 1, 2), (256, 1, 2), (256, 2, 3), (512, 2, 2), (512, 4, 3), (1024, 2, 2), (1024, 4, 3), (2048, 4, 2),
        (2048, 8, 2), (4096, 8, 2), (4096, 16, 2), (8192, 8, 1), (8192, 16, 2), (16384, 32, 1),
    ),
    key=["ROWS", "COLUMNS"],
)  # fmt: skip
@triton.jit
def softmax(x, y, ROWS, COLUMNS, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * COLUMNS
    best = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    norm = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, COLUMNS, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + row + at, mask=at < COLUMNS, other=-1.0e30).to(tl.float32)
        top = tl.maximum(best, value)
        norm = norm * tl.exp(best - top) + tl.exp(value - top)
        best = top
    most = tl.max(best, 0)
    whole = tl.sum(norm * tl.exp(best - most), 0)
    for first in range(0, COLUMNS, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + row + at, mask=at < COLUMNS, other=0.0).to(tl.float32)
        tl.store(y + row + at, (tl.exp(value - most) / whole).to(y.dtype.element_ty), mask=at < COLUMNS)


_TILES = (
    (1, 1024, 4, 2), (1, 4096, 8, 2), (2, 512, 4, 2), (4, 256, 4, 2), (4, 1024, 8, 2), (8, 128, 4, 3), (8, 512, 8, 2),
    (16, 64, 2, 3), (16, 256, 8, 2), (32, 32, 2, 3), (32, 128, 4, 2), (64, 64, 4, 2), (64, 16, 2, 3), (128, 32, 8, 2),
)  # fmt: skip


@triton.autotune(configs(("BLOCK_M", "BLOCK_N"), *_TILES), key=["M", "N"])
@triton.jit
def row_sums(x, y, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    at_m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, N, BLOCK_N):
        at_n = first + tl.arange(0, BLOCK_N)
        total += tl.load(
            x + at_m[:, None] * N + at_n[None, :], mask=(at_m < M)[:, None] & (at_n < N)[None, :], other=0.0
        )
    tl.store(y + at_m, tl.sum(total, 1), mask=at_m < M)


@triton.autotune(configs(("BLOCK_M", "BLOCK_N"), *_TILES), key=["M", "N"])
@triton.jit
def column_sums(x, y, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    at_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, M, BLOCK_M):
        at_m = (first + tl.arange(0, BLOCK_M)).to(tl.int64)
        total += tl.load(
            x + at_m[:, None] * N + at_n[None, :], mask=(at_m < M)[:, None] & (at_n < N)[None, :], other=0.0
        )
    tl.store(y + at_n, tl.sum(total, 0), mask=at_n < N)


@triton.autotune(
    configs(
        ("BLOCK_M", "BLOCK_N"),
        (1, 128, 1, 2), (1, 256, 2, 2), (1, 512, 4, 2), (1, 1024, 4, 2), (1, 2048, 8, 2), (1, 4096, 8, 2),
        (2, 256, 4, 2), (4, 128, 4, 2), (4, 256, 4, 2), (8, 64, 4, 2), (8, 128, 8, 2), (16, 32, 4, 2),
    ),
    key=["M", "N", "REVERSE"],
)  # fmt: skip
@triton.jit
def row_scan(x, y, M, N, REVERSE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    at_m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    carried = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for step in range(0, N, BLOCK_N):
        at_n = step + tl.arange(0, BLOCK_N)
        if REVERSE:
            at_n = N - 1 - at_n
        inside = (at_m < M)[:, None] & ((at_n < N) & (at_n >= 0))[None, :]
        place = at_m[:, None] * N + at_n[None, :]
        value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        summed = tl.cumsum(value, 1) + carried[:, None]
        carried = tl.sum(tl.where((tl.arange(0, BLOCK_N) == BLOCK_N - 1)[None, :], summed, 0.0), 1)
        tl.store(y + place, summed.to(y.dtype.element_ty), mask=inside)


@triton.autotune(
    configs(
        ("BLOCK_M", "BLOCK_N"),
        (16, 16, 1, 1), (16, 64, 2, 1), (64, 16, 2, 1), (32, 32, 2, 1), (32, 64, 4, 1), (64, 32, 4, 1), (64, 64, 4, 1),
        (64, 64, 8, 1), (128, 32, 4, 1), (32, 128, 4, 1), (128, 64, 8, 1), (64, 128, 8, 1), (128, 128, 8, 1),
    ),
    key=["M", "N"],
)  # fmt: skip
@triton.jit
def transpose(x, y, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    tiles_n = tl.cdiv(N, BLOCK_N)
    at_m = (tl.program_id(0) // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    at_n = (tl.program_id(0) % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    value = tl.load(x + at_m[:, None] * N + at_n[None, :], mask=(at_m < M)[:, None] & (at_n < N)[None, :])
    tl.store(y + at_n[:, None] * M + at_m[None, :], tl.trans(value), mask=(at_n < N)[:, None] & (at_m < M)[None, :])


@triton.autotune(
    configs(
        ("BLOCK_N", "BLOCK_K"),
        (1, 512, 4, 2), (1, 2048, 8, 2), (4, 256, 4, 2), (4, 1024, 8, 2), (8, 128, 4, 3), (8, 512, 8, 2), (16, 128, 4, 3),
        (16, 256, 8, 2), (32, 64, 4, 3), (32, 128, 8, 2), (64, 64, 8, 2), (128, 32, 8, 2),
    ),
    key=["N", "K", "HAS_BIAS"],
)  # fmt: skip
@triton.jit
def matrix_vector(w, x, bias, y, N, K, HAS_BIAS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    at_n = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    for first in range(0, K, BLOCK_K):
        at_k = first + tl.arange(0, BLOCK_K)
        weight = tl.load(
            w + at_n[:, None] * K + at_k[None, :], mask=(at_n < N)[:, None] & (at_k < K)[None, :], other=0.0
        )
        value = tl.load(x + at_k, mask=at_k < K, other=0.0)
        total += weight.to(tl.float32) * value.to(tl.float32)[None, :]
    result = tl.sum(total, 1)
    if HAS_BIAS:
        result += tl.load(bias + at_n, mask=at_n < N, other=0.0).to(tl.float32)
    tl.store(y + at_n, result.to(y.dtype.element_ty), mask=at_n < N)


@triton.autotune(
    configs(
        ("BLOCK",),
        (128, 1, 1), (256, 2, 1), (256, 4, 1), (512, 2, 1), (512, 4, 1), (1024, 4, 1), (1024, 8, 1), (2048, 4, 1),
        (2048, 8, 1), (4096, 8, 1), (8192, 16, 1),
    ),
    key=["ELEMENTS", "COLUMNS"],
)  # fmt: skip
@triton.jit
def bias_gelu(x, bias, y, ELEMENTS, COLUMNS, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < ELEMENTS, other=0.0).to(tl.float32)
    value += tl.load(bias + at % COLUMNS, mask=at < ELEMENTS, other=0.0).to(tl.float32)
    result = value / (1.0 + tl.exp(-1.702 * value))
    tl.store(y + at, result.to(y.dtype.element_ty), mask=at < ELEMENTS)


@triton.autotune(
    configs(
        ("BLOCK_H", "BLOCK_W"),
        (1, 256, 2, 1), (1, 1024, 4, 1), (2, 128, 2, 1), (4, 64, 2, 1), (4, 128, 4, 1), (4, 512, 8, 1), (8, 32, 2, 1),
        (8, 128, 4, 1), (16, 16, 2, 1), (16, 64, 4, 1), (32, 32, 4, 1), (32, 64, 8, 1),
    ),
    key=["HEIGHT", "WIDTH", "RADIUS"],
)  # fmt: skip
@triton.jit
def stencil(x, y, HEIGHT, WIDTH, RADIUS: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr):
    tiles = tl.cdiv(WIDTH, BLOCK_W)
    at_h = (tl.program_id(0) // tiles) * BLOCK_H + tl.arange(0, BLOCK_H)
    at_w = (tl.program_id(0) % tiles) * BLOCK_W + tl.arange(0, BLOCK_W)
    total = tl.zeros((BLOCK_H, BLOCK_W), dtype=tl.float32)
    for dh in tl.static_range(-RADIUS, RADIUS + 1):
        for dw in tl.static_range(-RADIUS, RADIUS + 1):
            h, w = at_h + dh, at_w + dw
            inside = ((h >= 0) & (h < HEIGHT))[:, None] & ((w >= 0) & (w < WIDTH))[None, :]
            total += tl.load(x + h[:, None] * WIDTH + w[None, :], mask=inside, other=0.0).to(tl.float32)
    inside = (at_h < HEIGHT)[:, None] & (at_w < WIDTH)[None, :]
    tl.store(y + at_h[:, None] * WIDTH + at_w[None, :], total.to(y.dtype.element_ty), mask=inside)


@triton.autotune(
    configs(
        ("BLOCK_R", "BLOCK_D"),
        (1, 64, 1, 1), (1, 128, 1, 1), (1, 512, 4, 1), (1, 2048, 8, 1), (4, 64, 2, 1), (4, 256, 4, 1), (16, 32, 2, 1),
        (16, 64, 4, 1), (16, 128, 8, 1), (64, 32, 4, 1),
    ),
    key=["ROWS", "D"],
)  # fmt: skip
@triton.jit
def gather(table, index, y, ROWS, D, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr):
    at_r = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)
    row = tl.load(index + at_r, mask=at_r < ROWS, other=0).to(tl.int64)
    for first in range(0, D, BLOCK_D):
        at_d = first + tl.arange(0, BLOCK_D)
        inside = (at_r < ROWS)[:, None] & (at_d < D)[None, :]
        value = tl.load(table + row[:, None] * D + at_d[None, :], mask=inside, other=0.0)
        tl.store(y + at_r[:, None] * D + at_d[None, :], value, mask=inside)
