"""One table stands for one version of everything: refusing mixtures, stating what the recordings agree on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from tuning_registry.db.reading import Row
from tuning_registry.errors import SelectionError
from tuning_registry.operations.election.tally import Entry

_SHOWN = 5  # mixed entries named in an error


def refuse_mixed(entries: Sequence[Entry]) -> None:
    """Refuse votes of two Triton versions, or of two versions of the package that owns a kernel.

    One table stands for one version of each, so it is refused also when no single entry mixes them.
    Entries without a vote (pins) are of no version.

    Raises:
        SelectionError: Lists the versions and how to choose one.
    """
    entries = [entry for entry in entries if entry.votes]
    for what, name_of, flag in (
        ("Triton", lambda _: "", "--triton V"),
        ("package", lambda e: e.kernel.partition(".")[0], "--package NAME=V"),
    ):
        versions: dict[str, Counter[str]] = {}
        for entry in entries:
            label = entry.triton if what == "Triton" else f"{entry.package} {entry.version}".strip()
            versions.setdefault(name_of(entry), Counter())[label or "none"] += entry.votes
        mixed = {name: counted for name, counted in versions.items() if len(counted) > 1}
        if mixed:
            lists = "; ".join(
                (f"{name}: " if name else "")
                + ", ".join(
                    f"{version} ({count} vote{'s' * (count != 1)})" for version, count in sorted(counted.items())
                )
                for name, counted in sorted(mixed.items())[:_SHOWN]
            )
            raise SelectionError(
                f"the votes are of several {what} versions: {lists}. Choose with registry export "
                f"{flag} (none: not stated), --run or --source; nothing is written"
            )


def common_packages(used: Sequence[Row], kept: Sequence[Entry]) -> dict[str, str]:
    """Packages on whose version all recordings that state it agree, and the owners of the kernels written."""
    stated: dict[str, set[str]] = {}
    for text in {row["packages"] for row in used}:
        for name, version in json.loads(text).items():
            stated.setdefault(name, set()).add(version)
    common = {name: next(iter(versions)) for name, versions in stated.items() if len(versions) == 1}
    owners = {entry.package: entry.version for entry in kept if entry.package}
    return {**common, **owners}
