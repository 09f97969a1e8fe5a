"""What audits found: candidates that are wrong or do not repeat themselves, and kernels that may be timed freely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tuning_registry.db import queries
from tuning_registry.db.store import Store
from tuning_registry.errors import printable
from tuning_registry.model.canonical import load_config
from tuning_registry.model.results import Result
from tuning_registry.model.selection import MISSING, Selection
from tuning_registry.operations.election.tally import check_packages
from tuning_registry.operations.election.votes_by_shape import Shape, VotesByShape
from tuning_registry.rules.audits import AuditedConfig, ByRecording, class_name, summarize
from tuning_registry.rules.overrides import Overrides, in_force
from tuning_registry.wording import count_of

OUTSIDE: Final = "outside the tolerance"
DIFFERS: Final = "nondeterministic"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EntryAudit(Result):
    """The audits of an entry within one version group.

    Attributes:
        arch, kernel, key: The entry.
        triton, package, version, device: The version group; empty if unknown.
        recordings: Number of recordings that audited it.
        skipped: Number of recordings that could not, by reason.
        configs: Its candidates, in the order in which Triton times them.
        banned_by: Number of the override that bans a candidate, by canonical text; without one that is pinned.
    """

    arch: str
    kernel: str
    key: str
    triton: str
    package: str
    version: str
    device: str
    recordings: int
    skipped: Mapping[str, int]
    configs: tuple[AuditedConfig, ...]
    banned_by: Mapping[str, int]

    @property
    def classes(self) -> int:
        """Number of classes of equal bits."""
        return len({one.number for one in self.configs} - {None})

    @property
    def is_uniform(self) -> bool:
        """Whether every candidate that ran gives the same bits, and at least two ran."""
        ran = [one for one in self.configs if one.recordings]
        return len(ran) > 1 and all(one.number == 0 for one in ran)

    @property
    def findings(self) -> list[tuple[AuditedConfig, str]]:
        """The candidates that are outside the tolerance or nondeterministic, with the reasons."""
        return [(one, " and ".join(findings_of(one))) for one in self.configs if findings_of(one)]

    @property
    def has_majority(self) -> bool:
        """Whether more than half of the candidates that ran were always within the tolerance: they agree on a result."""
        ran = [one for one in self.configs if one.recordings]
        return 2 * sum(not one.outside_on for one in ran) > len(ran)

    @property
    def is_open(self) -> bool:
        """Whether a candidate with a finding is not banned."""
        return any(one.config not in self.banned_by for one, _ in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The audits as JSON holds them."""
        return {
            "arch": self.arch,
            "kernel": self.kernel,
            "key": self.key,
            "recordings": self.recordings,
            "skipped": dict(self.skipped),
            "classes": self.classes,
            "configs": [
                {
                    "config": load_config(one.config),
                    **audited_fields(one),
                    "banned_by_override": self.banned_by.get(one.config),
                }
                for one in self.configs
            ],
            "triton": self.triton,
            "package": self.package,
            "version": self.version,
            "device": self.device,
        }

    def __str__(self) -> str:
        """One readable line."""
        if not self.recordings:
            return printable(f"{self.arch} {self.kernel} {self.key}: not audited ({'; '.join(self.skipped)})")
        found = f", {count_of(len(self.findings), 'finding')}" if self.findings else ""
        counts = f"{count_of(len(self.configs), 'candidate')}, {count_of(self.classes, 'distinct result')}"
        return printable(f"{self.arch} {self.kernel} {self.key}: {counts}{found}")


def find_audits(store: Store, selection: Selection) -> list[EntryAudit]:
    """The audits of every entry of a selection, per version group, sorted by arch, kernel and key.

    Raises:
        SelectionError: A package filter names a distribution that owns no recorded kernel.
        DatabaseError: The database cannot be read.
    """
    with store.reading() as reading:
        votes = VotesByShape(reading, selection)
        check_packages(votes)
        audits = votes.audits
        overrides = Overrides(in_force(reading.rows(queries.overrides.history())))
        found = [_of_entry(shape, votes.audited_keys[shape], audits[shape], overrides) for shape in audits]
    wanted = [one for one in found if _is_wanted(one, selection)]
    return sorted(wanted, key=lambda one: (one.arch.encode(), one.kernel.encode(), one.key.encode(), one.triton))


def invariant_kernels(entries: list[EntryAudit]) -> list[str]:
    """The kernels of which every audited entry is uniform: their config cannot change results, as far as audits show."""
    uniform: dict[str, bool] = {}
    for one in entries:
        uniform[one.kernel] = uniform.get(one.kernel, True) and one.is_uniform
    return sorted(kernel for kernel, holds in uniform.items() if holds)


def findings_of(one: AuditedConfig) -> list[str]:
    """Why a candidate needs attention."""
    return [what for what, count in ((OUTSIDE, one.outside_on), (DIFFERS, one.differs_on)) if count]


def audited_fields(one: AuditedConfig) -> dict[str, Any]:
    """What audits found about a candidate, as JSON holds it."""
    return {
        "class": class_name(one.number),
        "recordings": one.recordings,
        "failed_on": one.failed_on,
        "nondeterministic_on": one.differs_on,
        "outside_tolerance_on": one.outside_on,
        "difference": one.difference,
    }


def _of_entry(shape: Shape, key: str, audits: ByRecording, overrides: Overrides) -> EntryAudit:
    arch, kernel, _, triton, package, version, device = shape
    configs = tuple(summarize(audits))
    bans = {one.config: overrides.ban_of(arch, kernel, key, one.config) for one in configs}
    pin = overrides.pin(arch, kernel, key)
    if pin is not None:
        bans.pop(pin.config, None)  # a pin of exactly this key lifts a ban of every key
    return EntryAudit(
        arch=arch,
        kernel=kernel,
        key=key,
        triton=triton,
        package=package,
        version=version,
        device=device,
        recordings=sum(not one.skipped for one in audits.values()),
        skipped=dict(Counter(one.skipped for one in audits.values() if one.skipped)),
        configs=configs,
        banned_by={config: ban.id for config, ban in bans.items() if ban},
    )


def _is_wanted(one: EntryAudit, selection: Selection) -> bool:
    asked = {name: "" if version == MISSING else version for name, version in selection.packages.items()}
    return asked.get(one.package, one.version) == one.version
