"""Compiling the kernels of tables into Triton's cache, where no job runs and no GPU is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuning_registry.compiler import CACHED, COMPILED, FAILED, IMPORTED, Compiler
from tuning_registry.cores import core_quota, usable_cores
from tuning_registry.errors import FileError, TableError, UsageError, printable
from tuning_registry.formats.compile_file import CompileData, CompiledKernel, compile_file_of, read_compile_file
from tuning_registry.formats.loader import installed_triton
from tuning_registry.formats.stores import Place
from tuning_registry.formats.table import read_table
from tuning_registry.model.names import is_known_arch, normal_arch
from tuning_registry.model.results import Result
from tuning_registry.wording import count_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WarmedKernel(Result):
    """What became of one kernel.

    Attributes:
        arch: Architecture.
        kernel: Qualified name.
        keys: The keys of the table that need it.
        outcome: `compiled`, `cached` (it was in the cache already), or `failed`.
        reason: Why it could not be compiled; else empty.
        is_expected: Whether its key in the cache is that of the recording, so that launches in an equal job find it.
    """

    arch: str
    kernel: str
    keys: Sequence[str]
    outcome: str
    reason: str = ""
    is_expected: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The facts as JSON holds them."""
        return {
            "arch": self.arch,
            "kernel": self.kernel,
            "keys": list(self.keys),
            "outcome": self.outcome,
            "is_expected": self.is_expected,
            "reason": self.reason,
        }

    def __str__(self) -> str:
        """One readable line."""
        why = f": {self.reason}" if self.reason else ""
        return printable(f"{self.arch} {self.kernel} ({count_of(len(self.keys), 'key')}): {self.outcome}{why}")


@dataclass(slots=True)
class Warming:
    """What became of the kernels of tables.

    Attributes:
        kernels: In the order of the tables.
        cache: The folder of Triton's cache; empty if the compiler did not start.
        without_launcher: Number of kernels whose launcher is left to the job.
        why_no_launcher: The reason of the first of these.
    """

    kernels: list[WarmedKernel] = field(default_factory=list)
    cache: str = ""
    without_launcher: int = 0
    why_no_launcher: str = ""

    def count(self, outcome: str) -> int:
        """Number of kernels with this outcome."""
        return sum(one.outcome == outcome for one in self.kernels)

    @property
    def is_complete(self) -> bool:
        """Whether all kernels are in the cache now."""
        return not self.count(FAILED)


def warm_tables(
    path: Place,
    targets: Sequence[str] = (),
    jobs: int | None = None,
    step: Callable[[int, int], None] = lambda *_: None,
) -> Warming:
    """Compile the kernels of a table, or of the tables in a folder.

    Args:
        path: A table file, or a folder of tables.
        targets: Architectures; by default those of all tables.
        jobs: Number of kernels to compile at the same time; by default one for each core.
        step: Called with the number of kernels that are done, and of all.

    Raises:
        UsageError: `jobs` is not positive, or a target is not an architecture.
        FileError: A file cannot be read, there is no table, or a table has no compile data.
        TableError: A file is not a table, or was recorded with another Triton than the installed one.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs}: expected at least 1")
    tables = [_compile_data(file) for file in _table_files(path, targets)]
    total = sum(len(data.kernels) for data in tables)
    warming = Warming()
    for data in tables:
        _warm(data, warming, jobs or usable_cores(core_quota()), lambda done: step(done, total))
    return warming


def _table_files(path: Place, targets: Sequence[str]) -> list[Place]:
    wanted = [normal_arch(target) for target in targets]
    for target, arch in zip(targets, wanted, strict=True):
        if not is_known_arch(arch):
            raise UsageError(f"--target {target}: expected an architecture such as sm90 or gfx942")
    if not path.is_dir():
        arch = read_table(path).arch
        if wanted and arch not in wanted:
            raise UsageError(f"{path} is for {arch}, not {', '.join(wanted)}")
        return [path]
    files = [path / f"{arch}.json" for arch in wanted] or sorted(
        file for file in path.iterdir() if file.suffix == ".json" and is_known_arch(file.stem)
    )
    if not files:
        raise FileError(f"{path}: holds no table; expected a file such as sm90.json")
    return files


def _compile_data(path: Place) -> CompileData:
    """The compile data beside a table."""
    table = read_table(path)
    file = compile_file_of(path, table.digest)
    if not file.exists():
        raise FileError(
            f"{path}: its compile file {file.name} is missing. registry export writes it next to the table if the "
            "recordings have compile data; keep both files in one folder"
        )
    data, here = read_compile_file(file), installed_triton()
    if data.digest != table.digest:
        raise TableError(f"{file} is for the table with digest {data.digest[:16]}, not {table.digest[:16]}")
    if not here:
        raise TableError(
            "Triton, which compiles the kernels, is not installed; run: pip install 'tuning-registry[runtime]'"
        )
    if here != data.triton:
        raise TableError(
            f"{file} was recorded with Triton {data.triton}, but Triton {here} is installed. Install Triton "
            f"{data.triton}, or record with Triton {here} and export again"
        )
    return data


def _warm(data: CompileData, warming: Warming, jobs: int, step: Callable[[int], None]) -> None:
    before = len(warming.kernels)
    found: list[WarmedKernel | None] = [
        _failed(data, one, one.obstacle) if one.obstacle else None for one in data.kernels
    ]
    todo = [place for place, one in enumerate(found) if one is None]
    done = len(found) - len(todo)
    if todo:
        specializations = [data.kernels[place].specialization for place in todo]
        for outcome in Compiler(specializations, workers=min(jobs, len(todo))).outcomes():
            if outcome["outcome"] == IMPORTED:
                warming.cache = outcome["cache"]
                continue
            place = todo[outcome["index"]]
            found[place] = _warmed(data, data.kernels[place], outcome)
            if outcome.get("launcher"):
                warming.without_launcher += 1
                warming.why_no_launcher = warming.why_no_launcher or outcome["launcher"]
            done += 1
            step(before + done)
    warming.kernels += [
        one or _failed(data, kernel, "the process that compiles ended before this kernel was compiled")
        for one, kernel in zip(found, data.kernels, strict=True)
    ]


def _warmed(data: CompileData, kernel: CompiledKernel, outcome: dict[str, Any]) -> WarmedKernel:
    if outcome["outcome"] not in {COMPILED, CACHED}:
        return _failed(data, kernel, str(outcome["why"]))
    return WarmedKernel(
        arch=data.arch,
        kernel=kernel.kernel,
        keys=kernel.keys,
        outcome=outcome["outcome"],
        is_expected=bool(outcome["is_expected"]),
    )


def _failed(data: CompileData, kernel: CompiledKernel, reason: str) -> WarmedKernel:
    return WarmedKernel(arch=data.arch, kernel=kernel.kernel, keys=kernel.keys, outcome=FAILED, reason=reason)
