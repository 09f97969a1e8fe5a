"""Whether a table is still good, by the votes, the overrides, the installed versions, and its digest."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError, TableError, printable
from tuning_registry.formats.loader import installed_triton
from tuning_registry.formats.table import TunedTable
from tuning_registry.model.names import lookup_key
from tuning_registry.model.results import Result
from tuning_registry.model.selection import Selection
from tuning_registry.operations.election.reasons import what_bans_leave, why_left_out
from tuning_registry.operations.election.votes_by_shape import VotesByShape
from tuning_registry.operations.election.winners import elect_entries
from tuning_registry.operations.overrides import list_overrides
from tuning_registry.operations.tables.differences import TableComparison, compare_with_votes, stated_digest
from tuning_registry.operations.tables.header_checks import check_header
from tuning_registry.operations.tables.how_made import how_made, table_held_to
from tuning_registry.wording import count_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableCheck(Result):
    """The outcome of checking a table.

    Attributes:
        problems: One line per problem; the table is good if there is none.
        notes: What could not be checked.
        entries: Entries of the table.
        compared: The comparison with the votes; None if they give no table.
    """

    problems: list[str]
    notes: list[str]
    entries: int
    compared: TableComparison | None

    @property
    def is_good(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON holds it."""
        return {"good": self.is_good, "problems": self.problems, "notes": self.notes, "entries": self.entries}

    def __str__(self) -> str:
        """One readable line."""
        if self.problems:
            return f"{count_of(len(self.problems), 'problem')} in {count_of(self.entries, 'entry')}: {self.problems[0]}"
        matches = "matches" if self.entries == 1 else "match"
        return f"OK: {count_of(self.entries, 'entry')} {matches} the votes and overrides"


# See docs/decisions.md, D37.
def check_table(store: Store, table: TunedTable, selection: Selection, today: str | None = None,
                installed: Callable[[str], str] | None = None,
                same_bits_as: TunedTable | None = None) -> TableCheck:  # fmt: skip
    """Find every reason not to use a table as it is.

    A problem is: the table was edited; an entry cannot be used; the table, header included, differs from a new export
    (`compare_with_votes` explains of which votes) or from the log of exports (`check_header`); an override of its
    architecture has expired; bans leave an entry without any recorded config; ranks chose entries from other candidates
    than their newest recording; it was recorded with other versions than those installed here. A package that is not
    installed here is a note, since a login node has no Triton.

    Args:
        store: The database.
        table: The table.
        selection: Which votes to compare with, if not those of its export.
        today: UTC day on which overrides are judged, `YYYY-MM-DD`; by default the current one.
        installed: Returns the version of a distribution here, empty if there is none; by default looks it up.
        same_bits_as: The table whose bits this one was held to. Without it, a note says that this was not checked.

    Raises:
        TableError: The table was not held to the bits of `same_bits_as`.
        DatabaseError: There is no registry, or it cannot be read.
    """
    if same_bits_as is not None:
        table_held_to(table, same_bits_as)
    problems, notes = _digest_findings(table)
    problems += [printable(f"unusable: {kernel} {key}: {why}") for (kernel, key), why in sorted(table.unusable.items())]
    compared = None
    try:
        compared = compare_with_votes(store, table, selection, same_bits_as=same_bits_as)
    except (SelectionError, TableError) as error:
        problems.append(f"votes: {printable(str(error))}")
    else:
        problems += map(str, compared.changes)
        if same_bits_as is None and how_made(table).same_bits:
            notes.append(
                "not checked: whether its configs give the bits of the table it was held to; name it with --same-bits-as"
            )
        for found in (check_header(store, table, compared.new), _bans(store, table, compared)):
            problems += found[0]
            notes += found[1]
    problems += _expired(store, table, today or dt.datetime.now(dt.UTC).date().isoformat())
    problems += _stale(store, table, compared.selection) if compared is not None else []
    others, unknown = _version_findings(table, installed or installed_version)
    return TableCheck(
        problems=[*problems, *others],
        notes=[*notes, *unknown],
        entries=sum(map(len, table.texts.values())),
        compared=compared,
    )


def _digest_findings(table: TunedTable) -> tuple[list[str], list[str]]:
    """Problems and notes."""
    stated = stated_digest(table)
    if stated is None:
        return [], ["the table states no digest, so edits cannot be detected"]
    if stated == table.digest:
        return _selection_findings(table), []
    return [f"edited: its entries have the digest {table.digest[:16]}, but it states {printable(stated[:16])}"], []


def _selection_findings(table: TunedTable) -> list[str]:
    """Problems: bans or evidence that were edited."""
    stated = stated_digest(table, "selection_digest") or table.digest
    if stated == table.selection_digest:
        return []
    found = table.selection_digest[:16]
    return [f"edited: its bans and evidence give the selection digest {found}, but it states {printable(stated[:16])}"]


def _expired(store: Store, table: TunedTable, today: str) -> list[str]:
    return [f"expired: {one}" for one in list_overrides(store) if one.arch == table.arch and one.has_expired(today)]


def _stale(store: Store, table: TunedTable, selection: Selection) -> list[str]:
    with store.reading() as reading:
        votes = VotesByShape(reading, selection)
        stale = votes.stale
    keys = {(kernel, lookup_key(key)): key for kernel, texts in table.texts.items() for key in texts}
    return [
        printable(
            f"stale: {shape[1]} {keys[shape[1:3]]}: {count_of(count, 'recording')} chose from other candidates than the "
            "newest recording"
        )
        for shape, count in sorted(stale.items())
        if shape[1:3] in keys
    ]


def _bans(store: Store, table: TunedTable, compared: TableComparison) -> tuple[list[str], list[str]]:
    """Problems and notes: the entries of which bans leave no chosen config, and what their launches get."""
    problems: list[str] = []
    notes: list[str] = []
    with store.reading() as reading:
        election = elect_entries(reading, compared.selection)
        for entry in election.left_out:
            times = election.votes.timings_by_config(entry.shape)
            left = what_bans_leave(entry, election.overrides, times, table.text_for(entry.kernel, entry.key))
            why = why_left_out(entry, election.overrides)
            line = printable(f"banned: {entry.kernel} {entry.key}: {why}; {left.text}")
            (problems if left.is_nothing else notes).append(line)
    return problems, notes


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
        elif here.partition("+")[0] != version.partition("+")[0]:  # a local build tag does not change the version
            problems.append(printable(f"version: recorded with {name} {version}, but {here} is installed"))
    if absent:
        notes.append(printable(f"versions not checked, because these are not installed here: {', '.join(absent)}"))
    return problems, notes


def installed_version(name: str) -> str:
    """The version of a distribution in this environment, without importing it; empty if there is none."""
    if name == "triton":
        return installed_triton()
    try:
        return importlib.metadata.version(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):  # ValueError: an empty name
        return ""
