"""Finding the table of an architecture on the search path, with the standard library alone and without raising."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tuning_registry.errors import RegistryError, UsageError
from tuning_registry.formats.stores import Place, StorePath, is_table, place_of
from tuning_registry.formats.table import TunedTable, read_table
from tuning_registry.formats.table_header import EXTRA
from tuning_registry.locations import TABLE_PATH_VARIABLE, split_paths, user_table_folder
from tuning_registry.log import warn
from tuning_registry.model.names import is_known_arch, normal_arch

PACKAGED_TABLES = Path(__file__).parents[1] / "tables"


def load(
    arch: str | tuple[int, int],
    table_path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    *,
    read: Callable[[Place], TunedTable] = read_table,
    variable: bool = True,
) -> TunedTable:
    """The first table for `arch` on the search path; an empty (false) table if there is none.

    The path: the folders or files given, then the folders in `TUNING_REGISTRY_TABLE_PATH` (separated by
    `os.pathsep`), then the user's table folder, then the tables shipped with the package. A file that
    cannot be read, is not a table, or is for another architecture than its name is logged as a warning
    and skipped. A table made with another Triton version than the installed one is used, with a warning:
    every entry is still matched to a live candidate before it is launched. Entries that cannot be used are misses, with
    a warning.

    Ranks that read different files would pin different configs, so compare `digest` across ranks. `provenance["file"]`
    is the file that was used.

    Args:
        arch: `sm90`, `gfx942` or another accepted spelling; a compute capability such as `(9, 0)`.
        table_path: A folder, a table file, or a sequence of them. URLs of stores are accepted as well: one that ends in
            `.json` names a table, any other a folder.
        read: Reads a table file; may return a table that was read earlier.
        variable: Whether to search the folders in `TUNING_REGISTRY_TABLE_PATH`.
    """
    wanted = normal_arch(arch)
    if "\0" in wanted or not wanted.isprintable():
        warn("'%s' is not an architecture", arch)
        return TunedTable("unknown", {})
    if not is_known_arch(wanted):
        warn("'%s' is not spelled like a known architecture (sm90, gfx942, ...)", arch)
    for file in _candidates(wanted, table_path, variable):
        try:
            table = read(file)
        except RegistryError as error:
            warn("table skipped: %s", error)
            continue
        if table.arch != wanted:
            warn("table skipped: %s is for %s, not %s", file, table.arch, wanted)
            continue
        warn_of_faults(table, file)
        table.provenance["file"] = str(file)
        return table
    return TunedTable(wanted, {})


def warn_of_faults(table: TunedTable, file: Place) -> None:
    """Warn of what is wrong with a table that is about to be used: edits, unusable entries, another Triton version."""
    ours = table.provenance.get(EXTRA, {})
    if ours.get("digest", table.digest) != table.digest:
        warn("%s was edited: its digest does not match its entries", file)
    elif ours.get("selection_digest", table.selection_digest) != table.selection_digest:
        warn("%s was edited: its selection digest does not match its entries and bans", file)
    if table.unusable:
        (kernel, key), why = next(iter(table.unusable.items()))
        warn(
            "%s: unusable entries: %s, first %s %s: %s. Launches that need them are misses.",
            file,
            len(table.unusable),
            kernel,
            key,
            why,
        )
    _warn_of_other_triton(table, file)


def installed_triton() -> str:
    """The installed Triton version, found without importing Triton; empty if there is none."""
    loaded = getattr(sys.modules.get("triton"), "__version__", None)
    if isinstance(loaded, str):
        return loaded
    import importlib.metadata  # noqa: PLC0415  # takes longer to import than the rest of the package

    for name in ("triton", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def _candidates(
    arch: str, given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], variable: bool
) -> Iterator[Place]:
    paths = [given] if isinstance(given, str | os.PathLike) else list(given)
    folders = _places(paths)
    for stated in folders:
        if isinstance(stated, StorePath):
            continue  # reading it says what is wrong
        if not os.path.exists(stated):  # noqa: PTH110  # unlike Path.exists, false for any path it cannot look at
            warn("table path %s does not exist", stated)
        elif os.path.isdir(stated) and not os.path.lexists(stated / f"{arch}.json"):  # noqa: PTH112
            warn("%s has no %s.json; searching further", stated, arch)
    for folder in _search_path(folders, os.environ.get(TABLE_PATH_VARIABLE, "") if variable else ""):
        if isinstance(folder, StorePath):
            yield folder if is_table(folder) else folder / f"{arch}.json"
            continue
        file = folder / f"{arch}.json" if not os.path.isfile(folder) else folder  # noqa: PTH113
        if os.path.lexists(file):
            yield file


def _search_path(stated: Sequence[Place], variable: str) -> Iterator[Place]:
    yield from stated
    yield from _places(split_paths(variable))
    users = user_table_folder()  # not before it is needed, since it imports a package
    if users is not None:
        yield users
    yield PACKAGED_TABLES


def _places(paths: Iterable[str | os.PathLike[str]]) -> list[Place]:
    """The places that paths and URLs name.

    A leading `~` is the home folder; it stays if that is unknown, where Path.expanduser raises.
    """
    places: list[Place] = []
    for path in paths:
        try:
            places.append(place_of(os.path.expanduser(path)))  # noqa: PTH111
        except UsageError as error:
            warn("table path skipped: %s", error)
    return places


def _warn_of_other_triton(table: TunedTable, file: Place) -> None:
    made, here = table.provenance.get("triton", ""), installed_triton()
    if made and here and made.partition("+")[0] != here.partition("+")[0]:
        warn("%s was recorded with Triton %s; this process uses Triton %s", file, made, here)
