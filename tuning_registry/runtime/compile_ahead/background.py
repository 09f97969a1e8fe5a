"""A pinned job's kernels, compiled in the background before they are launched."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from tuning_registry.compiler import CACHED, COMPILED, FAILED, Compiler
from tuning_registry.cores import core_quota, idle_cores, usable_cores
from tuning_registry.errors import RegistryError
from tuning_registry.formats.compile_file import CompileData, CompiledKernel, compile_file_of, read_compile_file
from tuning_registry.formats.loader import installed_triton
from tuning_registry.formats.stores import Place, StorePath, place_of
from tuning_registry.formats.table import TunedTable
from tuning_registry.interpreter import interpreter_command
from tuning_registry.log import debug
from tuning_registry.memory import available_memory
from tuning_registry.model.specializations import Specialization
from tuning_registry.runtime.compile_ahead.kernels import cache_folder
from tuning_registry.runtime.guard import guarded
from tuning_registry.runtime.job.nvml import management_arch
from tuning_registry.runtime.job.place import announce, launched_local_rank, launched_local_size
from tuning_registry.runtime.pinning.tables import TableSource
from tuning_registry.runtime.policies.policy import AutotunePolicy
from tuning_registry.wording import count_of

THREAD_NAME: Final = "tuning_registry compile"
_LIMIT_S: Final = 900  # a job that has not launched its kernels by then compiles them itself
_FREE_BYTES: Final = 1 << 30  # of the cache's file system: the job's own kernels must still fit
_FREE_TEMPORARY_BYTES: Final = 1 << 28  # the same for the folder of temporary files, a few megabytes for each kernel
_MOST_WORKERS: Final = 32
_LARGEST_FILE: Final = 16 << 20  # of compile data: reading 40 MB holds up the job's other threads for 0.4 s at a time
# If a container runs out of memory, Linux may kill everything in it. With torch, the process takes 0.3 GB and each child
# 0.15 GB; modules that import more take more.
_MEMORY_BYTES: Final = 2 << 30
_MEMORY_PER_WORKER: Final = 1 << 29


class CompileAhead:
    """Compiles what the tables of one policy pin, in processes that run when cores are idle.

    It fills Triton's cache and tells nothing to the launches: one that comes earlier compiles as usual.

    Args:
        policy: With its mode resolved.
    """

    def __init__(self, policy: AutotunePolicy) -> None:
        self._policy = policy
        self._compiler: Compiler | None = None
        self._lock = threading.Lock()
        self._is_over = not policy.compile_ahead or policy.mode != "pinned" or policy.chaos
        self._begun: dict[str, object] = {}
        self._process = os.getpid()

    def begin(self, tables: TableSource) -> None:
        """Find the table that launches will be pinned to, and compile its kernels. Returns at once.

        Without a device, the driver's management library says which architecture this machine has. If it does not, the
        first launch does.
        """
        if not self._is_over:
            tables.on_found = self._found
            self._start(lambda: self._found_early(tables))

    def _found_early(self, tables: TableSource) -> None:
        table = tables.expected(management_arch)
        if table is not None and self._is_first(table):
            self._work(table)

    def _found(self, table: TunedTable) -> None:
        """A launch was looked up in this table."""
        if not self._is_over and self._is_first(table):
            self._start(lambda: self._work(table))

    def _is_first(self, table: TunedTable) -> bool:
        mine = object()
        return "file" in table.provenance and self._begun.setdefault("table", mine) is mine

    def _start(self, work: Callable[[], None]) -> None:
        if self._process == os.getpid():
            thread = threading.Thread(target=guarded, args=("compiling ahead", work), daemon=True, name=THREAD_NAME)
            thread.start()

    def stop(self) -> None:
        """End the processes, and start none. Does nothing in a forked child, whose parent goes on."""
        if self._process != os.getpid():
            return
        self._is_over = True
        with self._lock:
            compiler, self._compiler = self._compiler, None
        if compiler is not None:
            compiler.stop()

    def _work(self, table: TunedTable) -> None:
        try:
            file = _file_of(table)
            data = None if file is None else read_compile_file(file, _LARGEST_FILE)
        except RegistryError as error:
            announce("kernels are not compiled in the background: %s", error)
            return
        if data is None:
            name = compile_file_of(place_of(table.provenance["file"]), table.digest)
            debug("kernels are not compiled in the background: %s is missing; registry export writes it if the "
                  "recordings have compile data", name)  # fmt: skip
            return
        kernels, others = self._in_scope(data, table)
        reason = _obstacle(data, table) or (others if not kernels else "")
        if reason:
            announce("kernels are not compiled in the background: %s", reason)
            return
        missing = [kernel for kernel in kernels if not is_cached(kernel.specialization)]
        if not missing:
            debug("%s in Triton's cache already", count_of(len(kernels), "kernel"))
            return
        self._compile([kernel.specialization for kernel in missing], len(kernels) - len(missing))

    def _in_scope(self, data: CompileData, table: TunedTable) -> tuple[list[CompiledKernel], str]:
        """The kernels that the policy pins from the table and that can be imported by name; why others are left out."""
        known = table.texts.keys()
        pinned = [one for one in data.kernels if one.kernel in known and self._policy.in_scope(one.kernel)]
        found = [one for one in pinned if not one.obstacle]
        return found, pinned[0].obstacle if pinned else "none of the table's kernels is in scope"

    def _compile(self, kernels: Sequence[Specialization], cached: int) -> None:
        local_size, local_rank = launched_local_size() or 1, launched_local_rank() or 0
        beside, fitting = workers_beside(local_size), workers_in_memory(local_size)
        workers = min(beside, fitting, len(kernels))
        if not workers:
            announce("kernels are not compiled in the background: %s",
                     "too little memory is available" if beside else "no core is idle apart from one for each rank")  # fmt: skip
            return
        first = len(kernels) * (local_rank % local_size) // local_size  # ranks that share a cache begin apart
        began = time.monotonic()
        with self._lock:
            if self._is_over:
                return
            compiler = self._compiler = Compiler(
                kernels, workers=workers, first=first, limit_s=_LIMIT_S, is_background=True,
                environ={"TRITON_CACHE_DIR": str(cache_folder())},
            )  # fmt: skip
        debug("compiling %s in the background with %s", count_of(len(kernels), "kernel"), count_of(workers, "process"))
        counts: Counter[str] = Counter({CACHED: cached})
        for outcome in compiler.outcomes():
            counts[outcome["outcome"]] += 1
            if outcome["outcome"] == FAILED:
                kernel = kernels[outcome["index"]]
                debug("not compiled in the background: %s.%s: %s", kernel.module, kernel.function, outcome["why"])
        if not self._is_over:
            announce("compiled %s in the background in %.1f s (%s in the cache already, %s could not be compiled)",
                     count_of(counts[COMPILED], "kernel"), time.monotonic() - began, counts[CACHED],
                     len(kernels) + cached - counts[COMPILED] - counts[CACHED])  # fmt: skip


def workers_beside(local_size: int) -> int:
    """The number of processes for this rank's share of the idle cores, which leave one core to each rank; 0 if none is left.

    Time that they use counts against the quota of a container, whatever their priority: there they take half.
    """
    quota = core_quota()
    spare = usable_cores(quota) - local_size
    if quota is not None:
        spare //= 2
    if spare > 0:
        spare = min(spare, round(idle_cores()))
    return min(max(spare // local_size, 1), _MOST_WORKERS) if spare > 0 else 0


def workers_in_memory(local_size: int) -> int:
    """How many processes fit into this rank's share of the available memory; 0 if there is too little."""
    available = available_memory()
    return _MOST_WORKERS if available is None else max(0, available // local_size - _MEMORY_BYTES) // _MEMORY_PER_WORKER


def is_cached(kernel: Specialization) -> bool:
    """Whether Triton's cache has a kernel under the key that it was recorded with."""
    name = f"{kernel.name[:150]}.json"
    return bool(import_module("triton.runtime.cache").get_cache_manager(kernel.cache_key).get_group(name))


def _file_of(table: TunedTable) -> Place | None:
    """The file with a table's compile data: beside the path that was stated, or beside the file that it leads to."""
    path = place_of(table.provenance["file"])
    if isinstance(path, StorePath):
        file = compile_file_of(path, table.digest)
        return file if file.exists() else None
    files = [compile_file_of(place, table.digest) for place in (path, Path(os.path.realpath(path)))]
    return next((file for file in files if os.path.lexists(str(file))), None)


def _obstacle(data: CompileData, table: TunedTable) -> str:
    """Why nothing can be compiled ahead here; empty if it can."""
    here = installed_triton()
    if data.digest != table.digest:
        return f"the compile data is for the table with digest {data.digest[:16]}"
    if here != data.triton:
        return f"the compile data was recorded with Triton {data.triton}; this process uses Triton {here}"
    try:
        interpreter_command()
    except OSError as error:
        return str(error)
    return _setting(os.environ) or _folder_obstacle(cache_folder()) or _temporary_obstacle(Path(tempfile.gettempdir()))


def _setting(environ: Mapping[str, str]) -> str:
    for name in ("TRITON_ALWAYS_COMPILE", "TRITON_INTERPRET"):
        if environ.get(name, "0").lower() in {"1", "true", "yes", "on", "y"}:
            return f"{name} is set"
    return ""


def _folder_obstacle(folder: Path) -> str:
    """Why nothing can be written to Triton's cache; empty if it can."""
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        return f"Triton's cache {folder} cannot be written"
    if shutil.disk_usage(nearest).free < _FREE_BYTES:
        return f"the file system of Triton's cache {folder} has less than {_FREE_BYTES >> 30} GiB left"
    return ""


def _temporary_obstacle(folder: Path) -> str:
    """Why the compiler's temporary files could leave the job without space; empty if they cannot."""
    if shutil.disk_usage(folder).free < _FREE_TEMPORARY_BYTES:
        return f"the file system of temporary files, {folder}, has less than {_FREE_TEMPORARY_BYTES >> 20} MiB left"
    return ""
