"""The tables that a policy pins from: found by architecture, each file read once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tuning_registry.errors import LaunchError, PolicyError, RegistryError
from tuning_registry.formats.loader import load, warn_of_faults
from tuning_registry.formats.stores import Place, StorePath, is_table, place_of
from tuning_registry.formats.table import TunedTable, read_table
from tuning_registry.locations import TABLE_PATH_VARIABLE, split_paths
from tuning_registry.log import warn
from tuning_registry.model.names import is_known_arch
from tuning_registry.rules.unseen_keys import large_kernels, prepare
from tuning_registry.runtime.guard import guarded
from tuning_registry.runtime.job.place import announce
from tuning_registry.runtime.pinning.decision import describe_table, table_size
from tuning_registry.runtime.policies.policy import AutotunePolicy
from tuning_registry.runtime.triton.weak_map import WeakIdentityMap

_DIGITS: Final = 12  # of a digest, enough to compare ranks by eye


class TableSource:
    """The tables of one policy.

    A table on a stated path never gives way to another one: a path that does not exist, a file that is not a table,
    and a file for another architecture than its name are errors. Only a folder without a table of the architecture
    lets the search go on. Paths are stated by the policy and by `TUNING_REGISTRY_TABLE_PATH`. Stores are asked by `check`
    alone, for every table of a folder: a launch must not wait for the network.

    Args:
        policy: Its table paths are made absolute here, since a script may change its folder before the first launch.

    Attributes:
        on_found: Called with each table that a launch is looked up in, before the launch.
    """

    def __init__(self, policy: AutotunePolicy) -> None:
        self._policy = policy
        given = policy.table_path if isinstance(policy.table_path, tuple) else (policy.table_path,)
        paths = map(_absolute, (*given, *split_paths(os.environ.get(TABLE_PATH_VARIABLE, ""))))
        self.paths: list[Place] = list(dict.fromkeys(paths))
        self._files: dict[Place, TunedTable] = {}  # read by path
        self._unread: dict[Place, RegistryError] = {}  # tables in stores
        self._tables: dict[str, TunedTable] = {}
        self._errors: dict[str, str] = {}
        self._digests: WeakIdentityMap[str] = WeakIdentityMap()
        self._stated: Place | None = None  # the stated file for the policy's architecture
        self._is_at_work = False
        self._prepared: set[int] = set()
        self.on_found: Callable[[TunedTable], None] | None = None

    def check(self) -> None:
        """Read the tables that the policy names, and reject paths that cannot be used.

        If the policy does not state the architecture, a folder is read at the first launch: which of its tables is
        needed depends on the device.

        Raises:
            PolicyError: A path does not exist, a file is not a table, a table does not have the expected digest, or no
                file is for the policy's architecture.
        """
        try:
            for path in self.paths:
                self._look_at(path)
            arch = self._policy.arch
            if arch is not None:
                self._stated = self._stated_file(arch)
                if self._policy.expect_digest:
                    self._find(arch)
            elif self._policy.expect_digest and len(self._files) == len(self.paths) == 1:
                self._check_digest(next(iter(self._files.values())))
        except PolicyError:
            raise
        except RegistryError as error:
            raise PolicyError(f"table path: {error}") from error

    def _look_at(self, path: Place) -> None:
        """Read a table; of a folder, only what is in a store."""
        if isinstance(path, StorePath):
            self._fetch(path)
        elif not path.exists():
            raise PolicyError(f"table path: {path} does not exist")
        elif path.is_file():
            self._read(path)
        elif not path.is_dir():
            raise PolicyError(f"table path: {path} is neither a folder nor a file")

    def _fetch(self, path: StorePath) -> None:
        """Read a table in a store, or every table of a folder there.

        Raises:
            RegistryError: The table cannot be read, or the folder holds none.
        """
        if is_table(path):
            self._read(path)
            return
        files = [file for file in path.iterdir() if is_table(file) and is_known_arch(file.stem)]
        if not files:
            raise PolicyError(f"table path: {path} contains no table; expected an object such as {path}/sm90.json")
        for file in files:
            try:
                self._read(file)
            except RegistryError as error:  # matters only if a device needs this table
                self._unread[file] = error

    def put_to_work(self) -> None:
        """Prepare what a miss will need of the tables that were read, and of those that are read later.

        Small kernels are prepared by their first miss. Large ones would hold up that launch, and many of them the start
        of the job, so a thread prepares them. A miss that comes earlier prepares its kernel itself: when that happens
        changes no choice.
        """
        self._is_at_work = True
        for table in self._files.copy().values():
            self._prepare(table)

    def _prepare(self, table: TunedTable) -> None:
        if not self._is_at_work or self._policy.on_miss != "nearest" or id(table) in self._prepared:
            return
        self._prepared.add(id(table))  # tables are kept for the life of this source
        if large_kernels(table):
            thread = threading.Thread(target=guarded, args=("preparing recorded keys", prepare, table), daemon=True,
                                      name="tuning_registry keys")  # fmt: skip
            thread.start()

    def table(self, arch: str) -> TunedTable:
        """The table of an architecture, found on the search path when it is first asked for; may be empty.

        Raises:
            LaunchError: A stated path cannot be used, or the table does not have the expected digest.
        """
        table = self._tables.get(arch)
        if table is None:
            message = self._errors.get(arch)
            if message is None:
                try:
                    return self._find(arch)
                except RegistryError as error:
                    message = self._errors[arch] = f"no kernel can be pinned on {arch}: {error}"
            raise LaunchError(message, "no table")
        return table

    def _find(self, arch: str) -> TunedTable:
        """Find, check and announce the table of an architecture."""
        # What was found at install holds, even if the file is gone by now.
        file = self._stated if self._stated is not None and arch == self._policy.arch else self._stated_file(arch)
        for path in self.paths if file is not None else ():
            if file in {path, path / f"{arch}.json"}:
                break
            if _is_folder(path):
                warn("%s holds no %s.json; searching further", path, arch)
        if file is None:
            local = [path for path in self.paths if isinstance(path, Path)]  # folders in stores lack it
            table = load(arch, local, read=self._read, variable=False)  # its paths are among ours, made absolute
        else:
            table = self._read(file)
            guarded("describing the table", warn_of_faults, table, file)
        self._check_digest(table)
        # Threads may load it at the same time; all use the first one that is stored.
        mine, table = table, self._tables.setdefault(arch, table)
        if table is mine:
            guarded("describing the table", self._announce, table)
            guarded("preparing recorded keys", self._prepare, table)
            if self.on_found is not None:
                guarded("using a table", self.on_found, table)
        return table

    def expected(self, find_arch: Callable[[], str | None]) -> TunedTable | None:
        """The table on the stated paths that launches will be looked up in, if that can be known before the first one.

        Args:
            find_arch: Finds the architecture of this machine's devices, if the policy does not state it.

        Raises:
            RegistryError: A stated path cannot be used any more.
        """
        arch = self._policy.arch or (find_arch() if self.paths else None)
        file = self._stated_file(arch) if arch else None
        return None if file is None else self._read(file)

    def _stated_file(self, arch: str) -> Place | None:
        """The file on the stated paths that holds the table of an architecture; None if only folders lack it.

        Raises:
            RegistryError: A file cannot be read, or every stated path is a file for another architecture.
        """
        others: dict[Place, str] = {}
        for path in self.paths:
            is_folder = _is_folder(path)
            file = path / f"{arch}.json" if is_folder else path
            if is_folder and not self._is_there(file):
                continue
            table = self._read(file)
            if table.arch == arch:
                return file
            if is_folder:
                raise PolicyError(f"{file} is for {table.arch}, not {arch}")
            others[path] = table.arch
        if self.paths and len(others) == len(self.paths):
            found = ", ".join(f"{path} is for {other}" for path, other in others.items())
            raise PolicyError(f"table path: {found}, but the architecture is {arch}")
        return None

    def _is_there(self, file: Place) -> bool:
        """Whether a folder has a table."""
        if isinstance(file, StorePath):
            return file in self._files or file in self._unread
        return os.path.lexists(file)

    def _check_digest(self, table: TunedTable) -> None:
        """Refuse a table that does not have the expected digest.

        Raises:
            PolicyError: It has another one, or there is no table.
        """
        expected = self._policy.expect_digest
        if expected is None or ("file" in table.provenance and self._digest(table).startswith(expected)):
            return
        found = f"has the selection digest {self._digest(table)}" if "file" in table.provenance else "is missing"
        file = table.provenance.get("file", f"the table for {table.arch}")
        raise PolicyError(f"{file} {found}, but expect_digest is {expected}")

    def __str__(self) -> str:
        """Where tables come from, for the line that a job logs at its start."""
        if self._stated is not None:
            return f"{self._stated}: {self._describe(self._files[self._stated])}"
        if not self.paths:
            return "the user's tables or the packaged tables (read at the first launch)"
        return ", ".join(
            f"{path}: {self._describe(self._files[path])}" if path in self._files
            else f"{path} (read at the first launch)" for path in self.paths
        )  # fmt: skip

    def equals(self, other: TableSource) -> bool:
        """Whether launches that were looked up in another source's tables would get the same from these.

        Raises:
            LaunchError: A table cannot be used any more.
        """
        files = {path: self._digest(table) for path, table in self._files.items() if path in other._files}
        return all(digest == other._digest(other._files[path]) for path, digest in files.items()) and all(
            self._digest(self.table(arch)) == other._digest(table) for arch, table in other._tables.copy().items()
        )

    def loaded(self) -> list[tuple[str, str, str, str]]:
        """Arch, file, digest and selection digest of the tables that launches were looked up in."""
        return [
            (arch, table.provenance["file"], table.digest, self._digest(table))
            for arch, table in sorted(self._tables.copy().items())
            if "file" in table.provenance
        ]

    def selection(self, arch: str) -> str:
        """The selection digest of the table of an architecture.

        Raises:
            LaunchError: As for `table`.
        """
        return self._digest(self.table(arch))

    def used(self) -> str:
        """The table files that launches were looked up in, with their digests; empty if there are none."""
        files = [
            f"{table.provenance['file']} (digest {self._digest(table)[:_DIGITS]}...)"
            for table in self._tables.copy().values() if "file" in table.provenance
        ]  # fmt: skip
        return " and ".join(files)

    def _read(self, path: Place) -> TunedTable:
        if path in self._unread:
            raise self._unread[path]
        table = self._files.get(path)
        if table is None:
            table = self._files.setdefault(path, read_table(path))
            table.provenance["file"] = str(path)
        return table

    def _announce(self, table: TunedTable) -> None:
        if "file" not in table.provenance:
            warn("%s: every pinned kernel launches its fallback. Searched: %s", describe_table(table),
                 ", ".join([*map(str, self.paths), "the user's tables", "the packaged tables"]))  # fmt: skip
        elif place_of(table.provenance["file"]) not in {
            self._stated,
            *self.paths,
        }:  # else the line at the start described it
            announce("pinning from %s: %s", table.provenance["file"], self._describe(table))

    def _describe(self, table: TunedTable) -> str:
        return f"{table_size(table)}, digest {self._digest(table)[:_DIGITS]}..."

    def _digest(self, table: TunedTable) -> str:
        """The table's selection digest; making it writes out the whole table, so it is kept."""
        digest = self._digests.get(table)
        if digest is None:
            digest = table.selection_digest
            self._digests.put(table, digest)
        return digest


def _absolute(path: str | os.PathLike[str]) -> Place:
    place = place_of(path)
    return place if isinstance(place, StorePath) else place.expanduser().absolute()


def _is_folder(path: Place) -> bool:
    return not is_table(path) if isinstance(path, StorePath) else path.is_dir()
