"""Entries of split runs, in which each rank timed a part of the candidates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tuning_registry.db import queries
from tuning_registry.errors import FormatError, printable
from tuning_registry.formats.short_configs import short_config
from tuning_registry.model.canonical import load_config
from tuning_registry.model.names import lookup_key, top_module
from tuning_registry.model.results import Result
from tuning_registry.model.selection import MISSING
from tuning_registry.model.shares import EXTRA, decode_candidates
from tuning_registry.operations.election.votes_by_shape import Shape, VotesByShape


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SharedEntry(Result):
    """An entry that was timed in shares.

    Attributes:
        arch: Architecture.
        kernel: Kernel name.
        key: Shape key; the smallest of the spellings that Triton cannot tell apart.
        triton: Triton version; empty if unknown.
        candidates: Number of candidates that pruning left.
        untimed: Canonical texts of the candidates that no rank has timed.
        fewest: How many ranks have timed the candidate that was timed least.
        most: How many have timed the candidate that was timed most.
    """

    arch: str
    kernel: str
    key: str
    triton: str
    candidates: int
    untimed: tuple[str, ...]
    fewest: int
    most: int

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON holds it."""
        return {
            "arch": self.arch,
            "kernel": self.kernel,
            "key": self.key,
            "triton": self.triton,
            "candidates": self.candidates,
            "untimed": [load_config(text) for text in self.untimed],
            "fewest_ranks": self.fewest,
            "most_ranks": self.most,
        }

    def __str__(self) -> str:
        """One readable line."""
        done = self.candidates - len(self.untimed)
        line = f"{self.arch} {self.kernel} {self.key}: {done} of {self.candidates} candidates timed"
        missing = ", ".join(map(short_config, self.untimed))
        return printable(f"{line}; not timed: {missing}" if missing else line)


@dataclass(slots=True)
class _Stated:
    key: str
    candidates: set[str] = field(default_factory=set)


class Shares:
    """The entries of a selection that were timed in shares. Data is read when it is first needed.

    A rank states the candidates of an entry before it times them. If it dies then, nobody may have timed any.

    Args:
        votes: The votes and timings.
    """

    def __init__(self, votes: VotesByShape) -> None:
        self._votes = votes

    @cached_property
    def _stated(self) -> dict[Shape, _Stated]:
        """All candidates of each entry, as the recordings state them."""
        votes = self._votes
        found: dict[Shape, _Stated] = {}
        for environment, text in votes.reading.bulk(queries.recordings.extras(votes.selection)):
            stated = json.loads(text).get(EXTRA)
            if stated is None:
                continue
            try:
                _, entries = decode_candidates(stated)
            except FormatError:
                continue  # of a later version
            for (arch, kernel, key), candidates in entries.items():
                shape = votes.shape_at(arch, kernel, lookup_key(key), top_module(kernel), "", environment)
                if not votes.selection.covers(arch, kernel) or not _passes(shape, votes.selection.packages):
                    continue
                one = found.setdefault(shape, _Stated(key))
                one.key = min(one.key, key)
                one.candidates.update(candidates)
        return found

    def __contains__(self, shape: Shape) -> bool:
        """Whether an entry was timed in shares."""
        return shape in self._stated

    def __iter__(self) -> Iterator[tuple[Shape, str]]:
        """Each shape and its key."""
        return ((shape, one.key) for shape, one in self._stated.items())

    def entry(self, shape: Shape) -> SharedEntry:
        """What was timed of an entry."""
        one = self._stated[shape]
        timed = self._votes.timed_by(shape)
        counts = [timed.get(text, 0) for text in one.candidates]
        return SharedEntry(
            arch=shape[0], kernel=shape[1], key=one.key, triton=shape[3], candidates=len(one.candidates),
            untimed=tuple(sorted(text for text in one.candidates if text not in timed)),
            fewest=min(counts), most=max(counts),
        )  # fmt: skip

    def entries(self) -> list[SharedEntry]:
        """All of them, sorted by arch, kernel and key."""
        found = [self.entry(shape) for shape in self._stated]
        return sorted(found, key=lambda one: (one.arch.encode(), one.kernel.encode(), one.key.encode(), one.triton))


def _passes(shape: Shape, packages: Mapping[str, str]) -> bool:
    """Whether an entry was recorded with the asked version of the package that owns its kernel."""
    *_, package, version = shape
    asked = packages.get(package)
    return asked is None or version == ("" if asked == MISSING else asked)
