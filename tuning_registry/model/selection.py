"""Which votes a query is about: one value for every command's filters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tuning_registry.errors import FormatError, UsageError
from tuning_registry.model.canonical import check_text
from tuning_registry.model.names import normal_arch, normal_distribution
from tuning_registry.model.records import NOT_STATED

MISSING = NOT_STATED  # on the command line: recordings that do not say which version


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters, all of which must hold; None and empty mean no filter.

    Attributes:
        arch: Architecture, in any accepted spelling.
        kernel: A qualified name, matched exactly; or a function name, matched whatever its module.
        runs: Names of runs.
        source: Text of `source`, matched exactly.
        triton: Triton version; `none` for recordings that do not state it.
        packages: Version by distribution; `none` likewise. Each narrows the votes on the kernels that
            the distribution owns, and leaves other kernels alone.
    """

    arch: str | None = None
    kernel: str | None = None
    runs: tuple[str, ...] = ()
    source: str | None = None
    triton: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises UsageError for an empty filter, or text that no database can hold."""
        said = {"arch": [self.arch], "kernel": [self.kernel], "source": [self.source], "triton": [self.triton],
                "run": self.runs, "package": [*self.packages, *self.packages.values()]}  # fmt: skip
        for name, texts in said.items():
            for text in texts:
                if text == "" and name != "source":  # none stated: that is a source to ask for
                    raise UsageError(f"--{name} is empty")
                if text is not None:
                    check_option(name, text)

    def normalised(self) -> Selection:
        """The same filters with architecture and distributions in the form the database holds."""
        packages = {normal_distribution(name): version for name, version in self.packages.items()}
        return replace(self, arch=normal_arch(self.arch) if self.arch else self.arch, packages=packages)


def check_option(name: str, text: str) -> str:
    """What an option was given, once it is known that a database can hold it.

    Raises:
        UsageError: It cannot; names the option.
    """
    try:
        return check_text(text)
    except FormatError as fault:
        raise UsageError(f"--{name}: {fault.what}") from fault


def parse_packages(pairs: list[str]) -> dict[str, str]:
    """`NAME=VERSION` flags as a mapping.

    Raises:
        UsageError: No `=`, an empty side, or one name twice.
    """
    packages: dict[str, str] = {}
    for pair in pairs:
        name, equals, version = pair.partition("=")
        if not equals or not name or not version:
            raise UsageError(f"--package takes NAME=VERSION, found {pair!r}")
        if normal_distribution(name) in packages:
            raise UsageError(f"--package names {name!r} twice")
        packages[normal_distribution(name)] = version
    return packages
