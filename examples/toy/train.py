"""A training job that launches one kernel with two shapes. It does not know about tuning-registry."""

from __future__ import annotations

import os

from toy_kernels import Array, kernel, stand_in, timer

for n in (1000, 2000):
    before = timer.calls
    kernel[(8,)](Array(), n)
    rank = os.environ.get("RANK", "0")
    print(f"rank {rank}, n={n}: timed {timer.calls - before} candidates, launched BLOCK={stand_in.block}", flush=True)
