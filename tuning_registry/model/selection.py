"""The filters that every command shares, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuning_registry.errors import FormatError, UsageError
from tuning_registry.model.canonical import check_text
from tuning_registry.model.names import normal_arch, normal_distribution
from tuning_registry.model.records import NOT_STATED

MISSING = NOT_STATED  # on the command line: recordings that do not state a version


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Filters that must all hold. None or an empty value means no filter.

    Every accepted spelling of an architecture or distribution is stored in the form that the database
    holds, so selections that mean the same are equal and have the same hash.

    Attributes:
        arch: Architecture.
        kernel: A qualified name, matched exactly; or a function name, matched in any module.
        runs: Names of runs.
        source: Text of `source`, matched exactly.
        triton: Triton version; `none` for recordings that do not state one.
        packages: Version by distribution; `none` for recordings that do not state one. Each narrows the
            votes on the kernels that the distribution owns and leaves other kernels alone.
    """

    arch: str | None = None
    kernel: str | None = None
    runs: tuple[str, ...] = ()
    source: str | None = None
    triton: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict, hash=False)  # a dict has no hash

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
            "run": self.runs,
            "package": [*self.packages, *self.packages.values()],
        }
        for name, texts in given.items():
            for text in texts:
                if text == "" and name != "source":  # an empty source selects recordings that state none
                    raise UsageError(f"--{name} is empty")
                if text is not None:
                    check_option(name, text)
        packages = {normal_distribution(name): version for name, version in self.packages.items()}
        object.__setattr__(self, "packages", packages)
        object.__setattr__(self, "runs", tuple(self.runs))
        if self.arch is not None:
            object.__setattr__(self, "arch", normal_arch(self.arch))


def check_option(name: str, text: str) -> str:
    """Return the value of an option if a database can hold it.

    Raises:
        UsageError: It cannot; the message names the option.
    """
    try:
        return check_text(text)
    except FormatError as fault:
        raise UsageError(f"--{name}: {fault.what}") from fault


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
