"""Is a table still good? By the votes, the overrides, the versions installed here, and its own digest."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass

from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError, TableError, printable
from tuning_registry.formats.loader import installed_triton
from tuning_registry.formats.short_configs import short_config
from tuning_registry.formats.table import TunedTable
from tuning_registry.model.names import lookup_key
from tuning_registry.model.selection import Selection
from tuning_registry.operations.differences import Comparison, Difference, compare_with_votes, stated_digest
from tuning_registry.operations.election.staleness import find_stale
from tuning_registry.operations.overrides import read_overrides


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of a table has found.

    Attributes:
        problems: One line each; none: the table is good.
        notes: What could not be checked.
        entries: Entries of the table.
        compared: The comparison with the votes; None where they gave no table.
    """

    problems: list[str]
    notes: list[str]
    entries: int
    compared: Comparison | None


def check_table(store: Store, table: TunedTable, selection: Selection, today: str | None = None,
                installed: Callable[[str], str] | None = None) -> Checked:  # fmt: skip
    """Everything that speaks against using a table as it is.

    It was edited; it differs from what the votes give (`compare_with_votes` says which votes and how); a standing
    override of its architecture has expired; entries have votes from other candidates than their newest recording; it was recorded
    with other versions than those installed here. What is not installed here is a note: a login node has no Triton.

    Args:
        store: The database.
        table: The table.
        selection: Which votes, where not those of its export.
        today: UTC day by which overrides are judged, `YYYY-MM-DD`; by default this one.
        installed: Version of a distribution here, empty for none; by default what is installed.

    Raises:
        DatabaseError: There is no registry, or it cannot be read.
    """
    problems, notes = _digest_findings(table)
    compared = None
    try:
        compared = compare_with_votes(store, table, selection)
    except (SelectionError, TableError) as error:
        problems.append(f"votes: {printable(str(error))}")
    else:
        problems += [_difference_line(one) for one in compared.differences]
    problems += _expired(store, table, today or dt.datetime.now(dt.UTC).date().isoformat())
    problems += _stale(store, table, compared.selection) if compared is not None else []
    others, unknown = _version_findings(table, installed or installed_version)
    return Checked([*problems, *others], [*notes, *unknown], sum(map(len, table.texts.values())), compared)


def _digest_findings(table: TunedTable) -> tuple[list[str], list[str]]:
    """Problems and notes."""
    stated = stated_digest(table)
    if stated is None:
        return [], ["the table states no digest: whether it was edited cannot be told"]
    if stated == table.digest:
        return [], []
    return [f"edited: the digest of its entries is {table.digest[:16]}, it states {printable(stated[:16])}"], []


def _expired(store: Store, table: TunedTable, today: str) -> list[str]:
    with store.reading() as reading:
        overrides = read_overrides(reading, table.arch)
    return [
        printable(
            f"expired: #{one.id} {one.action} of {one.kernel} {one.key} ({short_config(one.config)}), until {one.until}"
        )
        for one in overrides.standing
        if one.has_expired(today)
    ]


def _stale(store: Store, table: TunedTable, selection: Selection) -> list[str]:
    with store.reading() as reading:
        stale = find_stale(reading, selection)
    keys = {(kernel, lookup_key(key)): key for kernel, texts in table.texts.items() for key in texts}
    return [
        printable(
            f"stale: {shape[1]} {keys[shape[1:3]]}: {count} recording{'s' * (count != 1)} chose from other candidates than "
            "the newest had"
        )
        for shape, count in sorted(stale.items())
        if shape[1:3] in keys
    ]


def _version_findings(table: TunedTable, installed: Callable[[str], str]) -> tuple[list[str], list[str]]:
    """Problems and notes."""
    stated = {"triton": table.provenance.get("triton") or "", **table.packages}
    problems, notes, absent = [], [], []
    for name, version in stated.items():
        here = installed(name) if version else ""
        if not version:
            notes.append(printable(f"the table does not state its {name} version"))
        elif not here:
            absent.append(name)
        elif here.partition("+")[0] != version.partition("+")[0]:  # a local build tag is the same version
            problems.append(printable(f"version: {name} {version} recorded, {here} installed"))
    if absent:
        notes.append(printable(f"not installed here, so not compared: {', '.join(absent)}"))
    return problems, notes


def installed_version(name: str) -> str:
    """Version of a distribution in this environment, without importing it; empty when there is none."""
    if name == "triton":
        return installed_triton()
    try:
        return importlib.metadata.version(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):  # ValueError: an empty name
        return ""


def _difference_line(one: Difference) -> str:
    change = one.change
    old, new = (short_config(text) if text else "nothing" for text in (change.old, change.new))
    votes = "" if one.votes is None else f", votes {one.old_votes} -> {one.new_votes} of {one.votes}"
    slower = "" if one.slower_percent is None else f", {one.slower_percent:+.1f} % by the timings"
    cause = "" if one.override is None else f", #{one.override.id} {one.override.action}: {one.override.reason}"
    return printable(f"{change.change}: {change.kernel} {change.key}: {old} -> {new}{votes}{slower}{cause}")
