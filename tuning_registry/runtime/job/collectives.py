"""The two collectives that agreement needs, over `torch.distributed`, which is imported only here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple


class Group(NamedTuple):
    """A process group as seen from this rank.

    Attributes:
        identity: The group object; a new default group after re-initialisation is another one.
        handle: What collectives are given as `group`.
        rank: This process's rank within the group.
        size: Number of ranks in the group.
        device: Where tensors for its backend lie: the CPU if it can, else the current GPU.
    """

    identity: Any
    handle: Any
    rank: int
    size: int
    device: Any


def current_group(group: Any) -> Group | None:
    """The given or default process group; None where there is none, or this rank is not in it.

    `torch.distributed` is not imported for it: a job that has not imported it has no group.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    identity = distributed.group.WORLD if group is None else group
    rank = distributed.get_rank(identity)
    if rank < 0:
        return None
    torch = import_module("torch")
    # "cpu:gloo,cuda:nccl": a group that serves the CPU keeps the check off the GPU's streams.
    on_cpu = "cpu:" in str(distributed.get_backend_config(identity))
    device = torch.device("cpu") if on_cpu else torch.device("cuda", torch.cuda.current_device())
    return Group(identity, group, rank, distributed.get_world_size(identity), device)


def all_gather_numbers(where: Group, numbers: Sequence[int]) -> list[list[int]]:
    """The same few 64-bit integers of every rank, by rank."""
    torch, distributed = import_module("torch"), import_module("torch.distributed")
    mine = torch.tensor(list(numbers), dtype=torch.int64, device=where.device)
    gathered = [torch.empty_like(mine) for _ in range(where.size)]
    distributed.all_gather(gathered, mine, group=where.handle)
    rows: list[list[int]] = torch.stack(gathered).tolist()
    return rows


def all_gather_bytes(where: Group, payload: bytes, sizes: Sequence[int]) -> list[bytes]:
    """The bytes of every rank, by rank; `sizes` are their lengths, known to all."""
    torch, distributed = import_module("torch"), import_module("torch.distributed")
    longest = max(sizes)
    mine = torch.zeros(longest, dtype=torch.uint8)
    if payload:
        mine[: len(payload)] = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
    mine = mine.to(where.device)
    gathered = [torch.empty_like(mine) for _ in range(where.size)]
    distributed.all_gather(gathered, mine, group=where.handle)
    return [bytes(part.cpu().tolist()[:size]) for part, size in zip(gathered, sizes, strict=True)]
