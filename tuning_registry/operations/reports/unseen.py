"""What a pinned job would launch for a key that its table does not have, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tuning_registry.errors import printable
from tuning_registry.formats.matching import value_text
from tuning_registry.formats.short_configs import short_config
from tuning_registry.formats.table import TunedTable
from tuning_registry.formats.table_header import EXTRA, with_rule
from tuning_registry.model.canonical import load_config
from tuning_registry.model.globs import is_glob, matches_kernel
from tuning_registry.model.kinds import Kind, kind_of
from tuning_registry.model.names import ANY_KEY, bare_name
from tuning_registry.model.packages import GROUP
from tuning_registry.model.results import Result, rounded
from tuning_registry.model.slowdowns import FAILED
from tuning_registry.operations.election.tally import Winner
from tuning_registry.operations.election.winners import Election
from tuning_registry.operations.tables.evidence import make_evidence
from tuning_registry.operations.tables.export import stated_overrides
from tuning_registry.rules.near_keys import NearKey, differences, matching_keys
from tuning_registry.rules.overrides import Overrides
from tuning_registry.rules.unseen_keys import recorded_keys, suggest
from tuning_registry.wording import count_of

# In `PredictedLaunch.source`, as a job's choice log calls them.
TABLE: Final = "table"
NEAREST: Final = "nearest"
MIN_COST: Final = "min_cost"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedConfig:
    """A config that recorded keys suggest.

    Attributes:
        config: Canonical text.
        estimated_percent: How much slower than the fastest config it is expected to be; None without evidence.
        nearest_percent: How much slower than the fastest it was on the nearest key; None if it was not timed there or
            failed there.
        failed: Whether it failed on the nearest key.
        winner_of: The nearest recorded key whose winner it is; empty if there is none.
    """

    config: str
    estimated_percent: float | None
    nearest_percent: int | None
    failed: bool
    winner_of: str

    def to_dict(self) -> dict[str, Any]:
        """The config as JSON holds it."""
        return {
            "config": load_config(self.config),
            "estimated_slower_percent": rounded(self.estimated_percent),
            "slower_on_nearest_percent": self.nearest_percent,
            "failed_on_nearest": self.failed,
            "winner_of": self.winner_of or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PredictedLaunch(Result):
    """What a pinned job with `on_miss="nearest"` launches for a kernel and key.

    The job's own candidates are not known here, so every config that the recorded keys suggest counts as one.

    Attributes:
        arch, kernel, key: What is launched.
        triton, package, version, device: The version group of the votes; empty for a table and if unknown.
        config: Canonical text of the config; None if only the job's candidates decide.
        source: `table` (it has an entry), `nearest`, or `min_cost` (no recorded key can be compared).
        why: The reason, in one sentence.
        nearest: The recorded key that is nearest, with the fields in which it differs; None unless that decides.
        ranked: The configs that recorded keys suggest, best first.
        banned: Canonical texts of the configs of these keys that are banned here.
    """

    arch: str
    kernel: str
    key: str
    config: str | None
    source: str
    why: str
    triton: str = ""
    package: str = ""
    version: str = ""
    device: str = ""
    nearest: NearKey | None = None
    ranked: tuple[RankedConfig, ...] = ()
    banned: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The launch as JSON holds it."""
        return {
            "arch": self.arch,
            "kernel": self.kernel,
            "key": self.key,
            "config": load_config(self.config) if self.config else None,
            "why": self.why,
            "decided_by": self.source,
            "nearest_key": self.nearest.key if self.nearest else None,
            "ranked": [one.to_dict() for one in self.ranked],
            "banned": [load_config(text) for text in self.banned],
            **{name: getattr(self, name) for name in GROUP},
        }

    def __str__(self) -> str:
        """One readable line."""
        shown = short_config(self.config) if self.config else "no known config"
        return printable(f"{self.arch} {self.kernel} {self.key}: {shown}: {self.why}")


