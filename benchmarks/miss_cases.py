"""The launches that `record_keys.py` records: per kernel about 30 keys over sizes, dtypes and flags.

Sizes are powers of two, multiples of 64 and odd numbers, drawn with a fixed seed, so that every run has the same keys.
"""


# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-call, no-any-return, attr-defined"
# (Triton, torch and fla have no types, or are not installed.)

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

import miss_kernels as own
import torch
from triton import cdiv

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
OWN_KEYS = 30
FLA_KEYS = 22


@dataclass(frozen=True, slots=True)
class Case:
    """One launch of one autotuned kernel; `launch` builds its tensors first.

    Attributes:
        kernel: A name for the log.
        shape: The drawn sizes, dtype and flags.
        launch: Builds tensors with the given function of shape and dtype, and launches.
    """

    kernel: str
    shape: dict[str, Any]
    launch: Callable[[Callable[..., Any]], None]


def all_cases() -> list[Case]:
    """Every case, alternating between kernels, so that an interrupted run has some keys of each kernel."""
    lists = [list(_cases(*described)) for described in (*_own(), *_fla())]
    return [case for turn in zip_longest(*lists) for case in turn if case is not None]


def _cases(name: str, count: int, launch: Callable[..., None], choices: dict[str, list[Any]]) -> Iterator[Case]:
    """`count` different draws of one value for each parameter, in a random order that depends on the name alone."""
    dice = random.Random(name)
    seen: set[str] = set()
    for _ in range(50 * count):
        shape = {parameter: dice.choice(values) for parameter, values in choices.items()}
        if str(shape) not in seen and len(seen) < count:
            seen.add(str(shape))
            yield Case(name, shape, partial(launch, **shape))


def _own() -> Iterator[tuple[str, int, Callable[..., None], dict[str, list[Any]]]]:
    dtypes = [BF16, BF16, FP16, FP32]
    sizes = [64, 100, 128, 256, 384, 500, 512, 768, 1000, 1024, 1536, 2048, 3000, 4096, 5000, 8192]
    yield "matmul", 40, _matmul, {
        "m": [16, 64, 128, 256, 512, 1000, 1024, 1536, 2048, 3000, 4096, 8192],
        "n": [64, 256, 512, 768, 1024, 2048, 2304, 4096, 5120], "k": [64, 128, 256, 512, 1000, 1024, 2048, 4096],
        "dtype": dtypes, "activation": ["none", "none", "relu"],
    }  # fmt: skip
    yield "batched_matmul", OWN_KEYS, _batched_matmul, {
        "m": [16, 32, 64, 100, 128, 256, 512], "n": [16, 32, 64, 100, 128, 256, 512], "k": [16, 32, 64, 128, 200, 256],
        "transposed": [False, True], "dtype": [BF16, FP16],
    }  # fmt: skip
    yield "attention_forward", 26, _attention, {
        "heads": [8, 16, 32], "t": [128, 256, 500, 512, 1024, 2048, 3000, 4096], "d": [32, 64, 128],
        "causal": [False, True], "dtype": [BF16, BF16, FP16],
    }  # fmt: skip
    yield "softmax", OWN_KEYS, _softmax, {
        "rows": [32, 256, 1024, 4096, 16384], "columns": [64, 200, 256, 512, 1000, 1024, 2048, 3000, 4096, 8192, 16384,
                                                         32000, 50257], "dtype": [BF16, FP32],
    }  # fmt: skip
    matrix = {"m": [16, *sizes, 16384], "n": [16, *sizes, 16384], "dtype": [BF16, FP32]}
    yield "row_sums", OWN_KEYS, _row_sums, matrix
    yield "column_sums", OWN_KEYS, _column_sums, matrix
    yield "row_scan", OWN_KEYS, _row_scan, {
        "m": [64, 256, 1000, 2048, 4096, 16384], "n": [64, 100, 256, 512, 1000, 1024, 2048, 4096, 10000],
        "reverse": [False, True], "dtype": [FP32, BF16],
    }  # fmt: skip
    yield "transpose", OWN_KEYS, _transpose, {"m": sizes, "n": sizes, "dtype": [BF16, FP32]}
    yield "matrix_vector", OWN_KEYS, _matrix_vector, {
        "n": [64, *sizes[4:], 16384, 32000], "k": [64, *sizes[4:], 11008, 16384], "bias": [False, True], "dtype": dtypes,
    }  # fmt: skip
    yield "bias_gelu", 24, _bias_gelu, {
        "rows": [16, 128, 1000, 1024, 4096, 8192, 16384], "columns": [64, 100, 768, 1024, 3072, 4096, 5000],
        "dtype": [BF16, FP32],
    }  # fmt: skip
    yield "stencil", OWN_KEYS, _stencil, {
        "h": [32, 100, 256, 512, 1000, 1080, 2048, 4096], "w": [32, 100, 256, 512, 1000, 1920, 2048, 4096],
        "radius": [1, 2], "dtype": [FP32, FP16],
    }  # fmt: skip
    yield "gather", OWN_KEYS, _gather, {
        "rows": [64, 512, 1000, 4096, 8192, 32768, 65536], "d": [16, 32, 64, 100, 128, 256, 512, 768, 1024, 2048, 4096],
        "dtype": [BF16, FP32],
    }  # fmt: skip


