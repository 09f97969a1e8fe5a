"""The two collectives that agreement checks need; the only module that imports `torch.distributed` for them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple


class Group(NamedTuple):
    """A process group, as seen from this rank.

    Attributes:
        identity: The group object; after re-initialisation, the default group is a different object.
        handle: The `group` argument of collectives.
        rank: This process's rank within the group.
        size: Number of ranks in the group.
        device: The device of tensors for its backend: the CPU if supported, else the current GPU.
    """

    identity: Any
    handle: Any
    rank: int
    size: int
    device: Any


def current_group(group: Any) -> Group | None:
    """The given or default process group; None if there is none, or if this rank is not in it.

    This never imports `torch.distributed`: a job that has not imported it has no group.
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
    """Gather a few 64-bit integers from every rank, by rank."""
    torch, distributed = import_module("torch"), import_module("torch.distributed")
    mine = torch.tensor(list(numbers), dtype=torch.int64, device=where.device)
    gathered = [torch.empty_like(mine) for _ in range(where.size)]
    distributed.all_gather(gathered, mine, group=where.handle)
    rows: list[list[int]] = torch.stack(gathered).tolist()
    return rows


def all_gather_bytes(where: Group, payload: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Gather bytes from every rank, by rank; every rank knows their lengths, `sizes`."""
    torch, distributed = import_module("torch"), import_module("torch.distributed")
    longest = max(sizes)
    mine = torch.zeros(longest, dtype=torch.uint8)
    if payload:
        mine[: len(payload)] = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
    mine = mine.to(where.device)
    gathered = [torch.empty_like(mine) for _ in range(where.size)]
    distributed.all_gather(gathered, mine, group=where.handle)
    return [bytes(part.cpu().tolist()[:size]) for part, size in zip(gathered, sizes, strict=True)]
