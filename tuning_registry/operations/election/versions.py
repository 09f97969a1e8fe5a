"""The versions behind a table: a table holds for one version of Triton and of each package."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence

from tuning_registry.db.reading import Row
from tuning_registry.errors import SelectionError
from tuning_registry.operations.election.tally import EntryVotes, Winner
from tuning_registry.wording import count_of, list_some


def refuse_mixed(entries: Sequence[EntryVotes]) -> None:
    """Refuse votes of two Triton versions, or of two versions of the package that owns a kernel.

    A table holds for one version of each, so votes are refused even if no single entry mixes them. Entries without
    votes (pins) have no version.

    Raises:
        SelectionError: Lists the versions and how to choose one.
    """
    voted = [entry for entry in entries if entry.votes]
    _refuse_several("Triton", "--triton VERSION", _count(voted, lambda _: "", lambda entry: entry.triton))
    packages = {entry.kernel.partition(".")[0]: entry.package for entry in voted if entry.package}
    by_package = _count(voted, lambda entry: entry.kernel.partition(".")[0], lambda entry: entry.version)
    _refuse_several(
        "package", "--package NAME=VERSION", {packages.get(top, top): counted for top, counted in by_package.items()}
    )


def _count(
    entries: Sequence[EntryVotes], name_of: Callable[[EntryVotes], str], version_of: Callable[[EntryVotes], str]
) -> dict[str, Counter[str]]:
    """Votes by name and version."""
    versions: dict[str, Counter[str]] = {}
    for entry in entries:
        versions.setdefault(name_of(entry), Counter())[version_of(entry).strip() or "none"] += entry.votes
    return versions


def _refuse_several(what: str, flag: str, versions: dict[str, Counter[str]]) -> None:
    mixed = {name: counted for name, counted in sorted(versions.items()) if len(counted) > 1}
    if mixed:
        lists = []
        for name, counted in mixed.items():
            shown = list_some([f"{version} ({count_of(n, 'vote')})" for version, n in sorted(counted.items())], shown=3)
            lists.append(f"{name} {shown}".lstrip())
        raise SelectionError(
            f"the votes come from several {what} versions: {list_some(lists, '; ', shown=1)}. Choose one with "
            f"{flag}, --run or --source"
        )


def common_packages(used: Sequence[Row], kept: Sequence[Winner]) -> dict[str, str]:
    """The owners of the kernels written, and packages of which all recordings that state a version state the same."""
    stated: dict[str, set[str]] = {}
    for text in {row["packages"] for row in used}:
        for name, version in json.loads(text).items():
            stated.setdefault(name, set()).add(version)
    common = {name: next(iter(versions)) for name, versions in stated.items() if len(versions) == 1}
    owners = {entry.package: entry.version for entry in kept if entry.package}
    return {**common, **owners}