def _fla() -> Iterator[tuple[str, int, Callable[..., None], dict[str, list[Any]]]]:
    narrow = [16, 32, 48, 64, 80, 96, 100, 128, 160, 192, 200, 256, 320, 384, 500, 512]
    yield "fla l2norm forward", FLA_KEYS, partial(_l2norm, backward=False), {
        "t": [16_384, 100_000, 200_000], "d": narrow, "dtype": [BF16, BF16, FP32],
    }  # fmt: skip
    yield "fla l2norm backward", FLA_KEYS, partial(_l2norm, backward=True), {
        "t": [16_384, 100_000, 200_000], "d": narrow, "dtype": [BF16, BF16, FP32],
    }  # fmt: skip
    yield "fla layer_norm forward", 28, _layer_norm, {
        "t": [2048, 8192, 32768, 65536], "d": narrow, "rms": [False, True], "residual": [False, True],
        "dtype": [BF16, BF16, FP32],
    }  # fmt: skip
    yield "fla layer_norm backward", 28, _layer_norm_backward, {
        "t": [2048, 8192, 32768, 65536], "d": narrow, "rms": [False, True], "residual": [False, True],
        "dtype": [BF16, BF16, FP32],
    }  # fmt: skip
    wide = [640, 768, 1000, 1024, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 8192]
    yield "fla layer_norm forward row", FLA_KEYS, _layer_norm, {
        "t": [8192], "d": wide, "rms": [False, True], "residual": [False, True], "dtype": [BF16, FP32],
    }  # fmt: skip
    yield "fla softmax", FLA_KEYS, _fla_softmax, {
        "rows": [8192], "d": [64, 100, 128, 256, 500, 512, 1000, *wide, 10000, 16384, 32000], "dtype": [BF16, FP32],
    }  # fmt: skip
    yield "fla rotary", FLA_KEYS, _rotary, {
        "b": [1, 2, 4, 8], "t": [2048], "h": [4, 8, 16, 32], "d": [32, 64, 96, 128, 256], "interleaved": [False, True],
        "dtype": [BF16, BF16, FP32],
    }  # fmt: skip
    yield "fla cumsum", 24, _cumsum, {
        "b": [1, 2, 4], "t": [2048], "h": [4, 8, 16], "s": [32, 64, 100, 128, 256], "chunk": [16, 32, 64, 128],
        "reverse": [False, True], "dtype": [FP32, BF16],
    }  # fmt: skip
    yield "fla logsumexp", FLA_KEYS, _logsumexp, {
        "rows": [4096], "d": [64, 100, 256, 500, 512, *wide, 16384, 32000, 50257], "dtype": [BF16, FP32],
    }  # fmt: skip
    yield "fla conv", FLA_KEYS, _conv, {
        "t": [2048], "d": [64, 128, 200, 256, 512, 768, 1024, 1536, 2048, 4096], "w": [2, 3, 4], "dtype": [BF16, FP32],
    }  # fmt: skip
    yield "fla kkt", 20, _kkt, {
        "t": [4096], "h": [2, 4, 8, 16], "k": [32, 64, 100, 128, 256], "chunk": [16, 32, 64], "dtype": [BF16, FP16],
    }  # fmt: skip
    yield "fla delta_h", 20, _delta_h, {
        "t": [2048], "h": [2, 4, 8, 16, 32], "k": [32, 64, 64, 128], "v": [32, 64, 100, 128, 256], "dtype": [BF16],
    }  # fmt: skip
    yield "fla recurrence", 20, _recurrence, {
        "t": [512], "d": [32, 64, 100, 128, 256, 500, 512, 1000, 1024, 2048, 3000, 4096, 8192], "dtype": [FP32, BF16],
    }  # fmt: skip


