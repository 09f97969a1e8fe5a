"""The filters that every command shares, as one value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tuning_registry.errors import FormatError, UsageError
from tuning_registry.model.globs import matches_kernel
from tuning_registry.model.names import check_text, normal_arch, normal_distribution
from tuning_registry.model.records import NOT_STATED

MISSING = NOT_STATED  # on the command line: recordings that do not state a version
MAX_RANK: Final = 2**31 - 1  # what an INTEGER column of Postgres holds
_MAX_RANKS: Final = 10_000  # SQLite binds 32,766 parameters to a statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Filters that must all hold. None or an empty value means no filter.

    Every accepted spelling of an architecture or distribution is stored in the form that the database
    holds, so selections that mean the same are equal and have the same hash.

    Attributes:
        arch: Architecture.
        kernel: A qualified name, or a function name in any module; or a pattern (`model.globs`) for either.
        lookup_keys: Shape keys in lookup spelling (`names.lookup_key`).
        runs: Names of runs.
        ranks: Ranks, of any run.
        source: Text of `source`, matched exactly.
        triton: Triton version; `none` for recordings that do not state one.
        packages: Version by distribution; `none` for recordings that do not state one. Each narrows the
            votes on the kernels that the distribution owns and leaves other kernels alone.
        device: Device of the entries; empty selects entries of no device in particular.
        curated: Count each curated choice as a vote.
    """

    arch: str | None = None
    kernel: str | None = None
    lookup_keys: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    source: str | None = None
    triton: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict, hash=False)  # a dict has no hash
    device: str | None = None
    curated: bool = False

    def __post_init__(self) -> None:
        """Check and normalise the filters.

        Raises:
            UsageError: A filter is empty, or holds text that no database can store.
        """
        given = {
            "arch": [self.arch],
            "kernel": [self.kernel],
            "source": [self.source],
            "triton": [self.triton],
            "device": [self.device],
            "run": self.runs,
            "package": [*self.packages, *self.packages.values()],
        }
        for name, texts in given.items():
            for text in texts:
                if text == "" and name not in {"source", "device"}:  # empty ones select what states none
                    raise UsageError(f"--{name} is empty")
                if text is not None:
                    check_option(name, text)
        packages = {normal_distribution(name): version for name, version in self.packages.items()}
        object.__setattr__(self, "packages", packages)
        object.__setattr__(self, "runs", tuple(self.runs))
        object.__setattr__(self, "ranks", tuple(sorted(set(self.ranks))))
        if any(not 0 <= rank <= MAX_RANK for rank in self.ranks):
            raise UsageError(f"--rank {min(self.ranks)}: expected an integer from 0 to {MAX_RANK:,}")
        if self.arch is not None:
            object.__setattr__(self, "arch", normal_arch(self.arch))

    def covers(self, arch: str, kernel: str) -> bool:
        """Whether the filters of architecture and kernel let a kernel through."""
        return self.arch in {None, arch} and (self.kernel is None or matches_kernel(self.kernel, kernel))


def check_option(name: str, text: str) -> str:
    """Return the value of an option if a database can hold it.

    Raises:
        UsageError: It cannot; the message names the option.
    """
    try:
        return check_text(text)
    except FormatError as fault:
        raise UsageError(f"--{name}: {fault.what}") from fault


def parse_ranks(texts: Iterable[str]) -> tuple[int, ...]:
    """The ranks in `--rank` flags such as `3`, `0-7` or `0-2,5`.

    Raises:
        UsageError: A flag is neither a rank nor a range, or the ranges are longer than a statement may be.
    """
    ranks: set[int] = set()
    for text in texts:
        for part in text.split(","):
            found = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part, re.ASCII)
            first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
            if first > last:
                raise UsageError(f"--rank {text!r}: expected a rank or a range, such as 3 or 0-7")
            if len(ranks) + last - first >= _MAX_RANKS:
                raise UsageError(f"--rank {text!r}: expected at most {_MAX_RANKS:,} ranks")
            ranks.update(range(first, last + 1))
    return tuple(sorted(ranks))


def parse_packages(pairs: list[str]) -> dict[str, str]:
    """Versions by distribution, from `NAME=VERSION` flags.

    Raises:
        UsageError: A flag lacks the `=` or one of its sides, or a name appears twice.
    """
    packages: dict[str, str] = {}
    for pair in pairs:
        name, equals, version = pair.partition("=")
        if not equals or not name or not version:
            raise UsageError(f"--package {pair!r}: expected NAME=VERSION")
        if normal_distribution(name) in packages:
            raise UsageError(f"--package names {name!r} twice")
        packages[normal_distribution(name)] = version
    return packages