def predict_launches(election: Election, key: str) -> Iterator[PredictedLaunch]:
    """What jobs would launch for a key without a config, by the table that an export would write.

    One for each kernel and version group of the election. None for a pattern, and for a kernel with a `*` entry, which
    serves the key, and for configs of other kinds, which no table holds.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[Winner]] = {}
    for entry in election.entries:
        if kind_of(entry.config) is not Kind.TRITON:
            continue
        groups.setdefault((entry.kernel, entry.group), []).append(entry)
    for (kernel, _), entries in groups.items():
        texts = {entry.key: entry.config for entry in entries}
        if is_glob(key) or ANY_KEY in texts:
            continue
        evidence = make_evidence({kernel: texts}, entries, election.votes)
        table = table_of_kernel(entries[0].arch, kernel, texts, evidence.document, election.overrides)
        launch, one = predict_launch(table, kernel, key), entries[0]
        yield replace(launch, triton=one.triton, package=one.package, version=one.version, device=one.device)


def table_of_kernel(
    arch: str, kernel: str, texts: Mapping[str, str], evidence: Mapping[str, Any], overrides: Overrides
) -> TunedTable:
    """The table that an export would write, with one kernel.

    Args:
        arch: Architecture.
        kernel: Qualified name.
        texts: Canonical text of the winner of each key.
        evidence: The table's `evidence` object; empty if there is none.
        overrides: The overrides in force.
    """
    extra: dict[str, Any] = {"overrides": stated_overrides(overrides)}
    extra |= {"evidence": evidence} if evidence else {}
    configs = {kernel: {spelt: load_config(text) for spelt, text in texts.items()}}
    return TunedTable(arch, configs, {EXTRA: with_rule(extra)})


def predict_from_table(table: TunedTable, kernel: str, key: str) -> list[PredictedLaunch]:
    """What jobs launch for a key with a table.

    Args:
        table: The table.
        kernel: A qualified name, a function name, or a pattern for either. A name that the table does not have is looked
            up as a job would: by its function name.
        key: Shape key.
    """
    names = sorted(name for name in table.texts if matches_kernel(kernel, name))
    if not names and bare_name(kernel) in table.texts:
        names = [kernel]
    return [predict_launch(table, name, key) for name in names]


def predict_launch(table: TunedTable, kernel: str, key: str) -> PredictedLaunch:
    """What jobs launch for a key of one kernel with a table.

    Args:
        table: The table.
        kernel: Qualified or bare name.
        key: Shape key.
    """
    text = table.text_for(kernel, key)
    if text is not None:
        return _by_entry(table, kernel, key, text)
    names = [name for name in dict.fromkeys((kernel, bare_name(kernel))) if name in table.texts]
    known = sorted({text for name in names for text in _configs(table, name)})
    forbidden = table.bans.at(kernel, key)
    banned = tuple(text for text in known if value_text(text) in forbidden)
    left = [text for text in known if text not in banned]
    found = suggest(table, kernel, key, left)
    if found is None:
        keys = sorted(recorded for name in names for recorded in table.texts[name])
        why = (
            "a pinned job launches the candidate with the lowest static estimate (min_cost): "
            f"none of {count_of(len(keys), 'recorded key')} suggests a config"
        )
        if keys:
            why += f" (first: {keys[0]})"
        return PredictedLaunch(
            arch=table.arch, kernel=kernel, key=key, config=None, source=MIN_COST, why=why, banned=banned
        )
    by_time = bool(table.evidence.get(found.kernel))
    why = "it has the lowest expected slowdown, estimated from the timings on the nearest keys" if by_time else (
        "it is the winner of the nearest key whose winner is a candidate"
    )  # fmt: skip
    return PredictedLaunch(
        arch=table.arch,
        kernel=kernel,
        key=key,
        config=found.config,
        source=NEAREST,
        why=why,
        nearest=NearKey(found.key, differences(key, found.key)),
        ranked=_ranked(table, found.kernel, key, left, found.key),
        banned=banned,
    )


def _by_entry(table: TunedTable, kernel: str, key: str, text: str) -> PredictedLaunch:
    names = [name for name in (kernel, bare_name(kernel)) if name in table.texts]
    has_key = any(matching_keys(key, table.texts[name]) for name in names)
    why = "the table has an entry for this key" if has_key else 'the table has a "*" entry for this kernel'
    return PredictedLaunch(arch=table.arch, kernel=kernel, key=key, config=text, source=TABLE, why=why)


def _configs(table: TunedTable, name: str) -> set[str]:
    """The configs that a table's keys of one kernel suggest."""
    evidence = table.evidence.get(name)
    winners = {text for key, text in table.texts[name].items() if key != ANY_KEY}
    return winners.union(() if evidence is None else evidence.configs)


def _ranked(table: TunedTable, name: str, key: str, left: Sequence[str], near: str) -> tuple[RankedConfig, ...]:
    keys = recorded_keys(table, name)
    ranking, estimates = keys.rank(key, left), keys.estimates(key, left)
    evidence = table.evidence.get(name)
    row = evidence[near] if evidence is not None and near in evidence else {}
    winner_of: dict[str, str] = {}
    for _, recorded in keys.from_nearest(key):
        winner_of.setdefault(table.texts[name][recorded], recorded)
    return tuple(
        RankedConfig(
            config=text,
            estimated_percent=estimates.get(text),
            nearest_percent=row[text] if row.get(text, FAILED) != FAILED else None,
            failed=row.get(text) == FAILED,
            winner_of=winner_of.get(text, ""),
        )
        for text in ranking.candidates[: ranking.known]
    )
