"""A small training loop that records autotune choices on N ranks and runs pinned to them afterwards.

    torchrun --nproc-per-node=2 examples/train_record_pin.py --record-path build/rec
    registry ingest build/rec.*.json && registry export --arch ARCH -o build/ARCH.json
    torchrun --nproc-per-node=2 examples/train_record_pin.py --table-path build

The second step also works without a database: `registry merge build/rec.*.json -o build/ARCH.json`. On GPUs, Triton
launches the kernel and the ranks use NCCL. Without a GPU, a stand-in runs on the CPU and the ranks use gloo. Its timings
are invented and differ between ranks, as real ones do; --arch states its architecture.
"""

# ruff: noqa: ANN001, ANN202, N803, D102, ARG001, ARG002 - the stand-ins accept what Triton and autograd pass

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-call, no-untyped-def, import-untyped, import-not-found, attr-defined"
# (Triton and torch have no types, or are not installed.)

from __future__ import annotations

import argparse
import logging
import os
import random
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import triton
import triton.language as tl
from triton.runtime import Autotuner

from tuning_registry.runtime import (
    AutotunePolicy,
    choice_digest,
    choice_log,
    coverage_report,
    install,
    maybe_verify_choices,
    uninstall,
    verify_choices,
)  # fmt: skip

CANDIDATES = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (32, 128, 512) for warps in (1, 4)]
ARGUMENTS = ["x", "out", "n", "stride"]


def _row_sum(x, out, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x + row * stride + at, mask=at < n, other=0.0)
    tl.store(out + row, tl.sum(acc))


class OnCpu:
    """Compute what the kernel computes, adding in the same order: the config decides how sums are rounded."""

    fn = staticmethod(_row_sum)

    def run(self, x: torch.Tensor, out: torch.Tensor, n: int, stride: int, *, BLOCK: int, **_: Any) -> None:
        padded = torch.nn.functional.pad(x, (0, -n % BLOCK)).unflatten(1, (-1, BLOCK))
        acc = torch.zeros(x.shape[0], BLOCK)
        for piece in padded.unbind(1):
            acc += piece
        out.copy_(acc.sum(1))


def invented_timer(call: Any, quantiles: Sequence[float]) -> list[float]:
    """Invent the [median, p20, p80] of a candidate in ms: close to the others, with noise that differs by process."""
    call()
    median = 1.0 + random.random() * 0.1
    return [median, median * 0.98, median * 1.02]


def make_kernel(on_gpu: bool) -> Any:
    if on_gpu:
        return triton.autotune(CANDIDATES, key=["n"])(triton.jit(_row_sum))
    return Autotuner(OnCpu(), ARGUMENTS, CANDIDATES, ["n"], None, None, do_bench=invented_timer)


class RowSum(torch.autograd.Function):
    """Sums of rows by the kernel; the gradient of a sum is one everywhere."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, kernel: Any) -> torch.Tensor:
        ctx.shape = x.shape
        out = torch.empty(x.shape[0], device=x.device)
        kernel[(x.shape[0],)](x, out, x.shape[1], x.stride(0))
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad[:, None].expand(ctx.shape).contiguous(), None


def train(kernel: Any, device: torch.device, steps: int) -> float:
    """Train a model whose rows should sum to one, on the same data on every rank; return the last loss."""
    torch.manual_seed(0)
    weight = torch.randn(1000, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1e-5)
    loss = torch.zeros(())
    for step in range(1, steps + 1):
        rows = torch.randn(8, 1000, device=device)
        loss = ((RowSum.apply(rows * weight, kernel) - 1.0) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        dist.all_reduce(weight.grad)
        optimizer.step()
        maybe_verify_choices(step)
    return loss.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record-path", help="Prefix of the recordings, or URL of a database to record into.")
    parser.add_argument("--table-path", help="File or folder with the table to pin.")
    parser.add_argument("--steps", type=int, default=10, help="Number of training steps.")
    parser.add_argument("--arch", default="sm90", help="Architecture to record and look up without a GPU.")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    on_gpu = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local % torch.cuda.device_count()) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    # NCCL refuses two ranks on one GPU; gloo serves them as well.
    shared = on_gpu and int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > torch.cuda.device_count()
    dist.init_process_group("nccl" if on_gpu and not shared else "gloo")
    policy = AutotunePolicy(
        mode="pinned" if options.table_path else None, record_path=options.record_path,
        table_path=options.table_path or (), on_miss="error" if options.table_path else "min_cost", verify_every=5,
        arch=None if on_gpu else options.arch, source="examples/train_record_pin.py",
    )  # fmt: skip
    mode = install(policy).mode
    kernel = make_kernel(on_gpu)
    loss = train(kernel, device, options.steps)
    agreement = verify_choices()
    sources = sorted({choice.source for choice in choice_log()})
    # The end of the line is part of the text: torchrun's ranks do not buffer, and two writes could be torn apart.
    print(f"rank {dist.get_rank()}: {mode}, {', '.join(sources)}, loss {loss!r}, choices {choice_digest()[:12]}, "
          f"disagreements {len(agreement.disagreements)} of {agreement.compared}, misses {len(coverage_report().misses)}\n", end="", flush=True)  # fmt: skip
    uninstall()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
