"""Finding the formats of other tools: entry points in the group `tuning_registry.formats`, loaded when they are needed."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tuning_registry.errors import FormatError, PluginError, RegistryError, UsageError
from tuning_registry.formats.plugin import Format, ToolFile
from tuning_registry.formats.recordings import checked
from tuning_registry.model.records import Recording
from tuning_registry.wording import list_some

GROUP: Final = "tuning_registry.formats"
_OURS: Final = "tuning-registry"


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn whatever a package's own code raises into a `PluginError` about `what`; errors of ours pass."""
    try:
        yield
    except RegistryError:
        raise
    except Exception as error:  # of code that is not ours
        raise PluginError(f"{what} failed: {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Plugin:
    """A format that an installed package declares.

    Attributes:
        name: The name of its entry point.
        package: Distribution and version that declare it.
        entry_point: Where its class is.
    """

    name: str
    package: str
    entry_point: importlib.metadata.EntryPoint

    @functools.cached_property
    def format(self) -> Format:
        """The format, loaded when it is first needed.

        Raises:
            PluginError: It cannot be imported, or is not a `Format`.
        """
        try:
            found = self.entry_point.load()()
        except (Exception, SystemExit) as error:  # importing a package may raise anything
            raise PluginError(f"{self}: cannot be loaded: {type(error).__name__}: {error}") from error
        if not isinstance(found, Format) or getattr(found, "name", None) != self.name:
            raise PluginError(f"{self}: {self.entry_point.value} is not a Format with the name {self.name!r}")
        return found

    def __str__(self) -> str:
        """For messages."""
        return f"format {self.name} of {self.package}"


class Plugins:
    """The formats of the installed packages, and those that are broken.

    Args:
        entry_points: By default those of the environment.

    Attributes:
        broken: What is wrong with the formats that cannot be used, by name.
    """

    def __init__(self, entry_points: Iterable[importlib.metadata.EntryPoint] | None = None) -> None:
        found = importlib.metadata.entry_points(group=GROUP) if entry_points is None else entry_points
        self.broken: dict[str, str] = {}
        self._plugins: dict[str, Plugin] = {}
        for plugin in sorted(
            map(_plugin, found), key=lambda one: (not one.package.startswith(f"{_OURS} "), one.package)
        ):
            known = self._plugins.setdefault(plugin.name, plugin)
            if known.package != plugin.package:
                self.broken[f"{plugin.name} of {plugin.package}"] = (
                    f"{plugin}: {known.package} already has a format with this name"
                )

    def __iter__(self) -> Iterator[Plugin]:
        """Every format, by name."""
        return iter(sorted(self._plugins.values(), key=lambda plugin: plugin.name))

    def describe(self) -> list[dict[str, Any]]:
        """Every format that works, as rows: name, reads, writes, package, title."""
        found = [(plugin, self._working(plugin)) for plugin in self]
        return [
            {
                "name": plugin.name,
                "reads": one.can_read,
                "writes": one.can_write,
                "package": plugin.package,
                "title": str(getattr(one, "title", "")),
            }
            for plugin, one in found
            if one is not None
        ]

    def named(self, name: str) -> Format:
        """The format of this name.

        Raises:
            UsageError: There is none.
            PluginError: It cannot be loaded.
        """
        if name not in self._plugins:
            known = list_some(sorted(self._plugins))
            raise UsageError(f"there is no format {name!r}; registry formats lists them: {known}")
        return self._plugins[name].format

    def readers(self) -> list[Format]:
        """The formats that read and are not broken."""
        return [one for one in map(self._working, self) if one is not None and one.can_read]

    def has_name(self, name: str) -> bool:
        """Whether a file of this name may be in a format that reads.

        Raises:
            PluginError: A format fails; names it.
        """
        for one in self.readers():
            with translated(f"format {one.name}"):
                if one.has_name(name):
                    return True
        return False

    def recognize(self, file: ToolFile) -> Format | None:
        """The format of a file by its content; None if it is in none.

        Raises:
            RecordingError: Several formats claim it.
        """
        found = [one for one in self.readers() if self._claims(one, file)]
        if len(found) > 1:
            names = " and ".join(sorted(one.name for one in found))
            raise file.fault(f"the formats {names} both recognize this file; choose one with --from NAME")
        return found[0] if found else None

    def read(self, one: Format, files: Sequence[ToolFile]) -> list[Recording]:
        """The recordings in files that belong together; a choice whose time cannot be a measurement is an observation.

        Raises:
            FileError, RecordingError: As for `Format.read`.
            PluginError: The format fails in another way; names the file.
        """
        first = files[0]
        try:
            with translated(f"{first.path}: format {one.name}"):
                return list(map(checked, one.read(files)))
        except FormatError as error:
            if hasattr(error, "file"):
                raise
            raise first.fault(error.what, error.path) from error

    def _working(self, plugin: Plugin) -> Format | None:
        if plugin.name in self.broken:
            return None
        try:
            return plugin.format
        except PluginError as error:
            self.broken[plugin.name] = str(error)
            return None

    def _claims(self, one: Format, file: ToolFile) -> bool:
        try:
            return one.has_name(file.path.name) and bool(one.recognizes(file))
        except RegistryError:
            return False
        except Exception as error:  # noqa: BLE001  # a package's own code: whatever it raises, others are asked
            self.broken[one.name] = f"format {one.name} failed on {file.path}: {type(error).__name__}: {error}"
            return False


def _plugin(entry_point: importlib.metadata.EntryPoint) -> Plugin:
    dist = entry_point.dist
    package = f"{dist.metadata['Name']} {dist.version}" if dist is not None else "an unknown package"
    return Plugin(entry_point.name, package, entry_point)
