"""A process's place in its job, as launcher and process group state it: rank, world size, host, run name."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
import weakref
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tuning_registry.errors import PolicyError
from tuning_registry.log import debug, inform
from tuning_registry.model.canonical import text_digest
from tuning_registry.model.names import MAX_RUN_BYTES
from tuning_registry.runtime.guard import guarded

if TYPE_CHECKING:
    from types import ModuleType

RUN_VARIABLE: Final = "TUNING_REGISTRY_RUN"
_STORE_KEY: Final = "tuning_registry/run"
# Variables in which launchers state rank and world size, with the launcher closest to the process first: torchrun runs
# under MPI or Slurm, and mpirun inside a batch step of Slurm, whose variables then give rank 0 to every process.
_LAUNCHERS: Final = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


_RESTARTS: Final = ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT")
_LOCAL_RANKS: Final = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
_LOCAL_SIZES: Final = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
_SLURM_SIZES: Final = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")  # 8, or 8(x16): the same on 16 nodes


class Place(NamedTuple):
    """A process's place in its job.

    Attributes:
        rank: From 0.
        world_size: None if nothing states it.
        certain: Whether the process group or a launcher states them; otherwise 0 and 1 are guesses.
    """

    rank: int
    world_size: int | None
    certain: bool = True


class _Memory:
    """The places that this process has seen; a forked child starts over.

    Attributes:
        process: Process id of the owner.
        seen: Every place found so far.
        group: The place in the process group, once there is one.
        handle: That group; weakly, since a live group keeps its port.
        parents_places: The places of the parent before the fork, which are not the child's. Empty without a fork.
        parents_group: The parent's group at the fork, which the parent may have inherited itself.
    """

    def __init__(self, parent: _Memory | None = None) -> None:
        self.process = os.getpid()
        self.seen: set[Place] = set()
        self.group: Place | None = None
        self.handle: weakref.ref[Any] | None = None
        self.parents_places: frozenset[Place] = frozenset()
        self.parents_group: weakref.ref[Any] | None = None
        if parent is not None:
            self.parents_places = parent.parents_places | parent.seen
            self.parents_group = parent.handle or parent.parents_group


_memory = _Memory()


def current_place(environ: Mapping[str, str] | None = None) -> Place:
    """Rank and world size: from the current or an earlier process group, else from the launcher, else guessed as 0 of 1.

    The place in a process group is remembered, since scripts destroy the group before they end. In a forked
    child, the parent's group and launcher variables do not count; in a child of `multiprocessing`, of the
    launcher variables only `RANK` counts.

    Args:
        environ: Defaults to the environment of the process.
    """
    memory = _own_memory()
    distributed = guarded("querying the process group", process_group)
    found = None if distributed is None else guarded("querying the process group", _place_in_group, distributed)
    if found is not None and distributed is not None:
        memory.group, memory.handle = found, _reference(_world(distributed))
    place = memory.group or _launched_place(os.environ if environ is None else environ)
    if environ is None:
        memory.seen.add(place)
    if place.certain and place in memory.parents_places and memory.group is None:
        return Place(0, None, certain=False)
    return place


def process_group() -> ModuleType | None:
    """`torch.distributed` if the job has imported and initialised it, else None; this never imports it.

    A group that a forked child inherited from its parent does not count.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    inherited = _own_memory().parents_group
    if inherited is not None and inherited() is _world(distributed) is not None:
        return None
    return distributed


def is_forked() -> bool:
    """Whether the process was forked from a process that had asked for its place."""
    return bool(_own_memory().parents_places)


def announce(message: str, *args: object) -> None:
    """Log a line that concerns the whole job: at level INFO on rank 0, and at level DEBUG on the other ranks."""
    (inform if current_place().rank == 0 else debug)(message, *args)


def host_name() -> str:
    """The host's name without its domain, safe in a file name."""
    return file_name_part(socket.gethostname().partition(".")[0]) or "host"