def _matmul(make: Any, m: int, n: int, k: int, dtype: Any, activation: str) -> None:
    a, b, c = make((m, k), dtype), make((k, n), dtype), make((m, n), dtype)
    own.matmul[lambda meta: (cdiv(m, meta["BLOCK_M"]) * cdiv(n, meta["BLOCK_N"]),)](a, b, c, m, n, k, activation)


def _batched_matmul(make: Any, m: int, n: int, k: int, transposed: bool, dtype: Any) -> None:
    a, b, c = (
        make((256, m, k), dtype),
        make((256, n, k) if transposed else (256, k, n), dtype),
        make((256, m, n), dtype),
    )
    own.batched_matmul[lambda meta: (cdiv(m, meta["BLOCK_M"]) * cdiv(n, meta["BLOCK_N"]), 256)](
        a, b, c, m, n, k, transposed
    )


def _attention(make: Any, heads: int, t: int, d: int, causal: bool, dtype: Any) -> None:
    q, k, v, o = (make((2 * heads, t, d), dtype) for _ in range(4))
    own.attention_forward[lambda meta: (cdiv(t, meta["BLOCK_M"]), 2 * heads)](q, k, v, o, d**-0.5, heads, t, d, causal)


def _softmax(make: Any, rows: int, columns: int, dtype: Any) -> None:
    own.softmax[(rows,)](make((rows, columns), dtype), make((rows, columns), dtype), rows, columns)


def _row_sums(make: Any, m: int, n: int, dtype: Any) -> None:
    own.row_sums[lambda meta: (cdiv(m, meta["BLOCK_M"]),)](make((m, n), dtype), make((m,), FP32), m, n)


def _column_sums(make: Any, m: int, n: int, dtype: Any) -> None:
    own.column_sums[lambda meta: (cdiv(n, meta["BLOCK_N"]),)](make((m, n), dtype), make((n,), FP32), m, n)


def _row_scan(make: Any, m: int, n: int, reverse: bool, dtype: Any) -> None:
    own.row_scan[lambda meta: (cdiv(m, meta["BLOCK_M"]),)](make((m, n), dtype), make((m, n), dtype), m, n, reverse)


def _transpose(make: Any, m: int, n: int, dtype: Any) -> None:
    own.transpose[lambda meta: (cdiv(m, meta["BLOCK_M"]) * cdiv(n, meta["BLOCK_N"]),)](
        make((m, n), dtype), make((n, m), dtype), m, n
    )


def _matrix_vector(make: Any, n: int, k: int, bias: bool, dtype: Any) -> None:
    own.matrix_vector[lambda meta: (cdiv(n, meta["BLOCK_N"]),)](
        make((n, k), dtype), make((k,), dtype), make((n,), dtype), make((n,), dtype), n, k, bias
    )


def _bias_gelu(make: Any, rows: int, columns: int, dtype: Any) -> None:
    elements = rows * columns
    own.bias_gelu[lambda meta: (cdiv(elements, meta["BLOCK"]),)](
        make((rows, columns), dtype), make((columns,), dtype), make((rows, columns), dtype), elements, columns
    )


def _stencil(make: Any, h: int, w: int, radius: int, dtype: Any) -> None:
    own.stencil[lambda meta: (cdiv(h, meta["BLOCK_H"]) * cdiv(w, meta["BLOCK_W"]),)](
        make((h, w), dtype), make((h, w), dtype), h, w, radius
    )


