"""The tables that a policy pins from: found by architecture, each file read once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tuning_registry.errors import PolicyError, RegistryError
from tuning_registry.formats.loader import load
from tuning_registry.formats.table import TunedTable, read_table
from tuning_registry.runtime.decision import describe_table, table_size
from tuning_registry.runtime.guard import guarded
from tuning_registry.runtime.job.announce import announce
from tuning_registry.runtime.policy import AutotunePolicy
from tuning_registry.runtime.triton.adapter import live_kernels
from tuning_registry.runtime.weak_map import WeakIdentityMap

_DIGITS: Final = 12  # of a digest, enough to compare ranks by eye


class TableSource:
    """The tables of one policy.

    Args:
        policy: Its table paths are made absolute here, since a script may change its folder before the first launch.
    """

    def __init__(self, policy: AutotunePolicy) -> None:
        self._policy = policy
        stated = policy.table_path if isinstance(policy.table_path, tuple) else (policy.table_path,)
        self.paths: list[Path] = [Path(path).expanduser().absolute() for path in stated]
        self._files: dict[Path, TunedTable] = {}  # read by `check`
        self._tables: dict[str, TunedTable] = {}
        self._digests: WeakIdentityMap[str] = WeakIdentityMap()

    def check(self) -> None:
        """Read the table files that the policy names, and reject paths that cannot serve any launch.

        A folder may hold tables of several architectures. Which one is needed depends on the device, so it is
        read at the first launch.

        Raises:
            PolicyError: No path exists, a file is not a table, or no table is for the policy's architecture.
        """
        if self.paths and not any(path.exists() for path in self.paths):
            raise PolicyError(f"no table path exists: {', '.join(map(str, self.paths))}")
        for path in self.paths:
            if path.exists() and not path.is_dir() and not path.is_file():
                raise PolicyError(f"table path: {path} is neither a folder nor a file")
            if path.is_file():
                try:
                    self._files[path] = read_table(path)
                except RegistryError as error:
                    raise PolicyError(f"table path: {error}") from error
        wanted, archs = self._policy.arch, {path: table.arch for path, table in self._files.items()}
        if wanted is not None and self.paths and wanted not in archs.values() and len(archs) == len(self.paths):
            found = ", ".join(f"{path} is for {arch}" for path, arch in archs.items())
            raise PolicyError(f"table path: {found}, but the policy's arch is {wanted}")

    def table(self, arch: str) -> TunedTable:
        """The table of an architecture, found on the search path when it is first asked for; may be empty."""
        table = self._tables.get(arch)
        if table is None:
            table = load(arch, self.paths, read=self._read)
            if table.has_bare_names:
                # If two kernels share a bare name, it is a miss for both, whichever of them is launched first.
                live = guarded("looking for kernels of the same name", live_kernels) or set()
                table.declare(filter(self._policy.in_scope, live))
            # Threads may load it at the same time; all use the first one that is stored.
            mine, table = table, self._tables.setdefault(arch, table)
            if table is mine:
                guarded("describing the table", self._announce, table)
        return table

    def __str__(self) -> str:
        """Where tables come from, for the line that a job logs at its start."""
        if not self.paths:
            return "the user's tables or the packaged tables (read at the first launch)"
        return ", ".join(
            f"{path}: {self._describe(self._files[path])}" if path in self._files
            else f"{path} (read at the first launch)" for path in self.paths
        )  # fmt: skip

    def used(self) -> str:
        """The table files that launches were looked up in, with their digests; empty if there are none."""
        files = [
            f"{table.provenance['file']} (digest {self._digest(table)[:_DIGITS]}...)"
            for table in self._tables.copy().values() if "file" in table.provenance
        ]  # fmt: skip
        return " and ".join(files)

    def _read(self, path: Path) -> TunedTable:
        table = self._files.get(path)
        return read_table(path) if table is None else table

    def _announce(self, table: TunedTable) -> None:
        if "file" not in table.provenance:
            announce("%s", describe_table(table))
        elif Path(table.provenance["file"]) not in self._files:  # else the line at the start described it
            announce("pinning from %s: %s", table.provenance["file"], self._describe(table))

    def _describe(self, table: TunedTable) -> str:
        return f"{table_size(table)}, digest {self._digest(table)[:_DIGITS]}..."

    def _digest(self, table: TunedTable) -> str:
        """The table's digest; making it writes out the whole table, so it is kept."""
        digest = self._digests.get(table)
        if digest is None:
            digest = table.digest
            self._digests.put(table, digest)
        return digest
