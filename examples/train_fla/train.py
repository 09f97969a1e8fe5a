"""Train a small language model with flash-linear-attention's kernels, and write down every bit that it computes.

    torchrun --nproc-per-node=2 train.py out/        # writes out/rank0.json and out/rank1.json

The script does not know about tuning-registry: Triton picks a config for each kernel, as it does in any job.
`run.py` starts it as it is, and under `python -m tuning_registry.runtime`, and compares what the runs computed.

Everything outside the autotuned kernels is made repeatable, so that what still differs between two runs comes from
their configs: seeds are fixed, PyTorch uses its deterministic algorithms, cuBLAS has a fixed workspace, gradients are
summed on the CPU in a fixed order, and none of the kernels of flash-linear-attention used here adds atomically.
"""

# mypy: disable-error-code="misc, no-untyped-call, no-untyped-def, import-untyped, import-not-found, no-any-return"
# (fla has no types, or is not installed.)

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - its usual name
from fla.modules import FusedRMSNormGated, RMSNorm
from fla.modules.norm.l2norm import l2norm
from fla.ops.gla import fused_recurrent_gla
from torch import nn

VOCABULARY = 512
WIDTH = 256
HEADS = 4


def heads(x: torch.Tensor) -> torch.Tensor:
    """Split (batch, time, WIDTH) into (batch, time, HEADS, width of a head)."""
    return x.unflatten(-1, (HEADS, -1)).contiguous()


class GatedLinearAttention(nn.Module):
    """Gated linear attention over four heads in its recurrent form, as a layer of `fla.layers` in that mode.

    The chunked form has hundreds of candidates, and flash-linear-attention 0.6 refuses its gated gradient on Hopper
    GPUs with Triton 3.4 to 3.7.0, which miscompile it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.norm = RMSNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.decay = nn.Linear(WIDTH, WIDTH)
        self.out_norm = FusedRMSNormGated(WIDTH // HEADS)
        self.gate = nn.Linear(WIDTH, WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, time, WIDTH) to the same shape."""
        normed = self.norm(x)
        q, k, v = (heads(part) for part in self.qkv(normed).chunk(3, dim=-1))
        decay = F.logsigmoid(heads(self.decay(normed)).float()) / 16
        attended, _ = fused_recurrent_gla(l2norm(q), l2norm(k), v, gk=decay)
        return self.out(self.out_norm(attended, heads(self.gate(normed))).flatten(2))


class Mlp(nn.Module):
    """A gated feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = RMSNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, time, WIDTH) to the same shape."""
        gate, value = self.up(self.norm(x)).chunk(2, dim=-1)
        return self.down(F.silu(gate) * value)


class Model(nn.Module):
    """Logits of the next token."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(layer for _ in range(layers) for layer in (GatedLinearAttention(), Mlp()))
        self.norm = RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Map tokens (batch, time) to logits (batch, time, VOCABULARY)."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(self.norm(x))


class Text:
    """Endless text in which nine of ten tokens follow from the token before; each rank reads a different one."""

    def __init__(self, rank: int, device: torch.device) -> None:
        self.follower = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(0))
        self.random = torch.Generator().manual_seed(1000 + rank)
        self.device = device

    def batch(self, size: int, length: int) -> torch.Tensor:
        """The next tokens, (size, length)."""
        tokens = torch.randint(VOCABULARY, (size, length), generator=self.random)
        follows = torch.rand(size, length, generator=self.random) < 0.9
        for at in range(1, length):
            tokens[:, at] = torch.where(follows[:, at], self.follower[tokens[:, at - 1]], tokens[:, at])
        return tokens.to(self.device)


class Training:
    """A model, its optimizer and its text; `step` trains it once."""

    def __init__(self, device: torch.device, rank: int, layers: int, batch: int, length: int) -> None:
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(0)
        self.model = Model(layers).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)
        text = Text(rank, device)
        self.batches = [text.batch(batch, length + 1) for _ in range(16)]  # made before anything is timed
        self.steps = 0

    def step(self) -> torch.Tensor:
        """Forward, backward, the ranks' mean gradient, optimizer; returns the loss."""
        tokens = self.batches[self.steps % len(self.batches)]
        self.steps += 1
        with torch.autocast(tokens.device.type, torch.bfloat16):
            logits = self.model(tokens[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self._average_gradients()
        self.optimizer.step()
        return loss.detach()

    def _average_gradients(self) -> None:
        if not dist.is_initialized() or dist.get_world_size() == 1:
            return
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        # NCCL refuses two ranks on one GPU. Gloo adds on the CPU, and two numbers have one sum in any order.
        total = flat.cpu() if dist.get_backend() == "gloo" else flat
        dist.all_reduce(total)
        mean = total.to(flat.device) / dist.get_world_size()
        for gradient, part in zip(gradients, mean.split([gradient.numel() for gradient in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def parameters_sha256(self) -> str:
        """The digest of all parameters, bit by bit."""
        digest = hashlib.sha256()
        for name, parameter in sorted(self.model.state_dict().items()):
            digest.update(name.encode())
            digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()


def run(training: Training, steps: int) -> dict[str, Any]:
    """Train; the losses as hexadecimal floats, the digest of the parameters, and seconds."""
    losses: list[float] = []
    seconds: list[float] = []
    for step in range(steps):
        began = time.perf_counter()
        loss = training.step().item()  # waits for the whole step
        seconds.append(time.perf_counter() - began)
        losses.append(loss)
        if step == 0 or (step + 1) % 20 == 0:
            print(f"step {step + 1}: loss {loss:.4f}, {seconds[-1]:.3f} s", flush=True)
    return {
        "losses": [loss.hex() for loss in losses],
        "last_loss": losses[-1],
        "parameters_sha256": training.parameters_sha256(),
        "first_step_s": round(seconds[0], 3),
        "step_ms": [round(1000 * each, 3) for each in seconds[1:]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for rankN.json")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8, help="sequences per rank and step")
    parser.add_argument("--length", type=int, default=512, help="tokens per sequence")
    options = parser.parse_args()
    began = time.perf_counter()
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    if ranks > 1:
        shared = int(os.environ.get("LOCAL_WORLD_SIZE", ranks)) > torch.cuda.device_count()
        dist.init_process_group("gloo" if shared else "nccl")
    training = Training(device, rank, options.layers, options.batch, options.length)
    setup = time.perf_counter() - began
    result = {"rank": rank, "setup_s": round(setup, 3), **run(training, options.steps)}
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / f"rank{rank}.json").write_text(json.dumps(result, indent=1) + "\n")
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
