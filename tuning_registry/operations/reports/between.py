"""Curated choices compared: between projects, between versions of a project, between Triton versions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import Row
from tuning_registry.db.store import Store
from tuning_registry.errors import printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import load_config
from tuning_registry.model.origins import Dimension
from tuning_registry.model.results import Result
from tuning_registry.model.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChoice:
    """A config, and the files that chose it.

    Attributes:
        config: Canonical text.
        sources: Their projects and versions ("sglang 0.5.23, Triton 3.2.0").
        files: Their names.
    """

    config: str
    sources: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DifferingEntry(Result):
    """An entry for which compared files chose different configs.

    Attributes:
        arch, device, kernel, key: The entry.
        choices: Each config with its files.
    """

    arch: str
    device: str
    kernel: str
    key: str
    choices: tuple[SourceChoice, ...]

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON holds it."""
        choices = [
            {"config": load_config(one.config), "sources": list(one.sources), "files": list(one.files)}
            for one in self.choices
        ]
        return {"arch": self.arch, "device": self.device, "kernel": self.kernel, "key": self.key, "choices": choices}

    def __str__(self) -> str:
        """One readable line."""
        shown = "; ".join(f"{' and '.join(one.sources)}: {short_config(one.config)}" for one in self.choices)
        return printable(f"{self.device or self.arch} {self.kernel} {self.key}: {shown}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SourceComparison(Result):
    """What a comparison of curated choices found.

    Attributes:
        between: What the compared files differ in.
        files: Number of groups of files that were compared: pairs between projects, else all versions of one file.
        identical: How many of them have the same configs in every entry that they share.
        compared: Entries that every file of a group has, counted once per group.
        differing: Those with several configs, in order.
    """

    between: Dimension
    files: int
    identical: int
    compared: int
    differing: Sequence[DifferingEntry]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON holds it."""
        return {
            "between": str(self.between),
            "groups_of_files": self.files,
            "identical_groups": self.identical,
            "compared_entries": self.compared,
            "differing_entries": len(self.differing),
            "entries": [one.to_dict() for one in self.differing],
        }

    def __str__(self) -> str:
        """One readable line."""
        kinds = "Triton versions" if self.between == "triton" else f"{self.between}s"
        return f"{len(self.differing):,} of {self.compared:,} entries differ between {kinds}"


@dataclass(slots=True)
class _File:
    """One file: its origin, and its config id by entry id."""

    origin: Row
    choices: dict[int, int]


def compare_sources(store: Store, selection: Selection, between: Dimension) -> SourceComparison:
    """Compare the curated choices of files that are for the same shapes and differ in one respect.

    Files of two projects are compared in pairs, if they share entries. Files of one project and one name that are for
    several Triton versions, or of several versions of the project, are compared all together.

    Args:
        store: The database.
        selection: Which entries and files.
        between: What the files differ in.

    Raises:
        DatabaseError: The database cannot be read.
    """
    selection = replace(selection, curated=True)
    with store.reading() as reading:
        files = {row["id"]: _File(row, {}) for row in reading.rows(queries.origins.current(selection))}
        entries: dict[int, Row] = {}
        for row in reading.rows(queries.origins.choices(selection)):
            files[row["origin_id"]].choices[row["entry_id"]] = row["config_id"]
            entries.setdefault(row["entry_id"], row)
        wanted = {config for file in files.values() for config in file.choices.values()}
        rows = reading.chunked(queries.entries.config_texts, sorted(wanted))
        texts = {row["id"]: row["text"] for row in rows}
    found: list[tuple[int, DifferingEntry]] = []
    groups = identical = compared = 0
    order = {entry: place for place, entry in enumerate(entries)}
    for group in _groups(list(files.values()), between):
        shared = set.intersection(*(set(file.choices) for file in group))
        if not shared:
            continue
        split = [entry for entry in shared if len({file.choices[entry] for file in group}) > 1]
        groups, identical, compared = groups + 1, identical + (not split), compared + len(shared)
        found += [(order[entry], _differing(entries[entry], group, texts)) for entry in split]
    differing = [one for _, one in sorted(found, key=lambda pair: pair[0])]
    return SourceComparison(between=between, files=groups, identical=identical, compared=compared, differing=differing)


def _groups(files: Sequence[_File], between: Dimension) -> Iterator[Sequence[_File]]:
    """The files that are compared with each other."""
    if between is Dimension.SOURCE:
        yield from _pairs(files)
        return
    same = [name for name in ("tool", "project", "version", "source", "file", "triton") if name != between]
    by_name: dict[tuple[str, ...], list[_File]] = {}
    for file in files:
        by_name.setdefault(tuple(file.origin[name] for name in same), []).append(file)
    yield from (group for group in by_name.values() if len({file.origin[between] for file in group}) > 1)


def _pairs(files: Sequence[_File]) -> Iterator[Sequence[_File]]:
    """Pairs of files of two sources that share an entry."""
    by_entry: dict[int, list[int]] = {}
    for place, file in enumerate(files):
        for entry in file.choices:
            by_entry.setdefault(entry, []).append(place)
    seen: set[tuple[int, int]] = set()
    for places in by_entry.values():
        for pair in itertools.combinations(places, 2):
            if pair not in seen:
                seen.add(pair)
                one, other = files[pair[0]], files[pair[1]]
                if _project(one.origin) != _project(other.origin):
                    yield one, other


def _project(origin: Row) -> tuple[str, str]:
    return origin["project"] or origin["tool"], origin["source"]


def _differing(entry: Row, group: Iterable[_File], texts: Mapping[int, str]) -> DifferingEntry:
    chosen: dict[str, list[Row]] = {}
    for file in group:
        chosen.setdefault(texts[file.choices[entry["entry_id"]]], []).append(file.origin)
    choices = tuple(
        SourceChoice(
            config=config,
            sources=tuple(map(source_name, origins)),
            files=tuple(origin["file"] for origin in origins),
        )
        for config, origins in chosen.items()
    )
    names = {name: entry[name] for name in ("arch", "device", "kernel", "key")}
    return DifferingEntry(**names, choices=choices)


def source_name(origin: Row) -> str:
    """A file's source in words: `sglang 0.5.23, Triton 3.2.0`."""
    parts = (origin["project"] or origin["tool"], origin["version"], origin["source"])
    name = " ".join(part for part in parts if part)
    return f"{name}, Triton {origin['triton']}" if origin["triton"] else name
