"""Reading the files of other tools, and completing what they state."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tuning_registry.errors import ConflictError, UsageError
from tuning_registry.formats.plugin import Format, ToolFile
from tuning_registry.formats.plugins import Plugins
from tuning_registry.model.devices import UNKNOWN_ARCH, arch_of_device
from tuning_registry.model.names import normal_arch, normal_distribution
from tuning_registry.model.records import ByEntry, Recording
from tuning_registry.operations.ingest.options import IngestOptions


class ToolReader:
    """The files of other tools among those of an ingest. Formats are loaded when a file is not one of ours.

    Args:
        options: What the user states about them.
    """

    def __init__(self, options: IngestOptions) -> None:
        self._options = options
        self._waiting: dict[str, list[ToolFile]] = {}  # files whose format reads several together

    @functools.cached_property
    def plugins(self) -> Plugins:
        """The formats of the installed packages."""
        return Plugins()

    def has_name(self, name: str) -> bool:
        """Whether a file of this name may be another tool's."""
        return (self.forced or self.plugins).has_name(name)

    @property
    def broken(self) -> list[str]:
        """What is wrong with the formats that cannot be used, if any was needed."""
        return list(self.plugins.broken.values()) if "plugins" in self.__dict__ else []

    @functools.cached_property
    def forced(self) -> Format | None:
        """The format that the user named.

        Raises:
            UsageError: There is none of this name, or it does not read.
            PluginError: It cannot be loaded.
        """
        if self._options.format is None:
            return None
        found = self.plugins.named(self._options.format)
        if not found.can_read:
            raise UsageError(f"--from {found.name}: this format can be written, but not read")
        return found

    def format_of(self, file: ToolFile) -> Format | None:
        """The format that the user named for all files, else the one that recognizes this file."""
        return self.forced or self.plugins.recognize(file)

    def take(self, one: Format, file: ToolFile) -> Iterator[Recording]:
        """The recordings in a file; none yet if its format reads several files together."""
        if type(one).group is Format.group:
            yield from self._read(one, [file])
        else:
            self._waiting.setdefault(one.name, []).append(file)

    def units(self) -> Iterator[tuple[Format, Sequence[ToolFile]]]:
        """The files that are read together."""
        for name, files in self._waiting.items():
            one = self.plugins.named(name)
            for unit in one.group(files):
                yield one, unit

    def read_unit(self, one: Format, unit: Sequence[ToolFile]) -> Iterable[Recording]:
        """The recordings in files that are read together."""
        return self._read(one, unit)

    def _read(self, one: Format, unit: Sequence[ToolFile]) -> list[Recording]:
        return [_placed(recording, self._options) for recording in self.plugins.read(one, unit)]


def _placed(recording: Recording, options: IngestOptions) -> Recording:
    """A recording with the project's version, architecture and device that the user states, if it states none.

    Raises:
        ConflictError: It states others.
    """
    recording = _with_version(recording, options)
    if options.device is not None:
        if recording.device not in {"", options.device}:
            raise ConflictError(
                f"{recording.file}: --device {options.device!r}, but the file is for {recording.device!r}"
            )
        recording = _at(replace(recording, device=options.device), arch_of_device(options.device))
    if options.arch is None:
        return recording
    arch = normal_arch(options.arch)
    stated = {*recording.votes, *recording.timings, *recording.observations} - {UNKNOWN_ARCH, arch}
    if stated:
        raise ConflictError(f"{recording.file}: --arch {options.arch}, but the file is for {min(stated)}")
    return _at(recording, arch)


def _with_version(recording: Recording, options: IngestOptions) -> Recording:
    """A recording with the version of the project that ships it."""
    origin = recording.origin
    assert origin is not None
    packages = {normal_distribution(name): version for name, version in options.packages.items()}
    stated = packages.get(normal_distribution(origin.project)) if origin.project else None
    if stated is None or stated == origin.version:
        return recording
    if origin.version:
        raise ConflictError(
            f"{recording.file}: --package {origin.project}={stated}, but the file is from version {origin.version}"
        )
    return replace(recording, origin=replace(origin, version=stated))


def _at(recording: Recording, arch: str) -> Recording:
    """A recording whose entries of unknown architecture have this one."""

    def move(entries: ByEntry[Any]) -> ByEntry[Any]:
        return {arch if name == UNKNOWN_ARCH else name: kernels for name, kernels in entries.items()}

    return replace(
        recording,
        votes=move(recording.votes),
        observations=move(recording.observations),
        timings=move(recording.timings),
        candidate_sets=move(recording.candidate_sets),
    )