def _gather(make: Any, rows: int, d: int, dtype: Any) -> None:
    table, y = make((16384, d), dtype), make((rows, d), dtype)
    index = (torch.arange(rows, device=table.device, dtype=torch.int32) * 7919) % 16384
    own.gather[lambda meta: (cdiv(rows, meta["BLOCK_R"]),)](table, index, y, rows, d)


def _l2norm(make: Any, t: int, d: int, dtype: Any, backward: bool) -> None:
    from fla.modules.norm.l2norm import l2norm_bwd, l2norm_fwd

    x = make((t, d), dtype)
    if backward:
        l2norm_bwd(x, make((t,), FP32), make((t, d), dtype))
    else:
        l2norm_fwd(x)


def _layer_norm(make: Any, t: int, d: int, rms: bool, residual: bool, dtype: Any) -> None:
    from fla.modules.norm.layernorm import layer_norm_fwd

    layer_norm_fwd(make((t, d), dtype), make((d,), dtype), None if rms else make((d,), dtype), is_rms_norm=rms,
                   residual=make((t, d), dtype) if residual else None)  # fmt: skip


def _layer_norm_backward(make: Any, t: int, d: int, rms: bool, residual: bool, dtype: Any) -> None:
    from fla.modules.norm.layernorm import layer_norm_bwd

    layer_norm_bwd(make((t, d), dtype), make((t, d), dtype), make((d,), dtype), None if rms else make((d,), dtype),
                   mean=None if rms else make((t,), FP32), rstd=make((t,), FP32), is_rms_norm=rms,
                   dres=make((t, d), dtype) if residual else None, has_residual=residual)  # fmt: skip


def _fla_softmax(make: Any, rows: int, d: int, dtype: Any) -> None:
    from fla.ops.utils.softmax import softmax_fwd

    softmax_fwd(make((rows, d), dtype))


def _rotary(make: Any, b: int, t: int, h: int, d: int, interleaved: bool, dtype: Any) -> None:
    from fla.modules.rotary.ops import rotary_embedding_fwdbwd

    rotary_embedding_fwdbwd(make((b, t, h, d), dtype), make((t, d // 2), dtype), make((t, d // 2), dtype),
                            interleaved=interleaved)  # fmt: skip


def _cumsum(make: Any, b: int, t: int, h: int, s: int, chunk: int, reverse: bool, dtype: Any) -> None:
    from fla.ops.utils.cumsum import chunk_local_cumsum_vector

    chunk_local_cumsum_vector(make((b, t, h, s), dtype), chunk, reverse=reverse)


def _logsumexp(make: Any, rows: int, d: int, dtype: Any) -> None:
    from fla.ops.utils.logsumexp import logsumexp_fwd

    logsumexp_fwd(make((rows, d), dtype))


def _conv(make: Any, t: int, d: int, w: int, dtype: Any) -> None:
    from fla.modules.causal_conv1d.ops import causal_conv1d_fwd

    causal_conv1d_fwd(make((4, t, d), dtype), make((d, w), dtype), None, None, activation="silu")


def _kkt(make: Any, t: int, h: int, k: int, chunk: int, dtype: Any) -> None:
    from fla.ops.common.chunk_scaled_dot_kkt import chunk_scaled_dot_kkt_fwd

    chunk_scaled_dot_kkt_fwd(make((2, t, h, k), dtype), g=make((2, t, h), FP32), beta=make((2, t, h), dtype),
                             chunk_size=chunk)  # fmt: skip


def _delta_h(make: Any, t: int, h: int, k: int, v: int, dtype: Any) -> None:
    from fla.ops.common.chunk_delta_h import chunk_gated_delta_rule_fwd_h

    chunk_gated_delta_rule_fwd_h(make((2, t, h, k), dtype), make((2, t, h, k), dtype), make((2, t, h, v), dtype),
                                 g=make((2, t, h), FP32))  # fmt: skip


def _recurrence(make: Any, t: int, d: int, dtype: Any) -> None:
    from fla.ops.hgrn.fused_recurrent import fused_recurrent_hgrn_fwd

    fused_recurrent_hgrn_fwd(make((8, t, d), dtype), make((8, t, d), dtype))
