"""The sources of curated choices, which can be withdrawn, restored and deleted like runs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuning_registry.db import queries
from tuning_registry.db.reading import Reading, Row
from tuning_registry.db.roles import DECIDE
from tuning_registry.db.schema import CURRENT, origins
from tuning_registry.db.store import Store
from tuning_registry.errors import SelectionError, printable
from tuning_registry.model.results import Result
from tuning_registry.wording import count_of, list_some


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CuratedSource(Result):
    """Files of one project, version and source text.

    Attributes:
        name: Its name, as `registry status` lists it.
        files: Number of files.
        choices: Number of choices in them.
        withdrawn_files: How many of the files were withdrawn.
    """

    name: str
    files: int
    choices: int
    withdrawn_files: int

    def to_dict(self) -> dict[str, Any]:
        """The source as JSON holds it."""
        return {name: getattr(self, name) for name in ("name", "files", "choices", "withdrawn_files")}

    def __str__(self) -> str:
        """One readable line."""
        withdrawn = f", {self.withdrawn_files:,} withdrawn" if self.withdrawn_files else ""
        files, choices = count_of(self.files, "file"), count_of(self.choices, "curated choice")
        return printable(f"{self.name}: {files} with {choices}{withdrawn}")


def source_name(row: Row) -> str:
    """The name of a file's source: its project, else its tool; the version; and the source text."""
    return " ".join(part for part in (row["project"] or row["tool"], row["version"], row["source"]) if part)


def describe_source(store: Store, name: str) -> CuratedSource:
    """What the database holds of a source.

    Raises:
        SelectionError: There is no such source.
        DatabaseError: The database cannot be read.
    """
    with store.reading() as reading:
        files = _files_of(reading, name)
    return CuratedSource(
        name=name,
        files=len(files),
        choices=sum(row["choice_count"] for row in files),
        withdrawn_files=sum(row["superseded_at"] != CURRENT for row in files),
    )


# See docs/decisions.md, D165.
def withdraw_source(store: Store, name: str, now: dt.datetime | None = None) -> bool:
    """Withdraw a source: its choices are kept but no longer compared or counted. `restore_source` reverses this.

    Args:
        store: The database.
        name: Name of the source.
        now: Time of the withdrawal, aware; by default the current time.

    Returns:
        False if all of its files were already withdrawn.

    Raises:
        SelectionError: There is no such source; nothing is changed.
        DatabaseError: The database cannot be written.
    """
    at = (now or dt.datetime.now(dt.UTC)).astimezone(dt.UTC).isoformat(timespec="microseconds")
    _check_there(store)
    with store.writing(DECIDE) as transaction:
        counting = [row["id"] for row in _files_of(transaction, name) if row["superseded_at"] == CURRENT]
        transaction.supersede(counting, at, origins)
    return bool(counting)


def restore_source(store: Store, name: str) -> bool:
    """Compare and count the choices of a withdrawn source again.

    Returns:
        False if none of its files was withdrawn.

    Raises:
        SelectionError: There is no such source; nothing is changed.
        DatabaseError: The database cannot be written.
    """
    _check_there(store)
    with store.writing(DECIDE) as transaction:
        withdrawn = [row["id"] for row in _files_of(transaction, name) if row["superseded_at"] != CURRENT]
        transaction.revive(withdrawn)
    return bool(withdrawn)


def delete_source(store: Store, name: str) -> int:
    """Delete the choices of a source, earlier states included, and the entries that nothing else refers to.

    Returns:
        How many files were deleted.

    Raises:
        SelectionError: There is no such source.
        DatabaseError: The database cannot be written.
    """
    _check_there(store)
    with store.writing(DECIDE) as transaction:
        files = len(_files_of(transaction, name))
        every = transaction.rows(queries.origins.of_files())
        transaction.delete_origins([row["id"] for row in every if source_name(row) == name])
    return files


def _files_of(reading: Reading, name: str) -> Sequence[Mapping[str, Any]]:
    """The newest state of each file of a source.

    Raises:
        SelectionError: There is no such source.
    """
    every = reading.rows(queries.origins.newest_states())
    found = [row for row in every if source_name(row) == name]
    if not found:
        known = list_some(sorted({repr(source_name(row)) for row in every}))
        raise SelectionError(f"there are no curated choices of {name!r}; sources of curated choices: {known}")
    return found


def _check_there(store: Store) -> None:
    if store.revision() is None:
        raise store.absent()
