"""A kernel for a machine without a GPU: Triton's real autotuner over a stand-in, with invented timings.

The autotuner needs a GPU for two things only: to compile a kernel and to time it. This module replaces both, so that you
can try recording, voting and pinning on a laptop. The timings mean nothing, but they differ between ranks, as real ones do.
"""

# mypy: disable-error-code="import-untyped, import-not-found"

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

import triton
from triton.runtime import Autotuner


class Array:
    """Takes the place of a tensor: the autotuner reads only its dtype."""

    dtype = "torch.float32"


def row_sum(x: Array, n: int) -> None:
    """Give the kernel its name, `toy_kernels.row_sum`."""


class StandIn:
    """Takes the place of the compiled kernel and keeps the block size of its last launch."""

    fn = staticmethod(row_sum)
    block = 0

    def run(self, *_: Any, **launch: Any) -> None:
        """Launch nothing."""
        self.block = launch["BLOCK"]


class InventedTimer:
    """Takes the place of `triton.testing.do_bench`: every rank draws different times."""

    def __init__(self, rank: int) -> None:
        self.random = random.Random(12 + rank)  # a seed with a majority, and a tie
        self.calls = 0

    def __call__(self, call: Any, quantiles: Sequence[float]) -> list[float]:  # noqa: ARG002  # Triton passes it
        """The median, 20th and 80th percentile of one candidate, in ms."""
        call()
        self.calls += 1
        median = 1.0 + self.random.random() / 10
        return [median, median * 0.98, median * 1.02]


stand_in = StandIn()
timer = InventedTimer(int(os.environ.get("RANK", "0")))
candidates = [triton.Config({"BLOCK": block}, num_warps=4, num_stages=3) for block in (32, 128, 512)]
kernel = Autotuner(stand_in, ["x", "n"], candidates, ["n"], None, None, do_bench=timer)
