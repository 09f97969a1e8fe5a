"""Hand-ins that are not votes: counted, listed, and saved as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tuning_registry.db import queries
from tuning_registry.db.schema import PENDING, REFUSED
from tuning_registry.db.store import Store
from tuning_registry.errors import FormatError, printable
from tuning_registry.formats.files import write_atomically
from tuning_registry.formats.hand_ins import unpack_hand_in
from tuning_registry.model.canonical import text_digest
from tuning_registry.model.results import Result
from tuning_registry.wording import count_of

_SHOWN: Final = 12  # characters of an id that messages show


@dataclass(frozen=True, slots=True, kw_only=True)
class HandInCounts:
    """How many hand-ins are not votes.

    Attributes:
        pending: Those that the next fold turns into votes.
        refused: Those that it could not.
        oldest_pending_at: When the first pending one was received, UTC, ISO 8601; None if there is none.
    """

    pending: int = 0
    refused: int = 0
    oldest_pending_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RefusedHandIn(Result):
    """A hand-in that could not become votes.

    Attributes:
        id: As the rank drew it.
        received_at: When it was appended, UTC, ISO 8601.
        reason: Why it was refused.
    """

    id: str
    received_at: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Every attribute by name."""
        return {"id": self.id, "received_at": self.received_at, "reason": self.reason}

    def __str__(self) -> str:
        """One readable line."""
        return printable(self.reason)


def hand_in_name(identity: str) -> str:
    """How messages name a hand-in."""
    return f"hand-in {printable(identity[:_SHOWN])}"


def count_hand_ins(store: Store) -> HandInCounts:
    """How many hand-ins are pending, and how many were refused.

    Raises:
        DatabaseError: As `Store.reading`.
    """
    with store.reading() as reading:
        rows = {row["state"]: row for row in reading.rows(queries.hand_ins.counts())}
    pending, refused = rows.get(PENDING), rows.get(REFUSED)
    return HandInCounts(
        pending=pending["number"] if pending else 0,
        refused=refused["number"] if refused else 0,
        oldest_pending_at=pending["oldest"] if pending else None,
    )


def list_refused(store: Store) -> list[RefusedHandIn]:
    """The hand-ins that were refused, oldest first.

    Raises:
        DatabaseError: As `Store.reading`.
    """
    with store.reading() as reading:
        rows = reading.rows(queries.hand_ins.refused())
    return [RefusedHandIn(id=row["id"], received_at=row["received_at"], reason=row["error"] or "") for row in rows]


def retry_refused(store: Store) -> None:
    """Make refused hand-ins pending again, for the next fold.

    Raises:
        DatabaseError: As `Store.writing`.
    """
    with store.writing() as transaction:
        transaction.retry_refused()


def save_refused(store: Store, folder: Path) -> tuple[list[Path], list[str]]:
    """Move refused hand-ins into recording files, which `ingest` takes with its options.

    Each one is deleted from the database after its file is written. Those that hold no recording stay.

    Args:
        store: The database.
        folder: Where to write; created if necessary.

    Returns:
        The files, and why other hand-ins hold no recording.

    Raises:
        FileError: A file cannot be written.
        DatabaseError: As `Store.writing`.
    """
    files, problems = [], []
    for one in list_refused(store):
        with store.writing() as transaction:
            for row in transaction.rows(queries.hand_ins.payloads([one.id])):
                try:
                    recording = unpack_hand_in(bytes(row["payload"])).recording
                except FormatError as fault:
                    problems.append(f"{hand_in_name(one.id)}: {fault}")
                    continue
                file = folder / f"hand-in-{text_digest(one.id)[:16]}.json"  # ids come from outside
                write_atomically(file, recording)
                transaction.delete_hand_ins([one.id])
                files.append(file)
    return files, problems


def note_of(counts: HandInCounts) -> str:
    """One line about hand-ins that are not counted; empty if there are none."""
    parts = []
    if counts.pending:
        verb = "is" if counts.pending == 1 else "are"
        parts.append(
            f"{count_of(counts.pending, 'hand-in')} {verb} pending and not counted yet; registry fold counts them"
        )
    if counts.refused:
        verb = "was" if counts.refused == 1 else "were"
        parts.append(f"{count_of(counts.refused, 'hand-in')} {verb} refused; registry hand-ins shows why")
    return ". ".join(parts)
