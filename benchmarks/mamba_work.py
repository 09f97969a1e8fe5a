"""The kernels of mamba_ssm: its state-space duality, forward and backward. mamba_ssm has no wheel: copy its source.

Only `mamba_ssm/ops/triton` and `mamba_ssm/utils` are needed; an empty `mamba_ssm/__init__.py` and
`mamba_ssm/ops/__init__.py` keep its compiled parts out.
"""

# mypy: disable-error-code="import-untyped, import-not-found"
# (torch and mamba_ssm come without types, or not at all.)

from __future__ import annotations

import importlib.util
from typing import Any

GROUPS, HEAD, STATE = 1, 64, 128


def has_mamba() -> bool:
    """Whether mamba_ssm can be imported."""
    return importlib.util.find_spec("mamba_ssm") is not None


def chunk_scan(chunk: int, heads: int, *, batch: int = 1, length: int = 1024) -> list[Any]:
    """Run the scan in bfloat16 and its backward pass on a GPU; its result and the gradients of x, z, b and c."""
    import torch
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    def leaf(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", dtype=dtype).requires_grad_()

    x, z = (leaf(batch, length, heads, HEAD) for _ in range(2))
    dt, bias, d = leaf(batch, length, heads), leaf(heads, dtype=torch.float32), leaf(heads, dtype=torch.float32)
    a = (-torch.rand(heads, device="cuda") - 0.5).requires_grad_()
    b, c = (leaf(batch, length, GROUPS, STATE) for _ in range(2))
    y = mamba_chunk_scan_combined(x, dt, a, b, c, chunk, D=d, z=z, dt_bias=bias, dt_softplus=True)
    y.backward(torch.randn_like(y))
    return [y, x.grad, z.grad, b.grad, c.grad]