def file_name_part(text: str) -> str:
    """`text` with everything except letters, digits, `_` and `-` replaced by `-`: safe in any file name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:80].strip("-")


def stated_run(policy_run: str | None, environ: Mapping[str, str] | None = None) -> str | None:
    """The run's name if the policy, the environment or the launcher states one, in a form that a recording can hold.

    The first of: the policy's `run`, `TUNING_REGISTRY_RUN`, and what the launchers state: the Slurm job id, the step
    unless it is 0, and torchrun's run id unless it is `none` (its default). A restarted job votes anew, so a restart
    count above 0 follows the id that it belongs to.
    """
    variables = os.environ if environ is None else environ
    if policy_run or variables.get(RUN_VARIABLE, "").strip():
        return _storable(policy_run or variables[RUN_VARIABLE].strip())
    job = variables.get("SLURM_JOB_ID", "").strip()
    elastic = variables.get("TORCHELASTIC_RUN_ID", "").strip()
    elastic = "" if elastic == "none" else elastic
    restarts, elastic_restarts = (_count(variables.get(name)) or 0 for name in _RESTARTS)
    parts = [job, str(restarts) if job and restarts else ""]
    step = _count(variables.get("SLURM_STEP_ID")) or 0  # beyond a count: the batch script and other special steps
    parts += [f"step{step}" if job and step else "", elastic]
    if elastic_restarts and (job or elastic):
        parts.append(str(elastic_restarts) if elastic else f"restart{elastic_restarts}")
    return _storable(".".join(filter(None, parts))) if job or elastic else None


def launched_attempt(environ: Mapping[str, str] | None = None) -> int | None:
    """How often the launchers had restarted this job; None if none states it."""
    variables = os.environ if environ is None else environ
    counts = [count for name in _RESTARTS if (count := _count(variables.get(name))) is not None]
    return sum(counts) if counts else None


def launched_local_rank(environ: Mapping[str, str] | None = None) -> int | None:
    """The rank on this host, as the launcher states it; None in a forked child, or if nothing states it."""
    variables = os.environ if environ is None else environ
    if is_forked():
        return None
    counts = (_count(variables.get(name)) for name in _LOCAL_RANKS)
    return next((count for count in counts if count is not None), None)


def launched_local_size(environ: Mapping[str, str] | None = None) -> int | None:
    """How many ranks run on this host, as the launcher states it; None in a forked child, or if nothing states it.

    Slurm states it for all nodes together, so only if it is the same on each.
    """
    variables = os.environ if environ is None else environ
    if is_forked():
        return None
    counts = [_count(variables.get(name)) for name in _LOCAL_SIZES]
    counts += [_count(re.sub(r"\(x[0-9]+\)$", "", variables.get(name, "").strip())) for name in _SLURM_SIZES]
    return next((count for count in counts if count), None)


def new_run() -> str:
    """A new run name that is unique across hosts: UTC date and time with 32 random bits."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + "-" + os.urandom(4).hex()


def resolve_run(policy_run: str | None) -> str:
    """The name of this run, the same on every rank; a process without a rank makes a new one.

    If nothing states the name, ranks agree on one through a key-value store: the process group's, or that of
    torchrun's agent. The first rank sets the name and no rank waits for another, so this cannot hang on a rank
    that never calls it. No device is touched.

    Raises:
        PolicyError: There are several processes, but neither a name nor a store to agree on one.
    """
    stated = stated_run(policy_run)
    if stated is not None:
        return stated
    place = current_place()
    if place.world_size == 1 or not place.certain:
        return new_run()
    agreed = agree_on_run()
    if agreed:
        return agreed
    raise PolicyError(
        f"this is rank {place.rank} of {place.world_size or 'several'}, and the run has no name. Set {RUN_VARIABLE} "
        "to the same text on every rank, or call install after torch.distributed.init_process_group."
    )


def agree_on_run() -> str | None:
    """The name that the ranks agree on through their shared store; None if there is no store, or if it fails."""
    store = guarded("reaching the store of the job", _job_store)
    if store is None:
        return None
    agreed = guarded("agreeing on a run name", store.compare_set, _STORE_KEY, "", new_run())
    return agreed.decode() if isinstance(agreed, bytes) else str(agreed or "") or None


def _own_memory() -> _Memory:
    global _memory  # noqa: PLW0603 - one per process
    if _memory.process != os.getpid():
        _memory = _Memory(_memory)
    return _memory


def _place_in_group(distributed: Any) -> Place:
    return Place(int(distributed.get_rank()), int(distributed.get_world_size()))


def _world(distributed: Any) -> Any:
    return getattr(getattr(distributed, "group", None), "WORLD", None)


def _reference(thing: Any) -> weakref.ref[Any] | None:
    try:
        return weakref.ref(thing)
    except TypeError:  # None, or a type without weak references
        return None


def _launched_place(variables: Mapping[str, str]) -> Place:
    for rank_name, size_name in _LAUNCHERS:
        rank, size = _count(variables.get(rank_name)), _count(variables.get(size_name))
        # Whoever starts a worker may set RANK for it, but the numbers of MPI and Slurm are its parent's.
        if rank is not None and (rank_name == "RANK" or not _is_worker()):
            return Place(rank, size if size is None or size > rank else None)
    # Some launchers (Lightning) state only the size: the process is one of several, but its rank is unknown.
    is_several = (_count(variables.get("WORLD_SIZE")) or 1) > 1
    return Place(0, None if is_several else 1, certain=False)


def _is_worker() -> bool:
    """Whether `multiprocessing` has started this process."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _job_store() -> Any:
    """The store that all ranks share, or None."""
    distributed = process_group()
    if distributed is not None:
        # Only the store never uses a device, whatever the backend; torch has no public accessor for it.
        return distributed.distributed_c10d._get_default_store()  # noqa: SLF001 - see above
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() != "true":
        return None
    dist: Any = import_module("torch.distributed")
    agent = dist.TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=timedelta(seconds=20)
    )
    # Prefixed, since the same agent may serve a restarted job.
    return dist.PrefixStore("restart" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), agent)


def _storable(run: str) -> str:
    r"""`run` in a form that databases can hold: without NUL, and with undecodable bytes (`\udc..`) escaped."""
    text = run.replace("\0", "").encode("utf-8", "backslashreplace")
    if len(text) > MAX_RUN_BYTES:
        text = text[: MAX_RUN_BYTES - 17] + b"-" + text_digest(text.decode())[:16].encode()
    return text.decode("utf-8", "ignore")


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() and len(text) < 10 else None
