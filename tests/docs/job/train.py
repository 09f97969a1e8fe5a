"""The training job of the guides: it tunes one kernel, on a GPU that does not exist.

Triton's real autotuner chooses between candidates that run on the CPU and whose timings are invented.
"""

# mypy: disable-error-code="import-untyped, import-not-found"
# (Triton and torch have no types, or are not installed.)

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

sys.path.insert(0, str(Path(__file__).resolve().with_name("examples")))

from train_record_pin import RowSum, make_kernel  # found on the path above


class Gpu:
    """Tell Triton that the device is an H200."""

    def get_current_target(self) -> Any:
        """The target that kernels are compiled for."""
        return GPUTarget("cuda", 90, 32)


triton.runtime.driver.set_active(Gpu())
kernel = make_kernel(on_gpu=False)
weight = torch.ones(1000, requires_grad=True)


def train_one_step(rows: int = 8) -> None:
    """Launch the kernel once, forward and backward."""
    RowSum.apply(torch.ones(rows, 1000) * weight, kernel).sum().backward()


if __name__ == "__main__":
    train_one_step()
