"""Who this process is in its job: run name, rank, world size, host."""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tuning_registry.errors import PolicyError
from tuning_registry.runtime.guard import guarded

if TYPE_CHECKING:
    from types import ModuleType

RUN_VARIABLE: Final = "TUNING_REGISTRY_RUN"
_STORE_KEY: Final = "tuning_registry/run"
# Rank and world size as launchers state them; torchrun's own come first since it may itself run under Slurm.
_LAUNCHERS: Final = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


class Place(NamedTuple):
    """A process's place in its job.

    Attributes:
        rank: From 0.
        world_size: None where nothing states it.
        certain: Whether the process group or a launcher states them; otherwise they are guessed as 0 and 1.
    """

    rank: int
    world_size: int | None
    certain: bool = True


def current_place(environ: Mapping[str, str] | None = None) -> Place:
    """Rank and world size: of the process group if there is one, else of the launcher, else 0 of 1."""
    distributed = process_group()
    if distributed is not None:
        return Place(int(distributed.get_rank()), int(distributed.get_world_size()))
    variables = os.environ if environ is None else environ
    for rank_name, size_name in _LAUNCHERS:
        rank, size = _count(variables.get(rank_name)), _count(variables.get(size_name))
        if rank is not None:
            return Place(rank, size if size is None or size > rank else None)
    return Place(0, 1, certain=False)


def process_group() -> ModuleType | None:
    """`torch.distributed` if the job has imported and initialised it; it is never imported from here."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def host_name() -> str:
    """The host's name without its domain, as it may stand in a file name."""
    return file_name_part(socket.gethostname().partition(".")[0]) or "host"


def file_name_part(text: str) -> str:
    """`text` with everything but letters, digits, `_` and `-` replaced by `-`: safe inside any file name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:80].strip("-")


def stated_run(policy_run: str | None, environ: Mapping[str, str] | None = None) -> str | None:
    """The run's name if the policy, the environment or the launcher states one.

    The first of: the policy's `run`, `TUNING_REGISTRY_RUN`, the Slurm job id, torchrun's run id unless it is
    `none` (its default). A restart count above 0 is appended: a restarted job votes anew.
    """
    variables = os.environ if environ is None else environ
    if policy_run or variables.get(RUN_VARIABLE, "").strip():
        return policy_run or variables[RUN_VARIABLE].strip()
    for id_name, restart_name in (
        ("SLURM_JOB_ID", "SLURM_RESTART_COUNT"),
        ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    ):
        job = variables.get(id_name, "").strip()
        if job and job != "none":
            restarts = _count(variables.get(restart_name)) or 0
            return f"{job}.{restarts}" if restarts else job
    return None


def new_run() -> str:
    """A fresh run name, unique over hosts: UTC date and time with 32 random bits."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + "-" + secrets.token_hex(4)


def resolve_run(policy_run: str | None) -> str:
    """The name of this run, the same on every rank.

    Where nothing states it, ranks agree over a key-value store: the process group's, or the one that
    torchrun's agent serves. The first rank to come sets the name and nobody waits for another, so this
    cannot hang on a rank that never calls it, and no device is touched.

    Raises:
        PolicyError: Many processes, and neither a name nor a store to agree on one.
    """
    stated = stated_run(policy_run)
    if stated is not None:
        return stated
    place = current_place()
    if place.world_size == 1:
        return new_run()
    store = guarded("reaching the store of the job", _job_store)
    if store is not None:
        agreed = guarded("agreeing on a run name", store.compare_set, _STORE_KEY, "", new_run())
        if agreed:
            return agreed.decode() if isinstance(agreed, bytes) else str(agreed)
    raise PolicyError(
        f"this is rank {place.rank} of {place.world_size or 'several'} and nothing names the run; set {RUN_VARIABLE} "
        "to the same text on every rank, or call install after torch.distributed.init_process_group"
    )


def _job_store() -> Any:
    """The store that all ranks share, or None."""
    distributed = process_group()
    if distributed is not None:
        # The store is the only channel that no backend maps to a device; torch has no public accessor for it.
        return distributed.distributed_c10d._get_default_store()  # noqa: SLF001 - see above
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() != "true":
        return None
    dist: Any = import_module("torch.distributed")
    agent = dist.TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=timedelta(seconds=20)
    )
    # Prefixed, since a restarted job may meet the same agent again.
    return dist.PrefixStore("restart" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), agent)


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() else None
